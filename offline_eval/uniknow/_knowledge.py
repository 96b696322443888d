"""What a language model knows of each question, by sampled closed-book answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...guard import InputError, KnowgateError, LanguageModel
from ...guard.confidence import CurtailedSampling
from ..models import error_note, generate_each
from ._cases import Knowledge, SuiteQuestion
from ._datasets import PromptSet
from ._exact_match import is_right
from ._knowledge_store import KnowledgeEstimate, KnowledgeStore

Progress = Callable[[int, int], None]

# Prompts per call of the model: what a kill can cost, and what one failure can touch.
_PROMPTS_PER_CALL = 64


@dataclass(frozen=True, slots=True)
class KnowledgeRule:
    """When sampled answers settle what a model knows.

    A question is known where at least the share `tau` of `n` answers is right, unknown
    where none is, undefined in between. Sampling stops as soon as that is settled, and
    never draws an answer that no outcome needs.

    Attributes:
        n: answers of a full estimate, at least 1.
        tau: share in (0, 1].

    Raises:
        ValueError: one of them is out of its range.

    Example:
        >>> rule = KnowledgeRule()
        >>> rule.verdict(right=7, drawn=7), rule.verdict(right=1, drawn=5)
        (<Knowledge.KNOWN: 'known'>, <Knowledge.UNDEFINED: 'undefined'>)
        >>> rule.verdict(right=0, drawn=9) is None
        True
    """

    n: int = 10
    tau: float = 0.7

    def __post_init__(self) -> None:
        CurtailedSampling(self.n, self.tau)

    def verdict(self, right: int, drawn: int) -> Knowledge | None:
        """What `drawn` answers settle, `right` of them being right; None while nothing."""
        rule = CurtailedSampling(self.n, self.tau)
        wrong = drawn - right
        if right >= rule.matches_needed:
            return Knowledge.KNOWN
        if right and wrong >= rule.misses_needed:
            return Knowledge.UNDEFINED
        return Knowledge.UNKNOWN if drawn >= self.n else None

    def next_wave(self, right: int, drawn: int) -> int:
        """Answers that every outcome still needs; 0 when it is settled."""
        if self.verdict(right, drawn) is not None:
            return 0
        wrong = drawn - right
        rule = CurtailedSampling(self.n, self.tau)
        still_known = rule.matches_needed - right
        to_undefined = max(0, rule.misses_needed - wrong) + (0 if right else 1)
        waves = [to_undefined] if to_undefined else []
        if wrong < rule.misses_needed:
            waves.append(still_known)
        if not right:
            waves.append(self.n - drawn)
        return min(waves)


def estimate_knowledge(
    lm: LanguageModel,
    questions: Sequence[SuiteQuestion],
    prompts: PromptSet,
    *,
    n: int = 10,
    tau: float = 0.7,
    temperature: float = 1.0,
    seed: int = 0,
    store: KnowledgeStore | None = None,
    on_progress: Progress | None = None,
) -> dict[str, KnowledgeEstimate]:
    """Which questions the model knows, which it does not, and which are neither.

    The questions are asked closed book, in waves over all of them. The k-th answer under
    `seed` is the first one under `seed` + k, so that waves give the answers that one call
    would give. An answer is right when it equals a gold answer after normalisation.

    Args:
        lm: whose knowledge it is.
        questions: ids unique.
        prompts: the closed-book one is asked.
        n: answers of a full estimate, at least 1.
        tau: share of right answers in (0, 1] from which on a question is known.
        temperature: of the samples, above 0.
        seed: of the first sample.
        store: what is found there is not asked again, and what is asked goes there.
        on_progress: called with (questions settled, questions in all).

    Returns:
        One estimate per question id. A question that could not be asked is undefined and
        has an error; it is not stored, so that another estimate asks it again.

    Raises:
        InputError: an argument is out of its range.
    """
    rule = checked_rule(n, tau, temperature)
    settings = {"n": n, "tau": tau, "temperature": temperature, "seed": seed}
    found: dict[str, KnowledgeEstimate] = {}
    key = KnowledgeStore.key_for(lm.fingerprint, prompts.closed_book, settings)
    if store is not None:
        known = {question.id: store.get(key, question) for question in questions}
        found = {name: estimate for name, estimate in known.items() if estimate is not None}
    asked = [_Asked(q, prompts) for q in questions if q.id not in found]
    while open_ones := [one for one in asked if one.question.id not in found]:
        for wave, drawn, part in _calls(rule, open_ones):
            rows = generate_each(
                lm, [one.prompt for one in part], n=wave, temperature=temperature, seed=seed + drawn
            )
            settled = _settled(rule, part, rows)
            found.update((question.id, estimate) for question, estimate in settled)
            if store is not None:
                store.add(key, [pair for pair in settled if pair[1].error is None])
            if on_progress is not None:
                on_progress(len(found), len(questions))
    return {question.id: found[question.id] for question in questions}


class _Asked:
    """One question, and how its samples went so far."""

    def __init__(self, question: SuiteQuestion, prompts: PromptSet) -> None:
        self.question = question
        self.prompt = prompts.closed_book.format(question=question.question)
        self.right = self.drawn = 0
        self._error: str | None = None

    def take(self, row: object) -> None:
        """Count what a wave brought: generations, or the error in their place."""
        if isinstance(row, KnowgateError):
            self._error = error_note(row)
            return
        assert isinstance(row, list)
        self.drawn += len(row)
        self.right += sum(is_right(one.text, self.question.answers) for one in row)

    def estimate(self, rule: KnowledgeRule) -> KnowledgeEstimate | None:
        """The estimate once it is settled, or once the model failed."""
        if self._error is not None:
            return KnowledgeEstimate(Knowledge.UNDEFINED, self.right, self.drawn, self._error)
        verdict = rule.verdict(self.right, self.drawn)
        return None if verdict is None else KnowledgeEstimate(verdict, self.right, self.drawn)


def _settled(
    rule: KnowledgeRule, asked: Sequence[_Asked], rows: Sequence[object]
) -> list[tuple[SuiteQuestion, KnowledgeEstimate]]:
    """Count what a wave brought; the questions that need no other."""
    settled = []
    for one, row in zip(asked, rows, strict=True):
        one.take(row)
        estimate = one.estimate(rule)
        if estimate is not None:
            settled.append((one.question, estimate))
    return settled


def _calls(rule: KnowledgeRule, asked: Sequence[_Asked]) -> list[tuple[int, int, list[_Asked]]]:
    """Wave, samples drawn before it, and the questions that need it, per call of the model."""
    alike: dict[tuple[int, int], list[_Asked]] = defaultdict(list)
    for one in asked:
        alike[rule.next_wave(one.right, one.drawn), one.drawn].append(one)
    return [
        (wave, drawn, some[start : start + _PROMPTS_PER_CALL])
        for (wave, drawn), some in alike.items()
        for start in range(0, len(some), _PROMPTS_PER_CALL)
    ]


def checked_rule(n: int, tau: float, temperature: float) -> KnowledgeRule:
    """The rule, once its settings are in range.

    Raises:
        InputError: one of them is not.
    """
    if not temperature > 0:
        raise InputError("must be above 0, or all samples are one answer", where="temperature")
    try:
        return KnowledgeRule(n, tau)
    except ValueError as error:
        raise InputError(str(error), where="n, tau") from None
