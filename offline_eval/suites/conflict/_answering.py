"""Options in balanced places, prompts that fit, and replies of a model or a log, batch by batch."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from random import Random
from typing import Any

import numpy as np

from ....guard.contracts import Generation, ScoringLanguageModel
from ....guard.errors import InputError, KnowgateError, LanguageModelError
from ....guard.matching import canonical_answer
from ...judging.free_form import LETTERS, parse_choices
from ...run import RowError
from ...run.calls import generate_each
from ...run.grouping import grouped
from ...systems.logged_replies import Entry, LoggedReplies
from .._prompts import PromptSet, fits, option_likelihoods, token_counter
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
from .evidence import PassageJudge
from .items import CONFLICTS, Candidate, ConflictItem, EvidenceKind, Task

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


def _entry(line: Mapping[str, Any]) -> Entry:
    row_id, key, task = line.get("row_id"), line.get("key"), line.get("task")
    if not isinstance(row_id, str):
        if not isinstance(key, str) or not isinstance(task, str):
            raise InputError("is not a logged reply")
        row_id = f"{line.get('system', 'model')}/{task}/{line.get('evidence') or '-'}/{key}"
    return row_id, line.get("response"), {}


_OPTIONS = 4
# Answers of other questions that are looked at for one place.
_LENDERS = 256


def make_instances(
    believed: Sequence[ConflictItem],
    evidence: Sequence[EvidenceRow],
    seed: int,
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
        if EvidenceKind.NC in (found := used.get(one.key, {}))
        and any(kind in found for kind in CONFLICTS)
    ]
    lenders = [answer for one in believed for answer in one.answers if not answer.implausible]
    parts = [_parts(one, used[one.key], lenders, seed) for one in ready]
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
                key=one.key,
                question=one.question,
                options=tuple(options[place] for place in places),
                evidence={kind: _shown(row) for kind, row in used[one.key].items()},
                agreeing_first=firsts[number % len(firsts)],
            )
        )
    return instances


def _parts(
    one: ConflictItem,
    rows: Mapping[EvidenceKind, EvidenceRow],
    lenders: Sequence[Candidate],
    seed: int,
) -> list[Option]:
    found = [Option(text=one.own.text, aliases=one.own.aliases, role="belief")]
    plausible = rows.get(EvidenceKind.HPC) or rows.get(EvidenceKind.HPCE)
    roles: tuple[Role, Role] = ("plausible", "implausible")
    for row, role in zip((plausible, rows.get(EvidenceKind.LPC)), roles, strict=True):
        if row is not None and row.answer is not None:
            found.append(Option(text=row.answer, aliases=row.aliases, role=role))
    rng = Random(f"{seed}/{one.key}/options")  # noqa: S311 - a draw, no secret
    own = [Candidate(text) for text in one.distractors]
    rng.shuffle(own)
    more = [answer for answer in one.answers if answer is not one.own]
    strangers = rng.sample(list(lenders), min(len(lenders), _LENDERS))
    # Of those that were drawn the likest first: an answer to quite another thing is none.
    words = set(one.own.text.casefold().split())
    strangers.sort(key=lambda answer: -len(words & set(answer.text.casefold().split())))
    # A set of one or two questions has nobody to borrow from.
    nobody = [Candidate(f"none of these ({number})") for number in range(len(found), _OPTIONS)]
    taken = {canonical_answer(name) for option in found for name in (option.text, *option.aliases)}
    for answer in (*own, *more, *strangers, *nobody):
        if len(found) < _OPTIONS and taken.isdisjoint(map(canonical_answer, answer.names)):
            found.append(Option(text=answer.text, aliases=answer.aliases, role="distractor"))
            taken.update(map(canonical_answer, answer.names))
    return found


def _shown(row: EvidenceRow) -> Shown:
    return Shown(
        passage=row.passage,
        second=row.second,
        sentences=answering_sentences(row.passage, (row.answer or "", *row.aliases)),
        plausibility=row.plausibility,
    )


def fitted(
    fill: Callable[[Sequence[str]], str],
    passages: Sequence[str],
    kept: Set[str],
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
        kept: sentences that are to stay.
        lm: where it states its window, prompts are cut to it.
        answer_tokens: kept free for the answer.
    """
    prompt, fit = fill(passages), fits(lm, answer_tokens)
    if fit(prompt):
        return prompt, False
    texts = [list(sentences_of(passage)) for passage in passages]
    # What goes, the next last: of each text all but one, those that answer after the others.
    orders = [
        sorted(range(len(text)), key=lambda at: (text[at] not in kept, at))[1:] for text in texts
    ]
    sizes = [sum(map(len, text)) for text in texts]
    drops = []
    while any(orders):
        longest = max((n for n, order in enumerate(orders) if order), key=sizes.__getitem__)
        drops.append((longest, orders[longest].pop()))
        sizes[longest] -= len(texts[longest][drops[-1][1]])

    def without(count: int) -> str:
        gone = set(drops[:count])
        return fill(
            [
                " ".join(text for at, text in enumerate(sentences) if (number, at) not in gone)
                for number, sentences in enumerate(texts)
            ]
        )

    # Counting a prompt's tokens costs most: halving finds the fewest drops that do.
    counts = range(1, len(drops))
    least = bisect_left(counts, x=True, key=lambda count: fit(without(count)))
    return without(least + 1 if drops else 0), True


