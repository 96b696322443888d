"""Estimate what a language model knows of each question, by sampled closed-book answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from ....guard.contracts import LanguageModel
from ....guard.errors import KnowgateError
from ....guard.files import json_sha256
from ....guard.signals.confidence.stopping import CurtailedSampling
from ...data.answers.matching import is_right
from ...run import RowError, Stored
from ...run.calls import OnProgress, generate_each
from ...run.grouping import batched, grouped
from ...run.table import SharedLog
from ..parts import stage_progress
from ._cases import Knowledge, KnowledgeEstimate, PromptSet, Question
from .methods import UniKnowSettings

# Prompts per call of the model: what a kill can cost, and what one failure can affect.
_PROMPTS_PER_CALL = 64


def verdict(settings: UniKnowSettings, right: int, drawn: int) -> Knowledge | None:
    """Return what `drawn` answers settle, `right` of them right; None if nothing yet.

    A question is known if at least the share `tau` of `samples` answers is right, unknown if none
    is, and undefined in between. Sampling stops as soon as that is settled, and never draws
    an answer that no outcome needs.

    Example:
        >>> usual = UniKnowSettings()
        >>> verdict(usual, right=7, drawn=7), verdict(usual, right=1, drawn=5)
        (<Knowledge.KNOWN: 'known'>, <Knowledge.UNDEFINED: 'undefined'>)
        >>> verdict(usual, right=0, drawn=9) is None
        True
    """
    rule = CurtailedSampling(settings.samples, settings.tau)
    if right >= rule.matches_needed:
        return Knowledge.KNOWN
    if right and drawn - right >= rule.misses_needed:
        return Knowledge.UNDEFINED
    return Knowledge.UNKNOWN if drawn >= settings.samples else None


@lru_cache(maxsize=4096)
def _next_wave(settings: UniKnowSettings, right: int, drawn: int) -> int:
    """Return the fewest further answers that settle it in some outcome: all need these."""
    return next(
        more
        for more in range(settings.samples + 1)
        if any(verdict(settings, right + of_them, drawn + more) for of_them in range(more + 1))
    )


class EstimateRow(Stored):
    """A line of a knowledge file.

    Attributes:
        key: hash of model, prompt and what decides the samples.
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

    @staticmethod
    def key_for(model: str, prompt: str, settings: UniKnowSettings) -> str:
        """Return the key of estimates of one model under one prompt and settings.

        Args:
            model: fingerprint of the language model.
            prompt: the closed-book template.
            settings: how answers are sampled.
        """
        named = settings.model_dump(include={"tau", "temperature", "seed"})
        sampled = {"n": settings.samples, **named}
        return json_sha256({"model": model, "prompt": prompt, "settings": sampled})

    def get(self, key: str, question: Question) -> KnowledgeEstimate | None:
        """Return the stored estimate; None if there is none."""
        row = self._found.get((key, _question_key(question)))
        return None if row is None else KnowledgeEstimate(row.knowledge, row.right, row.drawn)

    def add(self, key: str, estimates: Iterable[tuple[Question, KnowledgeEstimate]]) -> None:
        """Store estimates that are new.

        Raises:
            InputError: the file cannot be written.
        """
        new = {}
        for question, (knowledge, right, drawn, _) in estimates:
            place = key, _question_key(question)
            if place not in self._found:
                about = {"key": key, "question": place[1], "question_id": question.id}
                new[place] = EstimateRow(**about, knowledge=knowledge, right=right, drawn=drawn)
        self._found |= new
        self._log.append(list(new.values()))


def _question_key(question: Question) -> str:
    # The answers belong to it: they decide what counts as known.
    asked = list(question.selecting) or question.question
    return json_sha256({"question": asked, "answers": list(question.answers)})


def estimate_knowledge(
    lm: LanguageModel,
    questions: Sequence[Question],
    prompts: PromptSet,
    *,
    settings: UniKnowSettings | None = None,
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
        settings: numbers, threshold, temperature and seed of the samples.
        store: estimates in it are not made again, and new ones are added.
        on_progress: called with the number of questions that are settled.

    Returns:
        One estimate per question id. A question that could not be asked is undefined and
        has an error; it is not stored, so that another estimate asks it again.
    """
    settings = settings or UniKnowSettings()
    advance = stage_progress(on_progress, "asking what the model knows")
    key = KnowledgeStore.key_for(lm.fingerprint, prompts.closed_book, settings)
    found = {
        one.id: stored
        for one in questions
        if store is not None and (stored := store.get(key, one)) is not None
    }
    asked = [_Asked(one, prompts) for one in questions if one.id not in found]
    while open_ones := [one for one in asked if one.question.id not in found]:
        for part in _calls(settings, open_ones):
            _ask(lm, settings, part)
            settled = [
                (one.question, estimate)
                for one in part
                if (estimate := one.estimate(settings)) is not None
            ]
            found |= {question.id: estimate for question, estimate in settled}
            if store is not None:
                store.add(key, [pair for pair in settled if pair[1].knowledge_error is None])
            advance(len(found), len(questions))
    return {question.id: found[question.id] for question in questions}


class _Asked:
    """One question, the prompts that take turns, and what was drawn so far."""

    def __init__(self, question: Question, prompts: PromptSet) -> None:
        wordings = question.selecting or (question.question,)
        self.prompts = [prompts.closed_book.format(question=text) for text in wordings]
        self.question, self.right, self.drawn = question, 0, 0
        self.error: str | None = None

    def estimate(self, settings: UniKnowSettings) -> KnowledgeEstimate | None:
        """Return the estimate once it is settled, or once the model failed."""
        settled = verdict(settings, self.right, self.drawn)
        found = settled if self.error is None else Knowledge.UNDEFINED
        if found is None:
            return None
        return KnowledgeEstimate(found, self.right, self.drawn, self.error)


def _ask(lm: LanguageModel, settings: UniKnowSettings, part: Sequence[_Asked]) -> None:
    """Draw a wave of answers to questions that are equally far."""
    first, wordings = part[0], len(part[0].prompts)
    begin = first.drawn
    end = begin + _next_wave(settings, first.right, begin)
    for turn in range(wordings):
        before, after = (len(range(turn, drawn, wordings)) for drawn in (begin, end))
        if after == before:
            continue
        rows = generate_each(
            lm,
            [one.prompts[turn] for one in part],
            n=after - before,
            temperature=settings.temperature,
            seed=settings.seed + before,
        )
        for one, row in zip(part, rows, strict=True):
            if isinstance(row, KnowgateError):
                one.error = str(RowError.of(row))
                continue
            one.drawn += len(row)
            one.right += sum(is_right(reply.text, one.question.answers) for reply in row)


def _calls(settings: UniKnowSettings, asked: Sequence[_Asked]) -> Iterator[Sequence[_Asked]]:
    """Yield the questions of each call: as many answers drawn, and as many needed."""
    alike = grouped(
        asked, lambda one: (_next_wave(settings, one.right, one.drawn), one.drawn, len(one.prompts))
    )
    for some in alike.values():
        yield from batched(some, _PROMPTS_PER_CALL)
