"""Estimate what a language model knows of each question, by sampled closed-book answers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field

from ....guard.contracts import Generation, LanguageModel
from ....guard.errors import InputError, KnowgateError
from ....guard.signals.confidence.stopping import CurtailedSampling
from ...run import RowError, Stored
from ...run.calls import OnProgress, generate_each
from ...run.grouping import grouped
from ...run.table import SharedLog
from ..parts import stage_progress
from ._cases import Knowledge, KnowledgeEstimate, PromptSet, Question
from ._matching import is_right

# Prompts per call of the model: what a kill can cost, and what one failure can affect.
_PROMPTS_PER_CALL = 64


@dataclass(frozen=True, slots=True)
class Sampling:
    """How closed-book answers are sampled, and when they settle what a model knows.

    A question is known if at least the share `tau` of `n` answers is right, unknown if none
    is, and undefined in between. Sampling stops as soon as that is settled, and never draws
    an answer that no outcome needs.

    Attributes:
        n: answers of a full estimate, at least 1.
        tau: share in (0, 1].
        temperature: of the samples, above 0.
        seed: of the first sample.

    Raises:
        InputError: a value is out of range.

    Example:
        >>> rule = Sampling()
        >>> rule.verdict(right=7, drawn=7), rule.verdict(right=1, drawn=5)
        (<Knowledge.KNOWN: 'known'>, <Knowledge.UNDEFINED: 'undefined'>)
        >>> rule.verdict(right=0, drawn=9) is None
        True
    """

    n: int = 10
    tau: float = 0.7
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InputError("must be above 0, or all samples are equal", where="temperature")
        try:
            CurtailedSampling(self.n, self.tau)
        except ValueError as error:
            raise InputError(str(error), where="n, tau") from None

    def verdict(self, right: int, drawn: int) -> Knowledge | None:
        """Return what `drawn` answers settle, `right` of them right; None if nothing yet."""
        rule, wrong = CurtailedSampling(self.n, self.tau), drawn - right
        if right >= rule.matches_needed:
            return Knowledge.KNOWN
        if right and wrong >= rule.misses_needed:
            return Knowledge.UNDEFINED
        return Knowledge.UNKNOWN if drawn >= self.n else None

    def next_wave(self, right: int, drawn: int) -> int:
        """Return the number of answers that every outcome still needs; 0 when it is settled."""
        if self.verdict(right, drawn) is not None:
            return 0
        rule, wrong = CurtailedSampling(self.n, self.tau), drawn - right
        to_undefined = max(0, rule.misses_needed - wrong) + (0 if right else 1)
        waves = [to_undefined] if to_undefined else []
        if wrong < rule.misses_needed:
            waves.append(rule.matches_needed - right)
        if not right:
            waves.append(self.n - drawn)
        return min(waves)


class EstimateRow(Stored):
    """A line of a knowledge file.

    Attributes:
        key: hash of model, prompt and sampling settings.
        question: hash of the question and its answers.
        question_id: for readers.
        knowledge: known, unknown or undefined.
        right: right answers among those drawn.
        drawn: answers drawn.
    """

    key: str
    question: str
    question_id: str = ""
    knowledge: Knowledge
    right: Annotated[int, Field(strict=True)]
    drawn: Annotated[int, Field(strict=True)]


class KnowledgeStore:
    """Estimates by model, prompt, settings and question, in a file of JSON lines.

    Several runs may share a file, also at the same time: each uses what was in it when the
    run began. What is added is on disk before `add` returns.

    Args:
        path: of the file; it is made when there is something to store.

    Raises:
        InputError: the file cannot be read, or a line of it is not an estimate.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = SharedLog(
            path, EstimateRow, opening='{"key": "', hint="remove the line or the file"
        )
        self._found = {(row.key, row.question): row for _, row in self._log.places()}

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def key_for(model: str, prompt: str, sampling: Sampling) -> str:
        """Return the key of estimates of one model under one prompt and settings.

        Args:
            model: fingerprint of the language model.
            prompt: the closed-book template.
            sampling: how answers are sampled.
        """
        return _sha256({"model": model, "prompt": prompt, "settings": asdict(sampling)})

    def get(self, key: str, question: Question) -> KnowledgeEstimate | None:
        """Return the stored estimate; None if there is none."""
        row = self._found.get((key, _question_key(question)))
        return None if row is None else KnowledgeEstimate(row.knowledge, row.right, row.drawn)

    def add(self, key: str, estimates: Iterable[tuple[Question, KnowledgeEstimate]]) -> None:
        """Store estimates that are new.

        Raises:
            InputError: the file cannot be written.
        """
        rows = {}
        for question, one in estimates:
            fields = {"key": key, "question": _question_key(question), "question_id": question.id}
            found = {"knowledge": one.knowledge, "right": one.right, "drawn": one.drawn}
            rows[key, fields["question"]] = EstimateRow(**fields, **found)
        new = {entry: row for entry, row in rows.items() if entry not in self._found}
        self._found |= new
        self._log.append(list(new.values()))


