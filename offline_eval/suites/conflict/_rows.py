"""What a run asks, and what its files hold line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ....guard.decision import Route
from ....guard.matching import canonical_answer
from ...data.answers.matching import occurrences
from ...judging.free_form import LETTERS
from ...run import RowError, Stored
from ...run.manifest import Manifest
from ...run.table import TableSpec
from ..parts import MODEL_SYSTEM
from .items import CHOICE_TASKS, EvidenceKind, Task

_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|\n+|(?<=[。！？])")
_LETTERS = re.compile(r"\w+", re.UNICODE)
# An answer that is a whole sentence is rarely repeated word for word.
_LONG_ANSWER, _OVERLAP = 5, 0.7


def names_answer(text: str, names: Sequence[str]) -> bool:
    """Whether one of the names stands in the text as whole words.

    Example:
        >>> names_answer("There are 6,922 people.", ["6922"]), names_answer("In 18401", ["1840"])
        (True, False)
    """
    return bool(answers_named(text, [names]))


def answers_named(text: str, answers: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The answers that a text names as whole words, in their order.

    Within the name of one answer no other one is named: who writes "New York City" has not
    said "New York". In scripts without spaces a name may stand anywhere.

    Args:
        text: that is read.
        answers: each with all its names.

    Example:
        >>> answers_named("It is New York City.", [["New York"], ["New York City"]])
        (1,)
    """
    canonical = canonical_answer(text)
    # The very same name of two answers names both.
    names: dict[str, set[int]] = {}
    for number, some in enumerate(answers):
        for name in map(canonical_answer, some):
            names.setdefault(name, set()).add(number)
    spans = occurrences(canonical, names)
    return tuple(sorted({number for a, b in spans for number in names.get(canonical[a:b], ())}))


def sentences_of(passage: str) -> tuple[str, ...]:
    """The sentences of a passage, in order, without the empty ones."""
    found = (sentence.strip() for sentence in _SENTENCE.split(passage))
    return tuple(sentence for sentence in found if sentence)


def answering_sentences(passage: str, names: Sequence[str]) -> tuple[str, ...]:
    """The sentences that give the answer; none where they cannot be told.

    They name it or, where it is itself a sentence of five words or more, the one that shares
    most words with it does, if these are seven in ten.

    Example:
        >>> answering_sentences("The town is old. Ann Li ran it.", ["Ann Li"])
        ('Ann Li ran it.',)
    """
    sentences = sentences_of(passage)
    named = tuple(sentence for sentence in sentences if names_answer(sentence, names))
    wanted = _words(names[0]) if names else frozenset()
    if named or len(wanted) < _LONG_ANSWER:
        return named
    shares = [len(wanted & _words(sentence)) / len(wanted) for sentence in sentences]
    best = max(shares, default=0.0)
    return (sentences[shares.index(best)],) if best >= _OVERLAP else ()


def _words(text: str) -> frozenset[str]:
    return frozenset(_LETTERS.findall(text.casefold()))


# PK asked without the context: what a guard does that removes it.
REMOVES = "guard_removes"
# The bare question with its options: no passage, no instruction.
CLOSED_BOOK = "closed_book"
# The systems of every run; guards come after them.
SYSTEMS = (MODEL_SYSTEM, CLOSED_BOOK, REMOVES)

# How beliefs were found: with the data; by yes or no for each answer; by the model's own.
BeliefSource = Literal["given", "asked", "closed_book"]
# How answers are taken: letters after an explanation; the options' likelihoods; free text.
AnswerForm = Literal["letters", "likelihood", "free"]
Role = Literal["belief", "plausible", "implausible", "distractor"]


class _SettingsRead(Stored):
    """Settings of a run that its readers use."""

    tasks: tuple[Task, ...]
    kinds: tuple[EvidenceKind, ...]
    beliefs: BeliefSource
    answers: AnswerForm