# Kept free for the answer in prompts.
_ANSWER_TOKENS = 64
_PREFIXES: dict[AnswerForm, str] = {"letters": "", "likelihood": "score_", "free": "free_"}


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


_FINAL = re.compile(r"(?:\bfinal\s+)?\banswers?\b\W{0,4}:\W{0,4}|答案\W{0,2}[:：]", re.IGNORECASE)
# A short answer's likelihood is that of giving it; among sentences the shortest would win.
_SENTENCE_WORDS = 5
_SEVERAL = (Task.PCK, Task.RAG)


# A prompt, and whether its passages were cut to fit the model's window.
Asked = tuple[str, bool]


class Asker:
    """Asks a language model in one of three ways, or looks its replies up in a log.

    Args:
        lm: the model, `likelihood` needs one that scores options; or logged replies, of which a
            question without one is a row with an error.
        prompts: texts.
        form: how answers are taken.
        judge: reads free answers; None: by the answers' own words.
    """

    def __init__(
        self, lm: Any, prompts: PromptSet, form: AnswerForm, judge: PassageJudge | None = None
    ) -> None:
        self.lm, self.prompts, self.form, self._judge = lm, prompts, form, judge

    def answer(self, batch: Sequence[Case]) -> list[ConflictRow]:
        """One row per planned question, in order."""
        log = self.lm
        if isinstance(log, LoggedReplies):
            return [
                _reply_row(one, log.generation(log.find(one.row_id)), self.form) for one in batch
            ]
        asked = [(one, *self._asked(one)) for one in batch]
        rows = self._generated([one for one in asked if not self._scores(one[0])])
        rows |= self._scored([one for one in asked if self._scores(one[0])])
        return [rows[one.row_id] for one in batch]

    def _scores(self, case: Case) -> bool:
        # A sentence is copied, not chosen: KF is generated whatever the form.
        return self.form == "likelihood" and case.task is not Task.KF

    def _asked(self, case: Case) -> Asked:
        """Return the prompt of a planned question."""
        prompt, instance, passages = self.prompts[self._name(case)], case.instance, _passages(case)
        texts = {"question": instance.question, "options": instance.listed}

        def fill(shown: Sequence[str]) -> str:
            first, second = [*shown, "", ""][:2]
            return prompt.fill(**texts, context=first, second_context=second)

        kept = {sentence for shown in instance.evidence.values() for sentence in shown.sentences}
        return fitted(fill, passages, kept, self.lm, self._room(instance))

    def _room(self, instance: Instance) -> int:
        """Tokens to keep free: an option that is a sentence can have many."""
        count = token_counter(self.lm)
        if self.form != "likelihood" or count is None:
            return _ANSWER_TOKENS
        longest = max(count(f" {option.text}") for option in instance.options)
        return max(_ANSWER_TOKENS, longest + 1)

    def _name(self, case: Case) -> str:
        if case.task is Task.KF:
            return "kf"
        name = {CLOSED_BOOK: "closed", REMOVES: "alone"}.get(case.system)
        return _PREFIXES[self.form] + (name or case.task.value.lower())

    def _generated(self, asked: Sequence[tuple[Case, str, bool]]) -> dict[str, ConflictRow]:
        replies = generate_each(self.lm, [prompt for _, prompt, _ in asked])
        rows = {
            case.row_id: _reply_row(case, reply, self.form, cut=cut)
            for (case, _, cut), reply in zip(asked, replies, strict=True)
        }
        if self.form == "free" and self._judge is not None:
            rows |= _judged(self._judge, [case for case, _, _ in asked], rows)
        return rows

    def _scored(self, asked: Sequence[tuple[Case, str, bool]]) -> dict[str, ConflictRow]:
        lm, rows = self.lm, {}
        if asked and not isinstance(lm, ScoringLanguageModel):
            raise LanguageModelError("the model does not score options")
        # One call per instance and size of prompt: all tasks of an instance have the same
        # options, and a short prompt beside a long one would be read at its length.
        alike = grouped(
            asked,
            lambda one: (one[0].instance.key, one[0].evidence is None, one[0].task is Task.RAG),
        )
        for some in alike.values():
            texts = [option.text for option in some[0][0].instance.options]
            prompts = [prompt for _, prompt, _ in some]
            found = option_likelihoods(lm, prompts, texts, _lengths(lm, texts))
            for (case, _, cut), values in zip(some, found, strict=True):
                if isinstance(values, KnowgateError):
                    row = case_row(case, cut=cut, error=RowError.of(values))
                else:
                    letters = likeliest(values, several=case.task in _SEVERAL)
                    likelihoods = tuple(values)
                    row = _chosen_row(case, letters, cut=cut, likelihoods=likelihoods)
                rows[case.row_id] = row
        return rows


