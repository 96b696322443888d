"""Methods: ways to answer a question with a context; prompted, contrastive, or trained before.

Training examples are made of cases, as the paper describes them for each trained method.

    method      contexts                              reply to learn
    retrobust   original ½, irrelevant ½              the gold answer
    kaft        original ¼, conflicting ¼,            the context's answer if it has one,
                irrelevant ½                          else the gold answer
    lm_uniknow  known + relevant ¼ (agreement and     the context's answer; the gold answer;
                conflict), parametric-only ¼,         `unknown` in the scenario unknown
                external-only ¼, unknown ¼
    dpo         as lm_uniknow                         as lm_uniknow, preferred to a wrong reply

Each method is trained and asked with one and the same prompt, see `prompt_for`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Literal

from ....adapters.huggingface import HuggingFaceLM, LoadOptions
from ....calibration.training.scenarios.settings import (
    PreferenceExample,
    ScenarioTrainingSettings,
    TrainingExample,
)
from ....calibration.training.scenarios.training import train_scenarios
from ....guard.abstention.detector import load_rule
from ....guard.contracts import LanguageModel
from ....guard.decision import Scenario
from ....guard.errors import InputError, KnowgateError
from ...run import RowError
from ...run.calls import OnProgress, each_or_error, generate_each
from ...run.grouping import grouped
from ..parts import stage_progress
from ._cases import PAPER_KINDS, Case, ContextKind, Knowledge, PromptSet, Reply
from ._matching import is_right

_RULE = load_rule("uniknow")


Method = Callable[[Sequence[Case]], list[Reply]]
"""A way to answer cases: one reply per case, in order; of a case that failed, with its error."""


def prompted(lm: LanguageModel, template: str) -> Method:
    """Make a method that replies greedily to one prompt.

    Args:
        lm: what is asked.
        template: with `{context}` and `{question}`.
    """

    def answer(cases: Sequence[Case]) -> list[Reply]:
        rows = generate_each(lm, [case.fill(template) for case in cases])
        texts = [row if isinstance(row, KnowgateError) else row[0].text for row in rows]
        return list(map(reply_from, texts, cases))

    return answer


def prompted_method(name: str, lm: LanguageModel, prompts: PromptSet) -> Method:
    """Make `naive`, with context and question, or `prompting`, which also allows `unknown`."""
    template = prompts.with_context if name == "naive" else prompts.with_context_or_unknown
    return prompted(lm, template)


def reply_from(found: str | KnowgateError, case: Case) -> Reply:
    """Turn a model's text, or its failure, into the reply to a case.

    A text abstains if it holds one of the paper's abstention words, unless it is exactly
    an expected answer or a gold one.
    """
    if isinstance(found, KnowgateError):
        return Reply("", abstained=False, error=str(RowError.of(found)))
    text = found.strip()
    an_answer = is_right(text, case.expected) or is_right(text, case.answers)
    return Reply(text, abstained=not an_answer and _RULE.detect(text).abstained)


def contrastive_method(name: str, lm: Any, prompts: PromptSet) -> Method:
    """Make context-aware, or contextual information-entropy constraint decoding.

    Args:
        name: `cad`, `coiecd`, or `coiecd_prompt` for the prompts that allow `unknown`.
        lm: what is asked; has `generate_contrastive`, as `HuggingFaceLM` does.
        prompts: of the data set.
    """
    decoding: Literal["coiecd", "cad"] = "cad" if name == "cad" else "coiecd"
    with_context, without = prompts.with_context, prompts.closed_book
    if name == "coiecd_prompt":
        with_context, without = prompts.with_context_or_unknown, prompts.closed_book_or_unknown

    def call(cases: Sequence[Case]) -> list[str]:
        filled = [[case.fill(template) for case in cases] for template in (with_context, without)]
        found: list[str] = lm.generate_contrastive(filled[0], filled[1], decoding)
        return found

    def answer(cases: Sequence[Case]) -> list[Reply]:
        return list(map(reply_from, each_or_error(call, cases), cases))

    return answer


class RememberingMethod:
    """Ask another method once per case; failures are not kept.

    Args:
        method: what answers.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._replies: dict[str, Reply] = {}

    def remember(self, replies: Iterable[tuple[str, Reply]]) -> None:
        """Add replies by case id."""
        self._replies.update((name, reply) for name, reply in replies if reply.error is None)

    def __call__(self, cases: Sequence[Case]) -> list[Reply]:
        """Return one reply per case, in order."""
        new = [case for case in cases if case.case_id not in self._replies]
        found = self._method(new) if new else []
        fresh = {case.case_id: reply for case, reply in zip(new, found, strict=True)}
        self.remember(fresh.items())
        return [self._replies.get(case.case_id) or fresh[case.case_id] for case in cases]


