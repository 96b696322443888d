"""Methods: ways to answer a question with a context; prompted, contrastive, trained or guarded.

Training examples are made of cases, as the paper describes them for each trained method.

    method      contexts                              reply to learn
    retrobust   original ½, irrelevant ½              the gold answer
    kaft        original ¼, conflicting ¼,            the context's answer if it has one,
                irrelevant ½                          else the gold answer
    lm_uniknow  known + relevant ¼ (agreement and     the context's answer; the gold answer;
                conflict), parametric-only ¼,         `unknown` in the scenario unknown
                external-only ¼, unknown ¼
    dpo         as lm_uniknow                         as lm_uniknow, preferred to a wrong reply

Each method is trained and asked with one and the same prompt. The paper's ablations of its own
method have names of their own: `lm_uniknow@abstention=0.25` has another share of the scenario
`unknown` in the examples, `lm_uniknow@without=conflicting` leaves kinds of contexts out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field, field_validator

from ....adapters.huggingface import HuggingFaceLM
from ....calibration.statistics import SMALLEST_PROBABILITY
from ....calibration.training.scenarios import (
    TrainingExample,
)
from ....guard.abstention.detector import load_rule
from ....guard.contracts import LanguageModel
from ....guard.decision import Scenario
from ....guard.errors import InputError, KnowgateError
from ...data.answers.matching import is_right
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...run.grouping import grouped
from ..parts import SuiteSettings
from ._bundled import MICROWORLD
from ._cases import (
    PAPER_KINDS,
    Case,
    ContextKind,
    Knowledge,
    Method,
    PromptSet,
    Reply,
)
from ._contexts import PASSAGES


class TrainedMethod(StrEnum):
    """A method that trains an adapter of the model."""

    LM_UNIKNOW = "lm_uniknow"
    KAFT = "kaft"
    RETROBUST = "retrobust"
    DPO = "dpo"

    @classmethod
    def named(cls, name: str) -> TrainedMethod:
        """Return the method of that name, or of which that is an ablation."""
        return cls(name.partition("@")[0])

    @property
    def abstains(self) -> bool:
        """Whether it learns to reply `unknown`."""
        return self in (TrainedMethod.LM_UNIKNOW, TrainedMethod.DPO)

    def prompt(self, prompts: PromptSet) -> str:
        """Return the template that it is trained and asked with; `unknown` if it learns that."""
        if self.abstains:
            return prompts.trained_or_unknown or prompts.with_context_or_unknown
        return prompts.trained or prompts.with_context


_PROMPTED = ("naive", "prompting")
_CONTRASTIVE = ("cad", "coiecd", "coiecd_prompt")
GUARDED = ("guard_naive", "guard_coiecd")
METHOD_NAMES = (*_PROMPTED, *_CONTRASTIVE, "retrobust", "kaft", "lm_uniknow", *GUARDED)
ALL_METHODS = "all"
# `dpo` is no part of `all`: it goes beyond the paper's comparison.
_KNOWN = (*METHOD_NAMES, "dpo")
_ABLATIONS = (
    *(f"lm_uniknow@abstention={share:g}" for share in (0.0, 0.125, 0.25, 0.375, 0.5)),
    *(f"lm_uniknow@without={kinds}" for kinds in ("conflicting", "retrieved")),
    "lm_uniknow@without=conflicting+retrieved",
)


def choose_methods(
    names: Sequence[str], lm: LanguageModel | None, *, ablations: bool = False
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Choose the methods asked for that the model allows.

    Args:
        names: of methods, or `all`, which leaves out what the model does not allow.
        lm: what is asked; None for one that allows all.
        ablations: also train `lm_uniknow` on other data.

    Returns:
        The methods in the order of the rows, ablations last; and those that `all` asks for and
        that are not possible, with the reason.

    Raises:
        InputError: a method asked for by name, or the ablations, cannot be run.
    """
    wanted = {*names, *(METHOD_NAMES if ALL_METHODS in names else ())}
    ordered = [name for name in _KNOWN if name in wanted]
    ordered += _ABLATIONS if ablations else ()
    left_out = {name: why for name in ordered if lm is not None and (why := _why_not(name, lm))}
    for name in left_out if ALL_METHODS not in names else ():
        hint = "leave the method out, or use a local model"
        raise InputError(left_out[name], where=name, hint=hint)
    return tuple(name for name in ordered if name not in left_out), left_out