class ConflictManifest(Manifest):
    """`manifest.json`.

    Attributes:
        systems: the model, the context removed, and guards.
        quirks: what was odd in them.
        questions: in the set.
    """

    settings_read = _SettingsRead

    systems: tuple[str, ...]
    quirks: tuple[str, ...] = ()
    questions: Annotated[int, Field(ge=0)]


class Vote(Stored):
    """One prompt variant's verdict on one answer.

    Attributes:
        variant: name of the prompt, or number of the wording.
        answer: position of the answer.
        accepted: None where no verdict could be read.
        yes: natural-log likelihood of yes, None where the model does not tell.
        no: likewise.
    """

    variant: str
    answer: int
    accepted: bool | None
    yes: float | None = None
    no: float | None = None


class BeliefRow(Stored):
    """A line of `beliefs.jsonl`.

    Attributes:
        key: of the question.
        source: how the belief was found.
        belief: position of the believed answer, None where there is no belief.
        why: `one` answer in all variants, `none`, `several`, `unsteady`: variants differ.
        votes: all verdicts.
        error: of the call; then there is no belief.
    """

    key: str
    source: BeliefSource
    belief: int | None = None
    why: Literal["one", "none", "several", "unsteady", "error"]
    votes: tuple[Vote, ...] = ()
    error: RowError | None = None


class Check(Stored):
    """A judge's verdict on a passage; one failure costs one verdict.

    Attributes:
        judge: `words`, `entailment`, or the name of a language model.
        criterion: `yields` or `plausibility`.
        outcome: `yes`, `no` or a number from `1` to `5`; None where there is no verdict.
        reasoning: in the judge's words.
        error: why there is none.
    """

    judge: str
    criterion: Literal["yields", "plausibility"]
    outcome: str | None = None
    reasoning: str = ""
    error: RowError | None = None


class EvidenceRow(Stored):
    """A line of `evidence.jsonl`: a passage of one kind for one question.

    Attributes:
        row_id: `<key>/<kind>`.
        answer: the answer that it gives, None where none could be made.
        aliases: of that answer.
        passage: with its rationale, where it has one.
        second: another passage that gives the same answer; empty without one.
        made_by: `data`, `template` or `editor`.
        checks: what validated it, disagreements included.
        plausibility: of the answer in [0, 1], None where it was not measured.
        plausibility_from: `rank` of the model's likelihood, `judges`, or nothing.
        accepted: whether it is used.
        reason: why it is not.
    """

    row_id: Annotated[str, Field(min_length=1)]
    key: str
    kind: EvidenceKind
    answer: str | None = None
    aliases: tuple[str, ...] = ()
    passage: str = ""
    second: str = ""
    made_by: Literal["data", "template", "editor"] = "data"
    checks: tuple[Check, ...] = ()
    plausibility: float | None = None
    plausibility_from: Literal["", "rank", "judges"] = ""
    accepted: bool = False
    reason: str = ""
    error: RowError | None = None


class Option(Stored):
    """One of the four options, with other ways to write it and the part that it plays."""

    text: str
    aliases: tuple[str, ...] = ()
    role: Role


class Shown(Stored):
    """A passage as tasks show it, and the sentences of it that answer."""

    passage: str
    second: str = ""
    sentences: tuple[str, ...] = ()
    plausibility: float | None = None


class Instance(Stored):
    """A line of `instances.jsonl`: all that the tasks need of one question.

    Attributes:
        options: four, in the order in which they are shown.
        evidence: by kind; NC and at least one that contradicts.
        agreeing_first: in RAG, whether the passage that agrees stands first.
    """

    key: str
    question: str
    options: Annotated[tuple[Option, ...], Field(min_length=4, max_length=4)]
    evidence: dict[EvidenceKind, Shown]
    agreeing_first: bool

    @property
    def lettered(self) -> list[tuple[str, Option]]:
        """The options after their letters."""
        return list(zip(LETTERS, self.options, strict=False))

    @property
    def listed(self) -> str:
        """The options as prompts show them, one a line."""
        return "\n".join(f"({letter}) {option.text}" for letter, option in self.lettered)