_UNKNOWN_REPLY = "unknown"
_QUESTIONS_PER_SIDE = 250
# The paper's ablations of its own method.
_ABLATED_SHARES = (0.0, 0.125, 0.25, 0.375, 0.5)
_ABLATED_KINDS = (
    (ContextKind.CONFLICTING,),
    (ContextKind.RETRIEVED,),
    (ContextKind.CONFLICTING, ContextKind.RETRIEVED),
)


class TrainedMethod(StrEnum):
    """A method that trains an adapter of the model."""

    LM_UNIKNOW = "lm_uniknow"
    KAFT = "kaft"
    RETROBUST = "retrobust"
    DPO = "dpo"

    @property
    def abstains(self) -> bool:
        """Whether it learns to reply `unknown`."""
        return self in (TrainedMethod.LM_UNIKNOW, TrainedMethod.DPO)


@dataclass(frozen=True, slots=True)
class TrainedVariant:
    """A trained method, with its usual training or another one.

    Attributes:
        method: what is trained.
        abstention_share: share of the scenario `unknown` in the examples, in [0, 1), the
            others in equal parts; None for the usual quarter. Only for methods that abstain.
        without_kinds: kinds of contexts that are left out of the training.
    """

    method: TrainedMethod
    abstention_share: float | None = None
    without_kinds: tuple[ContextKind, ...] = ()

    @property
    def name(self) -> str:
        """Name of the variant in rows.

        Example:
            >>> TrainedVariant(TrainedMethod.LM_UNIKNOW, abstention_share=0.25).name
            'lm_uniknow@abstention=0.25'
        """
        if self.abstention_share is not None:
            return f"{self.method}@abstention={self.abstention_share:g}"
        if self.without_kinds:
            return f"{self.method}@without={'+'.join(self.without_kinds)}"
        return self.method.value


def ablation_variants() -> tuple[TrainedVariant, ...]:
    """Return the paper's ablations: other shares of abstention, and contexts left out."""
    ablated = TrainedMethod.LM_UNIKNOW
    return (
        *(TrainedVariant(ablated, abstention_share=share) for share in _ABLATED_SHARES),
        *(TrainedVariant(ablated, without_kinds=kinds) for kinds in _ABLATED_KINDS),
    )


def prompt_for(method: TrainedMethod, prompts: PromptSet) -> str:
    """Return the template that a method is trained and asked with.

    Only methods that learn to reply `unknown` have a prompt that allows it.
    """
    if method.abstains:
        return prompts.trained_or_unknown or prompts.with_context_or_unknown
    return prompts.trained or prompts.with_context


def training_examples(
    variant: TrainedVariant,
    cases: Sequence[Case],
    prompts: PromptSet,
    *,
    per_side: int = _QUESTIONS_PER_SIDE,
    seed: int = 0,
) -> list[TrainingExample]:
    """Make examples for supervised training, shuffled.

    Their number is that of the paper's four contexts of the questions taken, whatever the
    variant: a part with fewer cases than its share has them repeated.

    Args:
        variant: what is trained; `dpo` gives what its preferred replies would teach.
        cases: of training questions only. Questions of undefined knowledge and kinds of
            contexts beyond the paper are left out.
        prompts: of the data set.
        per_side: at most that many known and as many unknown questions, drawn by the seed.
        seed: decides which questions and which repetitions, and the order.

    Raises:
        InputError: no cases are left.
    """
    template = prompt_for(variant.method, prompts)
    return [
        TrainingExample(case.fill(template), wanted_reply(variant.method, case))
        for case in _picked(variant, cases, per_side, seed)
    ]