def is_trained(name: str) -> bool:
    """Return whether a method, or an ablation of one, trains an adapter."""
    return name.partition("@")[0] in set(TrainedMethod)


def _why_not(name: str, lm: LanguageModel) -> str:
    """Return why a model does not allow a method; empty if it does."""
    kind = type(lm).__name__
    contrastive = name.removeprefix("guard_") in _CONTRASTIVE
    if contrastive and not hasattr(lm, "generate_contrastive"):
        return f"a {kind} does not show its next-token scores (it has no generate_contrastive)"
    if is_trained(name) and not isinstance(lm, HuggingFaceLM):
        return f"the weights of a {kind} cannot be trained here"
    if is_trained(name) and not Path(getattr(lm, "name", "")).is_dir():
        return "training needs the folder of the model"
    return ""


_RULE = load_rule("uniknow")


def reply_from(found: str | Exception, case: Case) -> Reply:
    """Turn a model's text, or its failure, into the reply to a case.

    A text abstains if it holds one of the paper's abstention words, unless it is exactly
    an expected answer or a gold one.
    """
    if isinstance(found, Exception):
        return Reply("", abstained=False, error=str(RowError.of(found)))
    text = found.strip()
    an_answer = is_right(text, case.expected) or is_right(text, case.answers)
    return Reply(text, abstained=not an_answer and _RULE.detect(text).abstained)


def prompted(lm: LanguageModel, template: str, cases: Sequence[Case]) -> list[Reply]:
    """Reply greedily to one prompt."""
    rows = generate_each(lm, [case.fill(template) for case in cases])
    texts = [row if isinstance(row, KnowgateError) else row[0].text for row in rows]
    return list(map(reply_from, texts, cases))


def untrained(name: str, lm: Any, prompts: PromptSet) -> Method:
    """Make a method that asks the model as it is.

    `naive` gets context and question, `prompting` may also reply `unknown`; `cad` is
    context-aware decoding, `coiecd` contextual information-entropy constraint decoding, and
    `coiecd_prompt` the same with the prompts that allow `unknown`.

    Args:
        name: of the method.
        lm: what is asked; for decoding it has `generate_contrastive`, as `HuggingFaceLM` does.
        prompts: of the data set.
    """
    with_context, without = prompts.with_context, prompts.closed_book
    if name in ("prompting", "coiecd_prompt"):
        with_context, without = prompts.with_context_or_unknown, prompts.closed_book_or_unknown
    if name in _PROMPTED:
        return partial(prompted, lm, with_context)

    def call(cases: Sequence[Case]) -> list[str]:
        filled = [[case.fill(template) for case in cases] for template in (with_context, without)]
        return list(lm.generate_contrastive(*filled, name.removesuffix("_prompt")))

    return lambda cases: list(map(reply_from, each_or_error(call, cases), cases))


_UNKNOWN_REPLY = "unknown"