class ConflictRow(Stored):
    """A line of `rows.jsonl`: what one system said in one task over one kind of evidence.

    Attributes:
        row_id: `<system>/<task>/<evidence>/<key>`.
        evidence: None for `closed_book` and `guard_removes`, which see none.
        response: None where options were scored, or nothing was said.
        letters: chosen options; None where none could be read.
        likelihoods: of the options in natural logs, per token where one of them is a sentence;
            None where they were not scored.
        right: the letters that are right; empty for KF.
        correct: None exactly where there is an error.
        cut: whether passages were shortened to fit the model's window.
        route: of a guard, None without one.
        reason: of the guard's decision.
    """

    row_id: Annotated[str, Field(min_length=1)]
    system: str
    task: Task
    evidence: EvidenceKind | None
    key: str
    response: str | None = None
    letters: tuple[str, ...] | None = None
    likelihoods: tuple[float, ...] | None = None
    right: tuple[str, ...] = ()
    correct: bool | None = None
    cut: bool = False
    route: Route | None = None
    reason: str = ""
    error: RowError | None = None


def row_id(system: str, task: Task, evidence: EvidenceKind | None, key: str) -> str:
    """How a row is told from others."""
    return f"{system}/{task.value}/{evidence.value if evidence else '-'}/{key}"


HINT = "run `knowgate eval conflict` again into another folder"
EVIDENCE = TableSpec("evidence", EvidenceRow, "row_id", hint=HINT, clean=True)
INSTANCES = TableSpec("instances", Instance, "key", hint=HINT, whole=True, clean=True)
ROWS = TableSpec("rows", ConflictRow, "row_id", hint=HINT, clean=True)


@dataclass(frozen=True, slots=True)
class Case:
    """One instance in one task over one kind of evidence, for one system."""

    system: str
    task: Task
    evidence: EvidenceKind | None
    instance: Instance

    @property
    def row_id(self) -> str:
        """Of the row that answers it."""
        return row_id(self.system, self.task, self.evidence, self.instance.key)


def planned(
    instances: Sequence[Instance],
    tasks: Sequence[Task],
    kinds: Sequence[EvidenceKind],
) -> Iterator[Case]:
    """Everything that the model is asked, in the order of instances, tasks and kinds.

    With PK come the bare questions (`closed_book`) and PK without its passage
    (`guard_removes`).
    """
    for instance in instances:
        for task in tasks:
            if task is Task.PK:
                # Without a passage its kind cannot matter.
                for system in (CLOSED_BOOK, REMOVES):
                    yield Case(system, task, None, instance)
            for kind in kinds:
                shown = instance.evidence.get(kind)
                # A sentence can only be asked for where one of the passage answers.
                if shown is not None and (task is not Task.KF or shown.sentences):
                    yield Case(MODEL_SYSTEM, task, kind, instance)


def right_roles(task: Task, kind: EvidenceKind | None) -> frozenset[str]:
    """The parts of the options that are right; none for KF, which has no options.

    CK: the context's answer. PK: the belief. PCK: both. RAG: the answers of both passages,
    of which one agrees with the belief.

    Example:
        >>> sorted(right_roles(Task.PCK, EvidenceKind.LPC))
        ['belief', 'implausible']
    """
    if task not in CHOICE_TASKS:
        return frozenset()
    context = {EvidenceKind.HPC: "plausible", EvidenceKind.HPCE: "plausible"}
    own = "implausible" if kind is EvidenceKind.LPC else "belief"
    from_context = context.get(kind, own) if kind is not None else "belief"
    if task is Task.CK:
        return frozenset({from_context})
    return frozenset({"belief"}) if task is Task.PK else frozenset({"belief", from_context})