def _question_key(question: Question) -> str:
    # The answers belong to it: they decide what counts as known.
    asked = list(question.selecting) or question.question
    return _sha256({"question": asked, "answers": list(question.answers)})


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def estimate_knowledge(
    lm: LanguageModel,
    questions: Sequence[Question],
    prompts: PromptSet,
    *,
    sampling: Sampling | None = None,
    store: KnowledgeStore | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, KnowledgeEstimate]:
    """Estimate which questions the model knows, which it does not, and which are neither.

    The questions are asked closed book, in waves over all of them. The k-th answer under
    `seed` is the first one under `seed` + k, so that waves give the answers that one call
    would give. Where a question has wordings for this purpose, they take turns, and the
    k-th answer to each is drawn so. An answer is right if it equals a gold answer after
    normalisation.

    Args:
        lm: the model.
        questions: with unique ids.
        prompts: the closed-book one is used.
        sampling: numbers, threshold, temperature and seed.
        store: estimates in it are not made again, and new ones are added.
        on_progress: called with the number of questions that are settled.

    Returns:
        One estimate per question id. A question that could not be asked is undefined and
        has an error; it is not stored, so that another estimate asks it again.
    """
    sampling = sampling or Sampling()
    advance = stage_progress(on_progress, "asking what the model knows")
    key = KnowledgeStore.key_for(lm.fingerprint, prompts.closed_book, sampling)
    found: dict[str, KnowledgeEstimate] = {}
    if store is not None:
        pairs = ((question.id, store.get(key, question)) for question in questions)
        found = {name: estimate for name, estimate in pairs if estimate is not None}
    asked = [_Asked(q, prompts) for q in questions if q.id not in found]
    while open_ones := [one for one in asked if one.question.id not in found]:
        for wave, drawn, part in _calls(sampling, open_ones):
            for turn, n, first in _turns(len(part[0].prompts), wave, drawn):
                rows = generate_each(
                    lm,
                    [one.prompts[turn] for one in part],
                    n=n,
                    temperature=sampling.temperature,
                    seed=sampling.seed + first,
                )
                for one, row in zip(part, rows, strict=True):
                    one.take(row)
            settled = {
                one.question.id: (one.question, estimate)
                for one in part
                if (estimate := one.estimate(sampling)) is not None
            }
            found |= {name: estimate for name, (_, estimate) in settled.items()}
            if store is not None:
                store.add(key, [pair for pair in settled.values() if pair[1].error is None])
            advance(len(found), len(questions))
    return {question.id: found[question.id] for question in questions}


class _Asked:
    """One question, the prompts that take turns, and what was drawn so far."""

    def __init__(self, question: Question, prompts: PromptSet) -> None:
        wordings = question.selecting or (question.question,)
        self.prompts = [prompts.closed_book.format(question=text) for text in wordings]
        self.question, self.right, self.drawn = question, 0, 0
        self.error: str | None = None

    def take(self, row: list[Generation] | KnowgateError) -> None:
        """Count the generations of a wave, or note the error."""
        if isinstance(row, KnowgateError):
            self.error = str(RowError.of(row))
            return
        self.drawn += len(row)
        self.right += sum(is_right(one.text, self.question.answers) for one in row)

    def estimate(self, sampling: Sampling) -> KnowledgeEstimate | None:
        """Return the estimate once it is settled, or once the model failed."""
        verdict = sampling.verdict(self.right, self.drawn)
        if self.error is not None:
            verdict = Knowledge.UNDEFINED
        if verdict is None:
            return None
        return KnowledgeEstimate(verdict, self.right, self.drawn, self.error)


def _turns(wordings: int, wave: int, drawn: int) -> Iterator[tuple[int, int, int]]:
    """Yield wording, number of answers, and number of its first answer, for a wave.

    Example:
        >>> list(_turns(1, 7, 3)), list(_turns(2, 7, 0)), list(_turns(2, 2, 7))
        ([(0, 7, 3)], [(0, 4, 0), (1, 3, 0)], [(0, 1, 4), (1, 1, 3)])
    """
    for turn in range(wordings):
        before = len(range(turn, drawn, wordings))
        number = len(range(turn, drawn + wave, wordings)) - before
        if number:
            yield turn, number, before


def _calls(sampling: Sampling, asked: Sequence[_Asked]) -> list[tuple[int, int, list[_Asked]]]:
    """Return wave, samples drawn before it, and the questions that need it, per model call."""
    alike = grouped(
        asked, lambda one: (sampling.next_wave(one.right, one.drawn), one.drawn, len(one.prompts))
    )
    return [
        (wave, drawn, some[start : start + _PROMPTS_PER_CALL])
        for (wave, drawn, _), some in alike.items()
        for start in range(0, len(some), _PROMPTS_PER_CALL)
    ]
