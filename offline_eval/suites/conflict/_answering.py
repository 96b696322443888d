"""Options in balanced places, prompts that fit, and replies of a model or a log, batch by batch."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import Generation, LanguageModel, ScoringLanguageModel
from ....guard.errors import InputError, KnowgateError, LanguageModelError
from ....guard.matching import canonical_answer
from ...judging.multiple_choice import MultipleChoice
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...systems.logged_replies import LogEntry, LoggedReplies
from .._prompts import PromptSet, WindowedModel
from ._rows import (
    CLOSED_BOOK,
    REMOVES,
    AnswerForm,
    Case,
    ConflictRow,
    EvidenceRow,
    Instance,
    Option,
    Role,
    Shown,
    answering_sentences,
    answers_named,
    names_answer,
    right_roles,
    sentences_of,
)
from .evidence import Believed, PassageJudge
from .items import CONFLICTS, Candidate, EvidenceKind, Task

_HINT = (
    'each line needs "response", and "row_id" (`model/CK/HPC/<key>`) or "key" with "task" and '
    '"evidence"'
)


def read_replies(path: str | os.PathLike[str]) -> LoggedReplies:
    """Read logged replies, which then take the place of a model; their keys are row ids.

    Args:
        path: JSON lines with `response`, and either `row_id` as in `rows.jsonl` or `key`,
            `task` and `evidence` (none for `closed_book` and `guard_removes`), with `system`
            where it is not `model`.

    Raises:
        InputError: a line is broken, or answers a question again in other words.
    """
    return LoggedReplies(path, _entry, hint=_HINT)


def _entry(line: Mapping[str, Any]) -> LogEntry:
    row_id, key, task = line.get("row_id"), line.get("key"), line.get("task")
    if not isinstance(row_id, str):
        if not isinstance(key, str) or not isinstance(task, str):
            raise InputError("is not a logged reply")
        row_id = f"{line.get('system', 'model')}/{task}/{line.get('evidence') or '-'}/{key}"
    return LogEntry(row_id, line.get("response"))


_OPTIONS = 4
# Answers of other questions that are looked at for one place.
_LENDERS = 256


def make_instances(
    believed: Sequence[Believed], evidence: Sequence[EvidenceRow], seed: int
) -> list[Instance]:
    """The instances: questions with a used passage that agrees and one that contradicts.

    The options are the belief, the plausible rival, the implausible answer, and wrong answers
    for what is missing: the item's own distractors, its further answers, or those of other
    questions. Of every four instances in a row each part stands in each place once, so that
    each letter is right equally often in every task over every kind that all of them have.

    Args:
        believed: questions in order.
        evidence: their passages; those that are not accepted are left out.
        seed: of places, borrowed answers and the order of passages in RAG.
    """
    used: dict[str, dict[EvidenceKind, EvidenceRow]] = {}
    for row in evidence:
        if row.accepted:
            used.setdefault(row.key, {})[row.kind] = row
    ready = [
        one
        for one in believed
        if EvidenceKind.NC in (found := used.get(one.item.key, {}))
        and any(kind in found for kind in CONFLICTS)
    ]
    lenders = [answer for one in believed for answer in one.item.answers if not answer.implausible]
    parts = [_parts(one, used[one.item.key], lenders, seed) for one in ready]
    instances = []
    rng = Random(f"{seed}/places")  # noqa: S311 - a draw, no secret
    order, firsts = list(range(_OPTIONS)), [True, False]
    for number, (one, options) in enumerate(zip(ready, parts, strict=True)):
        if number % _OPTIONS == 0:
            rng.shuffle(order)
        if number % len(firsts) == 0:
            rng.shuffle(firsts)
        # Turned by one place each: a Latin square per four instances.
        places = [order[(place + number) % _OPTIONS] for place in range(_OPTIONS)]
        instances.append(
            Instance(
                key=one.item.key,
                question=one.item.question,
                options=tuple(options[place] for place in places),
                evidence={kind: _shown(row) for kind, row in used[one.item.key].items()},
                agreeing_first=firsts[number % len(firsts)],
            )
        )
    return instances


def _parts(
    one: Believed,
    rows: Mapping[EvidenceKind, EvidenceRow],
    lenders: Sequence[Candidate],
    seed: int,
) -> list[Option]:
    found = [_option(one.own.text, one.own.aliases, "belief")]
    plausible = rows.get(EvidenceKind.HPC) or rows.get(EvidenceKind.HPCE)
    role: Role
    for row, role in ((plausible, "plausible"), (rows.get(EvidenceKind.LPC), "implausible")):
        if row is not None and row.answer is not None:
            found.append(_option(row.answer, row.aliases, role))
    rng = Random(f"{seed}/{one.item.key}/options")  # noqa: S311 - a draw, no secret
    own = [Candidate(text) for text in one.item.distractors]
    rng.shuffle(own)
    more = [answer for answer in one.item.answers if answer is not one.own]
    strangers = rng.sample(list(lenders), min(len(lenders), _LENDERS))
    # Of those that were drawn the likest first: an answer to quite another thing is none.
    strangers.sort(key=lambda answer: -len(_words(answer.text) & _words(one.own.text)))
    taken = {canonical_answer(name) for option in found for name in (option.text, *option.aliases)}
    for answer in (*own, *more, *strangers):
        if len(found) == _OPTIONS:
            break
        if taken.isdisjoint(map(canonical_answer, answer.names)):
            found.append(_option(answer.text, answer.aliases, "distractor"))
            taken.update(map(canonical_answer, answer.names))
    while len(found) < _OPTIONS:
        # A set of one or two questions has nobody to borrow from.
        found.append(_option(f"none of these ({len(found)})", (), "distractor"))
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().split())


def _option(text: str, aliases: tuple[str, ...], role: Role) -> Option:
    return Option(text=text, aliases=aliases, role=role)


def _shown(row: EvidenceRow) -> Shown:
    names = (row.answer or "", *row.aliases)
    return Shown(
        passage=row.passage,
        second=row.second,
        sentences=answering_sentences(row.passage, names),
        plausibility=row.plausibility,
    )


def fitted(
    fill: Callable[[Sequence[str]], str],
    passages: Sequence[str],
    kept: Sequence[Sequence[str]],
    lm: object,
    answer_tokens: int,
) -> tuple[str, bool]:
    """A prompt that fits the model's window, and whether passages were cut for it.

    Sentences are left out from the end of the longest passage, those that answer only where
    nothing else is left, and never the last of a passage: a prompt can stay too long, and the
    model then says so.

    Args:
        fill: makes the prompt from as many passages.
        passages: in full.
        kept: per passage, sentences that are to stay.
        lm: where it states its window, prompts are cut to it.
        answer_tokens: kept free for the answer.
    """
    prompt = fill(passages)
    if not isinstance(lm, WindowedModel) or lm.context_window is None:
        return prompt, False
    room = lm.context_window - answer_tokens
    if len(lm.token_ids(prompt)) <= room:
        return prompt, False
    texts = [list(sentences_of(passage)) for passage in passages]
    drops = _drops(texts, kept)

    def without(count: int) -> str:
        gone: list[set[int]] = [set() for _ in texts]
        for passage, sentence in drops[:count]:
            gone[passage].add(sentence)
        return fill(
            [
                " ".join(text for place, text in enumerate(sentences) if place not in mine)
                for sentences, mine in zip(texts, gone, strict=True)
            ]
        )

    # Counting a prompt's tokens costs most: halving finds the fewest drops that do.
    least, most = 1, len(drops)
    while least < most:
        middle = (least + most) // 2
        if len(lm.token_ids(without(middle))) <= room:
            most = middle
        else:
            least = middle + 1
    return without(most), True


def _drops(texts: Sequence[Sequence[str]], kept: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Which sentence of which text goes first, second, …: one of the longest text each time."""
    orders = []
    for sentences, stay in zip(texts, map(set, kept), strict=True):
        last_first = range(len(sentences) - 1, -1, -1)
        spare = [place for place in last_first if sentences[place] not in stay]
        answering = [place for place in last_first if sentences[place] in stay]
        # One sentence of each text stays; the next to go stands last.
        orders.append([*spare, *answering][:-1][::-1])
    sizes = [sum(map(len, sentences)) for sentences in texts]
    drops = []
    while any(orders):
        longest = max((n for n, order in enumerate(orders) if order), key=lambda n: sizes[n])
        place = orders[longest].pop()
        sizes[longest] -= len(texts[longest][place])
        drops.append((longest, place))
    return drops


