"""What each trained method is shown: examples made of cases, as UniKnow builds them.

    method      contexts                              reply to learn
    retrobust   original ½, irrelevant ½              the gold answer
    kaft        original ¼, conflicting ¼,            the context's answer where it has one,
                irrelevant ½                          else the gold answer
    lm_uniknow  known + relevant ¼ (agreement and     the context's answer; the gold answer;
                conflict), parametric-only ¼,         `unknown` in the scenario unknown
                external-only ¼, unknown ¼
    dpo         as lm_uniknow                         as lm_uniknow, against what tempts

Each method is trained and asked with one and the same prompt, see `prompt_for`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

from ....calibration.training.scenarios import PreferenceExample, TrainingExample
from ....guard.decision import Scenario
from ....guard.errors import InputError
from ._cases import PAPER_KINDS, ContextKind, Knowledge, ScenarioCase
from ._datasets import PromptSet

TRAINED_METHODS = ("retrobust", "kaft", "lm_uniknow", "dpo")
UNKNOWN_REPLY = "unknown"
QUESTIONS_PER_SIDE = 250

# A part's cases by kind; kinds share their part equally.
_Part = dict[ContextKind, list[ScenarioCase]]


def prompt_for(method: str, prompts: PromptSet) -> str:
    """The template that a trained method is trained and asked with.

    A method that learns to reply `unknown` is told that it may; the others are not.

    Raises:
        InputError: no trained method has that name.
    """
    _check_method(method)
    allows = method in ("lm_uniknow", "dpo")
    return prompts.with_context_or_unknown if allows else prompts.with_context


def training_examples(
    method: str,
    cases: Sequence[ScenarioCase],
    prompts: PromptSet,
    *,
    per_side: int | None = QUESTIONS_PER_SIDE,
    abstention_share: float | None = None,
    without_kinds: Sequence[ContextKind] = (),
    seed: int = 0,
) -> list[TrainingExample]:
    """Examples for supervised training, shuffled.

    There are as many as the questions taken have cases of the paper's four kinds, whatever
    the options: a part that has fewer cases than its share has them repeated.

    Args:
        method: one of `TRAINED_METHODS`; `dpo` gives what its chosen replies would teach.
        cases: of training questions only. Questions of undefined knowledge and kinds
            beyond the paper's are left out.
        prompts: of the data set.
        per_side: at most that many known and as many unknown questions, drawn by the
            seed; None for all.
        abstention_share: share of the scenario `unknown` in the examples, in [0, 1), the
            others in equal parts; a quarter by default. For `lm_uniknow` and `dpo`.
        without_kinds: contexts left out, for ablations.
        seed: decides which questions and which repetitions, and the order.

    Raises:
        InputError: an unknown method, an option out of its range, or no cases left.
    """
    template = prompt_for(method, prompts)
    picked = _picked(method, cases, per_side, abstention_share, without_kinds, seed)
    return [TrainingExample(fill(template, case), wanted_reply(method, case)) for case in picked]


def preference_examples(
    cases: Sequence[ScenarioCase],
    prompts: PromptSet,
    *,
    made_up: Mapping[str, str] | None = None,
    per_side: int | None = QUESTIONS_PER_SIDE,
    abstention_share: float | None = None,
    without_kinds: Sequence[ContextKind] = (),
    seed: int = 0,
) -> list[PreferenceExample]:
    """Examples for preference training: the wanted reply against the one that tempts.

    What tempts is the model's own memory in a conflict, a made-up answer in the scenario
    `unknown`, and `unknown` everywhere else.

    Args:
        cases: as in `training_examples`, like all that is not named here.
        prompts: of the data set.
        made_up: by question id, what the model makes up where it does not know. Otherwise
            it is the answer of the question's conflicting context: of the right kind and
            wrong. A question that has neither is left out of the scenario `unknown`.
        per_side: questions of each side.
        abstention_share: share of the scenario `unknown`.
        without_kinds: contexts left out.
        seed: of draws and order.
    """
    invented = {
        case.question.id: case.context.answers[0]
        for case in cases
        if case.context.kind is ContextKind.CONFLICTING and case.context.answers
    } | dict(made_up or {})
    usable = [
        case
        for case in cases
        if case.scenario is not Scenario.UNKNOWN or case.question.id in invented
    ]
    template = prompt_for("dpo", prompts)
    examples = []
    for case in _picked("dpo", usable, per_side, abstention_share, without_kinds, seed):
        tempting = UNKNOWN_REPLY
        if case.scenario is Scenario.CONFLICT:
            tempting = case.question.answers[0]
        elif case.scenario is Scenario.UNKNOWN:
            tempting = invented[case.question.id]
        prompt, wanted = fill(template, case), wanted_reply("dpo", case)
        examples.append(PreferenceExample(prompt, wanted, tempting))
    return examples


def check_abstention_share(method: str, share: float | None) -> None:
    """Refuse a share that a method cannot have; None is the method's own.

    Raises:
        InputError: the method never abstains, or the share is out of its range.
    """
    if share is None:
        return
    if method not in ("lm_uniknow", "dpo"):
        raise InputError(f"{method} never abstains", where="abstention_share", hint="leave it out")
    if not 0 <= share < 1:
        raise InputError(
            f"{share} is out of range", where="abstention_share", hint="use 0 or more and below 1"
        )


def check_without_kinds(kinds: Sequence[ContextKind]) -> None:
    """Refuse to leave out a kind of context that no training holds.

    Raises:
        InputError: it is none of the paper's.
    """
    for kind in kinds:
        if kind not in PAPER_KINDS:
            raise InputError(
                f"no method is trained on contexts of the kind {kind.value}",
                where="without_kinds",
                hint=f"use some of {', '.join(PAPER_KINDS)}",
            )


def wanted_reply(method: str, case: ScenarioCase) -> str:
    """What a method learns to reply to a case.

    Raises:
        InputError: no trained method has that name.
    """
    _check_method(method)
    if method == "retrobust":
        return case.question.answers[0]
    if method != "kaft" and case.scenario is Scenario.UNKNOWN:
        return UNKNOWN_REPLY
    return case.expected[0]


def fill(template: str, case: ScenarioCase) -> str:
    """A prompt template with the case's context and question; braces in them stay as they are."""
    return template.format(context=case.context.text, question=case.question.question)


