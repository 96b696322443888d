"""Putting tasks to a model, batch by batch; a failure costs one row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import Generation, LanguageModel, ScoringLanguageModel
from ....guard.errors import KnowgateError, LanguageModelError
from ...judging import MultipleChoice
from ...run import RowError, each_or_error, generate_each
from ...systems import LoggedReplies
from .._prompts import PromptSet, WindowedModel
from ._instances import fitted
from ._items import EvidenceKind, Task
from ._plan import Planned, right_roles
from ._rows import (
    CLOSED_BOOK,
    REMOVES,
    AnswerForm,
    ConflictRow,
    Instance,
    Option,
    answers_named,
    names_answer,
    sentences_of,
)
from ._validation import PassageJudge

_PREFIXES: dict[AnswerForm, str] = {"letters": "", "likelihood": "score_", "free": "free_"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and whether its passages were cut to fit the model's window."""

    prompt: str
    cut: bool


class TaskPrompter:
    """Makes the prompts of the tasks.

    Args:
        prompts: texts.
        form: how answers are taken.
        lm: where it states its window, passages are cut to it.
        answer_tokens: kept free for the answer.
    """

    def __init__(
        self, prompts: PromptSet, form: AnswerForm, lm: object = None, *, answer_tokens: int = 64
    ) -> None:
        self._prompts, self._form, self._lm = prompts, form, lm
        self._answer_tokens = answer_tokens

    def ask(self, planned: Planned) -> Asked:
        """The prompt of a planned question."""
        prompt = self._prompts[self._name(planned)]
        instance = planned.instance
        passages = _passages(planned)
        values = {
            "question": instance.question,
            "options": lettered(instance.options),
            "context": "",
            "second_context": "",
        }

        def fill(texts: Sequence[str]) -> str:
            named = dict(zip(("context", "second_context"), texts, strict=False))
            return prompt.fill(**{**values, **named})

        kept = [
            [s for shown in instance.evidence.values() for s in shown.sentences] for _ in passages
        ]
        return Asked(*fitted(fill, passages, kept, self._lm, self._room(instance)))

    def _room(self, instance: Instance) -> int:
        """Tokens to keep free: an option that is a sentence can have many."""
        lm = self._lm
        if self._form != "likelihood" or not isinstance(lm, WindowedModel):
            return self._answer_tokens
        longest = max(len(lm.token_ids(f" {option.text}")) for option in instance.options)
        return max(self._answer_tokens, longest + 1)

    def _name(self, planned: Planned) -> str:
        if planned.task is Task.KF:
            return "kf"
        name = {CLOSED_BOOK: "closed", REMOVES: "alone"}.get(planned.system)
        return _PREFIXES[self._form] + (name or planned.task.value.lower())


def lettered(options: Sequence[Option]) -> str:
    """The options, one a line, each after its letter.

    Example:
        >>> lettered([Option(text="Rill", role="belief"), Option(text="Bo", role="plausible")])
        '(A) Rill\\n(B) Bo'
    """
    return "\n".join(
        f"({letter}) {option.text}"
        for letter, option in zip(MultipleChoice.LETTERS, options, strict=False)
    )


def _passages(planned: Planned) -> list[str]:
    if planned.evidence is None:
        return []
    shown = planned.instance.evidence[planned.evidence]
    if planned.task is not Task.RAG:
        return [shown.passage]
    if planned.evidence is EvidenceKind.NC:
        pair = [shown.passage, shown.second] if shown.second else halves(shown.passage)
    else:
        pair = [planned.instance.evidence[EvidenceKind.NC].passage, shown.passage]
    return pair if planned.instance.agreeing_first else pair[::-1]


def halves(passage: str) -> list[str]:
    """A passage in two, where no second one agrees; one sentence is shown alone."""
    sentences = sentences_of(passage)
    middle = (len(sentences) + 1) // 2
    return [" ".join(sentences[:middle]), " ".join(sentences[middle:])]


def instance_letters(instance: Instance, roles: frozenset[str]) -> tuple[str, ...]:
    """The letters of the options that play one of the parts."""
    return tuple(
        letter
        for letter, option in zip(MultipleChoice.LETTERS, instance.options, strict=False)
        if option.role in roles
    )


_FINAL = re.compile(r"(?:\bfinal\s+)?\banswers?\b\W{0,4}:\W{0,4}|答案\W{0,2}[:：]", re.IGNORECASE)
# A short answer's likelihood is that of giving it; among sentences the shortest would win.
_SENTENCE_WORDS = 5
_SEVERAL = (Task.PCK, Task.RAG)