def preference_examples(
    variant: TrainedVariant,
    cases: Sequence[Case],
    prompts: PromptSet,
    *,
    per_side: int = _QUESTIONS_PER_SIDE,
    seed: int = 0,
) -> list[PreferenceExample]:
    """Make examples for preference training: the wanted reply and a wrong one.

    The wrong reply is the gold answer in a conflict, the answer of the question's
    conflicting context in the scenario `unknown`, and `unknown` everywhere else. A question
    without a conflicting context is left out of the scenario `unknown`.

    Args:
        variant: of the method `dpo`.
        cases: as in `training_examples`, like everything below.
        prompts: of the data set.
        per_side: questions of each side.
        seed: of draws and order.
    """
    invented = {
        case.question_id: case.context_answers[0]
        for case in cases
        if case.context_kind is ContextKind.CONFLICTING and case.context_answers
    }
    usable = [
        case
        for case in cases
        if case.scenario is not Scenario.UNKNOWN or case.question_id in invented
    ]
    template = prompt_for(variant.method, prompts)
    examples = []
    for case in _picked(variant, usable, per_side, seed):
        rejected = _UNKNOWN_REPLY
        if case.scenario is Scenario.CONFLICT:
            rejected = case.answers[0]
        elif case.scenario is Scenario.UNKNOWN:
            rejected = invented[case.question_id]
        wanted = wanted_reply(variant.method, case)
        examples.append(PreferenceExample(case.fill(template), wanted, rejected))
    return examples


def wanted_reply(method: TrainedMethod, case: Case) -> str:
    """Return the reply that a method learns for a case."""
    if method is TrainedMethod.RETROBUST:
        return case.answers[0]
    if method.abstains and case.scenario is Scenario.UNKNOWN:
        return _UNKNOWN_REPLY
    return case.expected[0]


def _picked(variant: TrainedVariant, cases: Sequence[Case], per_side: int, seed: int) -> list[Case]:
    """Return the cases that a method is trained on, repetitions included, shuffled."""
    method = variant.method
    rng = Random(f"uniknow/training/{method}/{seed}")  # noqa: S311 - no secret
    taken = _of_questions(cases, per_side, seed)
    usable = (case for case in taken if case.context_kind not in variant.without_kinds)
    # Parts have equal shares, and share them equally among their kinds.
    found = grouped(usable, lambda case: (_part_of(method, case), case.context_kind))
    groups = {key: found[key] for key in sorted(found, key=lambda key: key[0]) if key[0]}
    if not groups:
        raise InputError(
            f"leaves nothing to train {method} on",
            where="cases",
            hint="give known and unknown questions with contexts",
        )
    kinds = Counter(part for part, _ in groups)
    shares = _shares(kinds, variant.abstention_share)
    quotas = _whole_numbers(
        {(part, kind): shares[part] / kinds[part] for part, kind in groups if shares[part] > 0},
        len(taken),
    )
    picked = [case for key, count in quotas.items() for case in _repeated(groups[key], count, rng)]
    rng.shuffle(picked)
    return picked


def _of_questions(cases: Sequence[Case], per_side: int, seed: int) -> list[Case]:
    """Return the cases of at most `per_side` known and `per_side` unknown questions."""
    usable = [
        case
        for case in cases
        if case.knowledge is not Knowledge.UNDEFINED and case.context_kind in PAPER_KINDS
    ]
    kept: set[tuple[str, str]] = set()
    for side in (Knowledge.KNOWN, Knowledge.UNKNOWN):
        ids = sorted({case.question_key for case in usable if case.knowledge is side})
        # The same questions for every method.
        Random(f"uniknow/training-questions/{side.value}/{seed}").shuffle(ids)  # noqa: S311
        kept.update(ids[:per_side])
    return [case for case in usable if case.question_key in kept]