def _picked(
    method: str,
    cases: Sequence[ScenarioCase],
    per_side: int | None,
    abstention_share: float | None,
    without_kinds: Sequence[ContextKind],
    seed: int,
) -> list[ScenarioCase]:
    """The cases that a method is shown, repetitions included, shuffled."""
    _check_method(method)
    check_abstention_share(method, abstention_share)
    check_without_kinds(without_kinds)
    rng = Random(f"uniknow/training/{method}/{seed}")  # noqa: S311 - no secret
    taken = _of_questions(cases, per_side, seed)
    parts = {
        name: {kind: found for kind, found in part.items() if kind not in without_kinds}
        for name, part in _parts(method, taken).items()
    }
    parts = {name: part for name, part in parts.items() if part}
    if not parts:
        raise InputError(
            f"leaves nothing to train {method} on",
            where="cases",
            hint="give known and unknown questions with contexts",
        )
    shares = _shares(parts, abstention_share)
    quotas = _whole_numbers(
        {
            (name, kind): shares[name] / len(part)
            for name, part in parts.items()
            for kind in part
            if shares[name] > 0
        },
        len(taken),
    )
    picked = [
        case
        for (name, kind), count in quotas.items()
        for case in _repeated(parts[name][kind], count, rng)
    ]
    rng.shuffle(picked)
    return picked


def _of_questions(
    cases: Sequence[ScenarioCase], per_side: int | None, seed: int
) -> list[ScenarioCase]:
    """The cases of at most `per_side` known and `per_side` unknown questions."""
    usable = [
        case
        for case in cases
        if case.knowledge is not Knowledge.UNDEFINED and case.context.kind in PAPER_KINDS
    ]
    if per_side is None:
        return usable
    if per_side < 1:
        raise InputError(f"{per_side} is out of range", where="per_side", hint="use 1 or more")
    kept: set[tuple[str, str]] = set()
    for side in (Knowledge.KNOWN, Knowledge.UNKNOWN):
        ids = sorted({_id(case) for case in usable if case.knowledge is side})
        # The same questions for every method.
        Random(f"uniknow/training-questions/{side.value}/{seed}").shuffle(ids)  # noqa: S311
        kept.update(ids[:per_side])
    return [case for case in usable if _id(case) in kept]


def _id(case: ScenarioCase) -> tuple[str, str]:
    return case.question.dataset, case.question.id


def _parts(method: str, cases: Sequence[ScenarioCase]) -> dict[str, _Part]:
    """Cases by part and kind; parts have equal shares."""
    parts: dict[str, _Part] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        kind = case.context.kind
        relevant = bool(case.context.answers)
        if method == "retrobust":
            if kind is ContextKind.CONFLICTING:
                continue
            name = "original" if relevant else "irrelevant"
        elif method == "kaft":
            # Original and conflicting contexts as two kinds of one half.
            name = "relevant" if relevant else "irrelevant"
        elif case.scenario in (Scenario.AGREEMENT, Scenario.CONFLICT):
            name = "both"
        else:
            name = str(case.scenario)
        parts[name][kind].append(case)
    return {name: dict(part) for name, part in sorted(parts.items())}


def _shares(parts: Mapping[str, _Part], abstention_share: float | None) -> dict[str, float]:
    unknown = str(Scenario.UNKNOWN)
    if abstention_share is None or unknown not in parts or len(parts) == 1:
        return dict.fromkeys(parts, 1 / len(parts))
    rest = (1 - abstention_share) / (len(parts) - 1)
    return {name: abstention_share if name == unknown else rest for name in parts}


def _whole_numbers(
    shares: Mapping[tuple[str, ContextKind], float], total: int
) -> dict[tuple[str, ContextKind], int]:
    """Numbers in proportion to `shares` that add up to `total` (largest remainders)."""
    exact = {key: share * total for key, share in shares.items()}
    counts = {key: int(value) for key, value in exact.items()}
    left = total - sum(counts.values())
    by_remainder = sorted(exact, key=lambda key: (counts[key] - exact[key], key))
    for key in by_remainder[:left]:
        counts[key] += 1
    return counts


def _repeated(cases: Sequence[ScenarioCase], count: int, rng: Random) -> list[ScenarioCase]:
    """`count` of the cases: each as often as any other, one time more or less."""
    times, rest = divmod(count, len(cases))
    return [*(list(cases) * times), *rng.sample(list(cases), rest)]


def _check_method(method: str) -> None:
    if method not in TRAINED_METHODS:
        raise InputError(
            f"{method!r} is no trained method",
            where="method",
            hint=f"use one of {', '.join(TRAINED_METHODS)}",
        )