_PREFIXES: dict[AnswerForm, str] = {"letters": "", "likelihood": "score_", "free": "free_"}


# A prompt, and whether its passages were cut to fit the model's window.
Asked = tuple[str, bool]


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

    def ask(self, planned: Case) -> Asked:
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
        return fitted(fill, passages, kept, self._lm, self._room(instance))

    def _room(self, instance: Instance) -> int:
        """Tokens to keep free: an option that is a sentence can have many."""
        lm = self._lm
        if self._form != "likelihood" or not isinstance(lm, WindowedModel):
            return self._answer_tokens
        longest = max(len(lm.token_ids(f" {option.text}")) for option in instance.options)
        return max(self._answer_tokens, longest + 1)

    def _name(self, planned: Case) -> str:
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


def _passages(planned: Case) -> list[str]:
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

    def answer(self, batch: Sequence[Case]) -> list[ConflictRow]:
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
        self, batch: Sequence[Case], asked: Sequence[Asked], places: Sequence[int]
    ) -> dict[int, ConflictRow]:
        replies = generate_each(self._lm, [asked[place][0] for place in places])
        rows = {
            place: _reply_row(batch[place], reply, self._form, cut=asked[place][1])
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
        self, batch: Sequence[Case], asked: Sequence[Asked], places: Sequence[int]
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
                partial(_likelihoods, lm, texts), [asked[place][0] for place in mine]
            )
            for place, values in zip(mine, found, strict=True):
                if isinstance(values, KnowgateError):
                    rows[place] = failed_row(batch[place], RowError.of(values), cut=asked[place][1])
                else:
                    rows[place] = self._chosen(batch[place], values, asked[place][1])
        return rows

    def _chosen(self, planned: Case, values: Sequence[float], cut: bool) -> ConflictRow:
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

    def answer(self, batch: Sequence[Case]) -> list[ConflictRow]:
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


def right_letters(planned: Case) -> tuple[str, ...]:
    """The letters of the right options; empty for KF."""
    return instance_letters(planned.instance, right_roles(planned.task, planned.evidence))


def _reply_row(
    planned: Case,
    reply: list[Generation] | KnowgateError,
    form: AnswerForm,
    *,
    cut: bool = False,
) -> ConflictRow:
    if isinstance(reply, KnowgateError):
        return failed_row(planned, RowError.of(reply), cut=cut)
    return read_reply(planned, reply[0].text, form, cut=cut)


def read_reply(planned: Case, reply: str, form: AnswerForm, *, cut: bool = False) -> ConflictRow:
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
    judge: PassageJudge, batch: Sequence[Case], rows: Sequence[ConflictRow]
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


def _fields(planned: Case) -> dict[str, Any]:
    return {
        "row_id": planned.row_id,
        "system": planned.system,
        "task": planned.task,
        "evidence": planned.evidence,
        "key": planned.instance.key,
    }


def failed_row(planned: Case, error: RowError, *, cut: bool = False) -> ConflictRow:
    """Return the row of a planned question without an answer."""
    return ConflictRow(**_fields(planned), right=right_letters(planned), cut=cut, error=error)