def _lengths(lm: object, texts: Sequence[str]) -> list[int] | None:
    """Return the tokens of options that are sentences, None of others."""
    count = token_counter(lm)
    if count is None or max(len(text.split()) for text in texts) < _SENTENCE_WORDS:
        return None
    return [max(1, count(f" {text}")) for text in texts]


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
        return (LETTERS[best],)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    even = 1 / len(values)
    return tuple(
        letter
        for number, (letter, share) in enumerate(zip(LETTERS, shares, strict=False))
        if share >= even or number == best
    )


def right_letters(planned: Case) -> tuple[str, ...]:
    """The letters of the right options; empty for KF."""
    roles = right_roles(planned.task, planned.evidence)
    return tuple(letter for letter, option in planned.instance.lettered if option.role in roles)


def _reply_row(
    case: Case, reply: list[Generation] | KnowgateError, form: AnswerForm, *, cut: bool = False
) -> ConflictRow:
    if isinstance(reply, KnowgateError):
        return case_row(case, cut=cut, error=RowError.of(reply))
    return read_reply(case, reply[0].text, form, cut=cut)


def read_reply(case: Case, reply: str, form: AnswerForm, *, cut: bool = False) -> ConflictRow:
    """The row of a reply: letters are parsed, free answers matched, sentences looked for."""
    if case.task is Task.KF:
        assert case.evidence is not None
        copied = names_answer(reply, case.instance.evidence[case.evidence].sentences)
        return case_row(case, response=reply, cut=cut, correct=copied)
    if form == "free":
        return _chosen_row(case, free_letters(reply, case.instance), response=reply, cut=cut)
    letters = parse_choices(reply, [option.text for option in case.instance.options])
    return _chosen_row(case, letters, response=reply, cut=cut)


def free_letters(reply: str, instance: Instance) -> tuple[str, ...]:
    """The options that a free reply names after its last "Answer:", or anywhere without one."""
    final = _FINAL.split(reply)[-1]
    names = [(option.text, *option.aliases) for option in instance.options]
    return tuple(LETTERS[number] for number in answers_named(final, names))


def _judged(
    judge: PassageJudge,
    cases: Sequence[Case],
    rows: Mapping[str, ConflictRow],
) -> dict[str, ConflictRow]:
    """The rows whose free replies a judge can read, with the letters that it reads in them."""
    asked = {
        case.row_id: {
            "question": case.instance.question,
            "options": case.instance.listed,
            "reply": rows[case.row_id].response or "",
        }
        for case in cases
        if case.task is not Task.KF and rows[case.row_id].response is not None
    }
    found = {}
    for name, letters in zip(asked, judge.answers(list(asked.values())), strict=True):
        row = rows[name]
        own: dict[str, Any] = {"letters": letters, "correct": letters == row.right}
        if isinstance(letters, KnowgateError):
            own = {"letters": None, "correct": None, "error": RowError.of(letters)}
        found[name] = row.model_copy(update=own)
    return found


def case_row(case: Case, **fields: Any) -> ConflictRow:
    """Make the row of a planned question; what is not given of it is as without an answer."""
    own = {"row_id": case.row_id, "key": case.instance.key, "right": right_letters(case)}
    place = {"system": case.system, "task": case.task, "evidence": case.evidence}
    return ConflictRow.model_validate({**own, **place, **fields})


def _chosen_row(case: Case, letters: tuple[str, ...] | None, **fields: Any) -> ConflictRow:
    return case_row(case, letters=letters, correct=letters == right_letters(case), **fields)