def training_examples(
    name: str, cases: Sequence[Case], prompts: PromptSet, *, seed: int = 0
) -> list[TrainingExample]:
    """Make examples for training, shuffled; for `dpo` the wanted reply and a wrong one.

    Their number is that of the paper's four contexts of the questions, whatever the
    method: a part with fewer cases than its share has them repeated.

    The wrong reply is the gold answer in a conflict, the answer of the question's
    conflicting context in the scenario `unknown`, and `unknown` everywhere else. A question
    without a conflicting context is left out of the scenario `unknown`.

    Args:
        name: of a trained method, or of an ablation.
        cases: of training questions only. Questions of undefined knowledge and kinds of
            contexts beyond the paper are left out.
        prompts: of the data set.
        seed: decides the repetitions and the order.

    Raises:
        InputError: no cases are left.
    """
    method = TrainedMethod.named(name)
    template, wrong = method.prompt(prompts), dict[str, str | None]()
    if method is TrainedMethod.DPO:
        tempting = {
            case.question_id: case.context_answers[0]
            for case in cases
            if case.context_kind is ContextKind.CONFLICTING and case.context_answers
        }
        wrong = {case.case_id: _rejected_reply(case, tempting) for case in cases}
        cases = [case for case in cases if wrong[case.case_id] is not None]
    return [
        TrainingExample(case.fill(template), wanted_reply(method, case), wrong.get(case.case_id))
        for case in _picked(name, cases, seed)
    ]


def _rejected_reply(case: Case, tempting: Mapping[str, str]) -> str | None:
    """Return the wrong reply to a case; None where there is none.

    Args:
        case: of a training question.
        tempting: answers of conflicting contexts, by question.
    """
    if case.scenario is Scenario.UNKNOWN:
        return tempting.get(case.question_id)
    return case.answers[0] if case.scenario is Scenario.CONFLICT else _UNKNOWN_REPLY


def wanted_reply(method: TrainedMethod, case: Case) -> str:
    """Return the reply that a method learns for a case."""
    if method is TrainedMethod.RETROBUST:
        return case.answers[0]
    if method.abstains and case.scenario is Scenario.UNKNOWN:
        return _UNKNOWN_REPLY
    return case.expected[0]


def _picked(name: str, cases: Sequence[Case], seed: int) -> list[Case]:
    """Return the cases that a method is trained on, repetitions included, shuffled."""
    method, changed = TrainedMethod.named(name), name.partition("@")[2]
    rng = Random(f"uniknow/training/{method}/{seed}")  # noqa: S311 - no secret
    taken = [
        case
        for case in cases
        if case.knowledge is not Knowledge.UNDEFINED and case.context_kind in PAPER_KINDS
    ]
    without = changed.removeprefix("without=").split("+")
    # Parts have equal shares, and share them equally among their kinds.
    found = grouped(
        (case for case in taken if case.context_kind not in without),
        lambda case: (_part_of(method, case), case.context_kind),
    )
    groups = {key: found[key] for key in sorted(found, key=lambda key: key[0]) if key[0]}
    if not groups:
        what, hint = f"leaves nothing to train {method} on", "give known and unknown questions"
        raise InputError(what, where="cases", hint=f"{hint} with contexts")
    kinds = Counter(part for part, _ in groups)
    shares = dict.fromkeys(kinds, 1 / len(kinds))
    if changed.startswith("abstention=") and str(Scenario.UNKNOWN) in kinds and len(kinds) > 1:
        abstention = float(changed.removeprefix("abstention="))
        shares = dict.fromkeys(kinds, (1 - abstention) / (len(kinds) - 1))
        shares[str(Scenario.UNKNOWN)] = abstention
    quotas = _whole_numbers(
        {(part, kind): shares[part] / kinds[part] for part, kind in groups if shares[part] > 0},
        len(taken),
    )
    picked = []
    for key, count in quotas.items():
        # Each case as often as any other, give or take one.
        times, rest = divmod(count, len(groups[key]))
        picked += [*(groups[key] * times), *rng.sample(groups[key], rest)]
    rng.shuffle(picked)
    return picked


def _part_of(method: TrainedMethod, case: Case) -> str:
    """Return the part of the training that a case belongs to; empty for none."""
    if method.abstains:
        both = case.scenario in (Scenario.AGREEMENT, Scenario.CONFLICT)
        return "both" if both else str(case.scenario)
    if method is TrainedMethod.RETROBUST and case.context_kind is ContextKind.CONFLICTING:
        return ""
    # Of `kaft`, original and conflicting contexts are two kinds of one half.
    return "relevant" if case.context_answers else "irrelevant"