class Answerer(Protocol):
    """What gives rows to planned questions."""

    def answer(self, batch: Sequence[Planned]) -> list[ConflictRow]:
        """One row per planned question, in order."""
        ...


class ModelAnswerer:
    """A language model, asked in one of three ways.

    Args:
        lm: the model; `likelihood` needs one that scores options.
        prompter: makes the prompts.
        form: how answers are taken.
        judge: reads free answers; None: by the answers' own words.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompter: TaskPrompter,
        form: AnswerForm,
        judge: PassageJudge | None = None,
    ) -> None:
        self._lm, self._prompter, self._form, self._judge = lm, prompter, form, judge

    def answer(self, batch: Sequence[Planned]) -> list[ConflictRow]:
        """One row per planned question, in order."""
        asked = [self._prompter.ask(one) for one in batch]
        # A sentence is copied, not chosen: KF is generated whatever the form.
        scored = [
            place
            for place, one in enumerate(batch)
            if self._form == "likelihood" and one.task is not Task.KF
        ]
        rows = self._scored(batch, asked, scored)
        rows |= self._generated(batch, asked, [n for n in range(len(batch)) if n not in rows])
        return [rows[place] for place in range(len(batch))]

    def _generated(
        self, batch: Sequence[Planned], asked: Sequence[Asked], places: Sequence[int]
    ) -> dict[int, ConflictRow]:
        replies = generate_each(self._lm, [asked[place].prompt for place in places])
        rows = {
            place: _reply_row(batch[place], reply, self._form, cut=asked[place].cut)
            for place, reply in zip(places, replies, strict=True)
        }
        if self._form == "free" and self._judge is not None:
            free = [place for place in places if batch[place].task is not Task.KF]
            verdicts = judged(
                self._judge, [batch[n] for n in free], [rows[place] for place in free]
            )
            rows |= dict(zip(free, verdicts, strict=True))
        return rows

    def _scored(
        self, batch: Sequence[Planned], asked: Sequence[Asked], places: Sequence[int]
    ) -> dict[int, ConflictRow]:
        lm = self._lm
        if not isinstance(lm, ScoringLanguageModel):
            if places:
                raise LanguageModelError("the model does not score options")
            return {}
        # One call per instance and size of prompt: all tasks of an instance have the same
        # options, and a short prompt beside a long one would be read at its length.
        groups: dict[tuple[str, bool, bool], list[int]] = {}
        for place in places:
            one = batch[place]
            kind = (one.instance.key, one.evidence is None, one.task is Task.RAG)
            groups.setdefault(kind, []).append(place)
        rows = {}
        for mine in groups.values():
            texts = [option.text for option in batch[mine[0]].instance.options]
            found = each_or_error(
                partial(_likelihoods, lm, texts), [asked[place].prompt for place in mine]
            )
            for place, values in zip(mine, found, strict=True):
                if isinstance(values, KnowgateError):
                    rows[place] = failed_row(
                        batch[place], RowError.of(values), cut=asked[place].cut
                    )
                else:
                    rows[place] = self._chosen(batch[place], values, asked[place].cut)
        return rows

    def _chosen(self, planned: Planned, values: Sequence[float], cut: bool) -> ConflictRow:
        letters = likeliest(values, several=planned.task in _SEVERAL)
        right = right_letters(planned)
        return ConflictRow(
            **_fields(planned), letters=letters, likelihoods=tuple(values), right=right,
            correct=letters == right, cut=cut,
        )  # fmt: skip


class ReplayAnswerer:
    """Logged replies: a question without one is a row with an error.

    Args:
        replies: see there.
        form: in which they were given.
    """

    def __init__(self, replies: LoggedReplies, form: AnswerForm) -> None:
        self._replies, self._form = replies, form

    def answer(self, batch: Sequence[Planned]) -> list[ConflictRow]:
        """One row per question, in order."""
        found = [self._replies.generation(self._replies.find(one.row_id)) for one in batch]
        return [_reply_row(*pair, self._form) for pair in zip(batch, found, strict=True)]


def _likelihoods(
    lm: ScoringLanguageModel, texts: Sequence[str], prompts: Sequence[str]
) -> list[list[float] | KnowgateError]:
    values = lm.score_options(prompts, [f" {text}" for text in texts])
    if not np.isfinite(values).all():
        raise LanguageModelError("the model gave a likelihood that is not finite")
    return [list(row) for row in (values / _lengths(lm, texts)).tolist()]


def _lengths(lm: object, texts: Sequence[str]) -> NDArray[np.float64]:
    """By what likelihoods are divided: tokens where options are sentences, 1 otherwise."""
    if not isinstance(lm, WindowedModel) or max(len(t.split()) for t in texts) < _SENTENCE_WORDS:
        return np.ones(len(texts))
    return np.array([max(1, len(lm.token_ids(f" {text}"))) for text in texts], dtype=np.float64)


def likeliest(values: Sequence[float], *, several: bool) -> tuple[str, ...]:
    """The letters that likelihoods choose.

    Args:
        values: natural-log likelihoods of the options.
        several: False for the likeliest alone; True for every option with at least an even
            share of the likelihood, since both views may be wanted.

    Example:
        >>> likeliest([-1.0, -1.2, -9.0, -9.0], several=True)
        ('A', 'B')
    """
    logs = np.asarray(values, dtype=np.float64)
    best = int(logs.argmax())
    if not several:
        return (MultipleChoice.LETTERS[best],)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    even = 1 / len(values)
    return tuple(
        letter
        for number, (letter, share) in enumerate(zip(MultipleChoice.LETTERS, shares, strict=False))
        if share >= even or number == best
    )


def right_letters(planned: Planned) -> tuple[str, ...]:
    """The letters of the right options; empty for KF."""
    return instance_letters(planned.instance, right_roles(planned.task, planned.evidence))


def _reply_row(
    planned: Planned,
    reply: list[Generation] | KnowgateError,
    form: AnswerForm,
    *,
    cut: bool = False,
) -> ConflictRow:
    if isinstance(reply, KnowgateError):
        return failed_row(planned, RowError.of(reply), cut=cut)
    return read_reply(planned, reply[0].text, form, cut=cut)


def read_reply(planned: Planned, reply: str, form: AnswerForm, *, cut: bool = False) -> ConflictRow:
    """The row of a reply: letters are parsed, free answers matched, sentences looked for."""
    fields: dict[str, Any] = {**_fields(planned), "response": reply, "cut": cut}
    if planned.task is Task.KF:
        assert planned.evidence is not None
        wanted = planned.instance.evidence[planned.evidence].sentences
        return ConflictRow(**fields, correct=names_answer(reply, wanted))
    letters: tuple[str, ...] | None
    if form == "free":
        letters = free_letters(reply, planned.instance)
    else:
        letters = MultipleChoice.parse(reply, [option.text for option in planned.instance.options])
    right = right_letters(planned)
    return ConflictRow(**fields, letters=letters, right=right, correct=letters == right)


def free_letters(reply: str, instance: Instance) -> tuple[str, ...]:
    """The options that a free reply names after its last "Answer:", or anywhere without one."""
    final = _FINAL.split(reply)[-1]
    names = [(option.text, *option.aliases) for option in instance.options]
    return tuple(MultipleChoice.LETTERS[number] for number in answers_named(final, names))


def judged(
    judge: PassageJudge, batch: Sequence[Planned], rows: Sequence[ConflictRow]
) -> list[ConflictRow]:
    """The rows with the letters that a judge reads in their free replies."""
    places = [place for place, row in enumerate(rows) if row.response is not None]
    verdicts = judge.answers(
        [
            (
                batch[place].instance.question,
                lettered(batch[place].instance.options),
                rows[place].response or "",
            )
            for place in places
        ]
    )
    found = list(rows)
    for place, verdict in zip(places, verdicts, strict=True):
        if isinstance(verdict, KnowgateError):
            update: dict[str, Any] = {
                "letters": None,
                "correct": None,
                "error": RowError.of(verdict),
            }
        else:
            update = {"letters": verdict, "correct": verdict == rows[place].right}
        found[place] = rows[place].model_copy(update=update)
    return found


def _fields(planned: Planned) -> dict[str, Any]:
    return {
        "row_id": planned.row_id,
        "system": planned.system,
        "task": planned.task,
        "evidence": planned.evidence,
        "key": planned.instance.key,
    }


def failed_row(planned: Planned, error: RowError, *, cut: bool = False) -> ConflictRow:
    """Return the row of a planned question without an answer."""
    return ConflictRow(**_fields(planned), right=right_letters(planned), cut=cut, error=error)