def _part_of(method: TrainedMethod, case: Case) -> str:
    """Return the part of the training that a case belongs to; empty for none."""
    relevant = bool(case.context_answers)
    if method is TrainedMethod.RETROBUST:
        if case.context_kind is ContextKind.CONFLICTING:
            return ""
        return "original" if relevant else "irrelevant"
    if method is TrainedMethod.KAFT:
        # Original and conflicting contexts are two kinds of one half.
        return "relevant" if relevant else "irrelevant"
    both = case.scenario in (Scenario.AGREEMENT, Scenario.CONFLICT)
    return "both" if both else str(case.scenario)


def _shares(parts: Collection[str], abstention_share: float | None) -> dict[str, float]:
    unknown = str(Scenario.UNKNOWN)
    if abstention_share is None or unknown not in parts or len(parts) == 1:
        return dict.fromkeys(parts, 1 / len(parts))
    rest = (1 - abstention_share) / (len(parts) - 1)
    return {name: abstention_share if name == unknown else rest for name in parts}


def _whole_numbers(
    shares: Mapping[tuple[str, ContextKind], float], total: int
) -> dict[tuple[str, ContextKind], int]:
    """Return numbers in proportion to `shares` that add up to `total` (largest remainders)."""
    exact = {key: share * total for key, share in shares.items()}
    counts = {key: int(value) for key, value in exact.items()}
    left = total - sum(counts.values())
    by_remainder = sorted(exact, key=lambda key: (counts[key] - exact[key], key))
    for key in by_remainder[:left]:
        counts[key] += 1
    return counts


def _repeated(cases: Sequence[Case], count: int, rng: Random) -> list[Case]:
    """Return `count` cases: each as often as any other, give or take one."""
    times, rest = divmod(count, len(cases))
    return [*(list(cases) * times), *rng.sample(list(cases), rest)]


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trains the methods of a run and loads them.

    Attributes:
        lm: the base model, from a folder; adapted ones are asked in the same way.
        cases: of training questions.
        prompts: of the data set.
        folder: holds the adapters, one folder per training.
        settings: of supervised training.
        preference_settings: of preference training.
        seed: of draws, order and first weights.
    """

    lm: HuggingFaceLM
    cases: Sequence[Case]
    prompts: PromptSet
    folder: Path
    settings: ScenarioTrainingSettings
    preference_settings: ScenarioTrainingSettings
    seed: int = 0

    def method(self, variant: TrainedVariant, on_progress: OnProgress | None = None) -> Method:
        """Train the variant, unless its adapter exists, and load it; raises as `train`."""
        adapted = HuggingFaceLM(
            self.lm.name,
            device=self.lm.device,
            dtype=self.lm.dtype,
            max_new_tokens=self.lm.max_new_tokens,
            stop=self.lm.stop,
            batch_size=self.lm.batch_size,
            adapter=self.train(variant, on_progress),
            loading=LoadOptions(chat_template=self.lm.uses_chat_template),
        )
        return prompted(adapted, prompt_for(variant.method, self.prompts))

    def train(self, variant: TrainedVariant, on_progress: OnProgress | None = None) -> Path:
        """Train the variant, unless its adapter exists, and return the adapter's folder.

        Raises:
            InputError: nothing to train on, or the folder holds another training.
            DeviceError: the device is not there.
            TrainingDivergedError: the loss is not a finite number any more.
        """
        advance = stage_progress(on_progress, f"training {variant.name}")
        usual = TrainedVariant(variant.method)
        make: Callable[..., Any] = training_examples
        settings = self.settings
        if variant.method is TrainedMethod.DPO:
            make, settings = preference_examples, self.preference_settings
        examples = make(variant, self.cases, self.prompts, seed=self.seed)
        # An ablation at the usual share is the usual training, and is done once.
        same = variant != usual and examples == make(
            usual, self.cases, self.prompts, seed=self.seed
        )
        folder = self.folder / (usual if same else variant).name
        train_scenarios(
            self.lm.name, examples, folder, settings=settings, seed=self.seed, on_progress=advance
        )
        return folder