def _whole_numbers(
    shares: Mapping[tuple[str, ContextKind], float], total: int
) -> dict[tuple[str, ContextKind], int]:
    """Return numbers in proportion to `shares` that add up to `total` (largest remainders)."""
    exact = {key: share * total for key, share in shares.items()}
    counts = {key: int(value) for key, value in exact.items()}
    left = total - sum(counts.values())
    for key in sorted(exact, key=lambda key: (counts[key] - exact[key], key))[:left]:
        counts[key] += 1
    return counts


_Share = Annotated[float, Field(ge=SMALLEST_PROBABILITY, le=1 - SMALLEST_PROBABILITY)]
# Needs no training, and is the best of the bundled scorers on contexts of about 100 words that
# were retrieved wrongly: AUROC .991 on the microworld.
_GUARD_SCORER = "late_interaction"


class UniKnowSettings(SuiteSettings):
    """Settings of a run of the suite.

    Attributes:
        data: microworld, facts (the bundled list of short questions), or a file of questions (MRQA,
            SQuAD or JSON lines).
        model: embedded, smollm2, a model folder, gguf:FILE, a hub name, provider:model, or
            python:module:attribute.
        methods: all, or names of methods with commas between them.
        knowledge: File that stores what models know, shared by runs; by default in the run folder.
        limit: Use at most that many questions.
        questions_per_side: Evaluate at most that many known and as many unknown questions, evenly
            spaced over the data set.
        defined_only: Leave out questions that the model answers rightly at times; they count in Acc
            and Rely only.
        samples: Closed-book answers that settle what the model knows.
        tau: Share of right answers from which on a question is known.
        temperature: Temperature of these answers.
        risk: Share that guards may let through where neither context nor model has the answer.
        delta: Probability that the guarantee of the guards fails by chance.
        ablations: Also train lm_uniknow on other data.
        beyond: Also use contexts of several passages, and untrue ones.
        passages_per_context: Passages of the contexts with several.
        scorer: Scorer of the guards, by name, folder or judge:MODEL.
        answer_tokens: The most tokens an answer of a local model may have.
        rank: Rank of trained adapters; by default what suits.
        epochs: Epochs of training; by default what suits.
        training_steps: Steps after which each training ends; by default all.
        learning_rate: Peak rate of training; by default what suits.
        dtype: Precision of a local model: auto, or a torch name, e.g. bfloat16.
        seed: Random seed.

    Raises:
        InputError: a method is unknown, or none is named.
        ValidationError: a number is out of range.
    """

    data: str = MICROWORLD
    model: str = "embedded"
    methods: tuple[str, ...] = (ALL_METHODS,)
    knowledge: Path | None = None
    questions_per_side: int | None = Field(None, ge=1)
    defined_only: bool = False
    samples: int = Field(10, ge=1)
    tau: float = Field(0.7, gt=0, le=1)
    temperature: float = Field(1.0, gt=0)
    risk: _Share = 0.1
    delta: _Share = 0.1
    ablations: bool = False
    beyond: bool = False
    passages_per_context: int = Field(PASSAGES, ge=2)
    scorer: str = _GUARD_SCORER
    answer_tokens: int = Field(24, ge=1)
    rank: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)
    training_steps: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)
    dtype: str = "auto"
    seed: int = 0

    @field_validator("methods", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        names = [name.strip() for text in value for name in text.split(",") if name.strip()]
        known = (*_KNOWN, ALL_METHODS)
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            what = f"unknown method {unknown[0]!r}" if unknown else "no method is named"
            raise InputError(what, where="methods", hint=f"one or several of: {', '.join(known)}")
        return names

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return tuple(ContextKind) if self.beyond else PAPER_KINDS
