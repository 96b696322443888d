"""Collect the parts of an imported run of replies, and write them as a run."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...run import (
    InputFile,
    Judgement,
    Question,
    RepliesRun,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)
from .. import QuestionRecord


@dataclass(slots=True)
class KnownBase:
    """A knowledge base under the ids of its own file.

    Attributes:
        name: unique in the run.
        questions: by the id in the file; the values carry ids that are unique in the run.
        passages: by id, unique in the run; texts of logged contexts are added to them,
            as passages of no knowledge base.
        order: ids of the passages that are its own, in their order.
    """

    name: str
    questions: dict[str, Question]
    passages: dict[str, StoredPassage]
    order: tuple[str, ...] = field(init=False)
    _by_question: dict[str, Question] = field(init=False)
    _by_text: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.order = tuple(self.passages)
        self._by_question = {}
        for question in self.questions.values():
            self._by_question.setdefault(plain(question.question), question)
        self._by_text = {}
        for passage in self.passages.values():
            self._by_text.setdefault(plain(passage.text), passage.passage_id)

    def asked(self, text: str) -> Question | None:
        """The question of this text, white space aside."""
        return self._by_question.get(plain(text))

    def passage_id(self, text: str) -> str:
        """Id of the passage of this text, white space aside; added where it is new."""
        key = plain(text)
        if key not in self._by_text:
            digest = hashlib.sha256(key.encode()).hexdigest()[:16]
            name = f"{self.name}/text-{digest}" if self.name else f"text-{digest}"
            # Of no knowledge base: "all but these" must not come to mean more.
            self.passages[name] = StoredPassage(passage_id=name, text=text)
            self._by_text[key] = name
        return self._by_text[key]


def plain(text: str) -> str:
    """Text with all white space alike, for comparing."""
    return " ".join(text.split())


def base_of_records(
    name: str, records: Mapping[str, QuestionRecord], shared: frozenset[str]
) -> KnownBase:
    """A knowledge base of what logs say about their questions; each has its own passage.

    Args:
        name: of the knowledge base.
        records: by id; an empty answer is an unknown one, and makes no passage.
        shared: ids that other knowledge bases use too.
    """
    questions, passages = {}, {}
    for record in records.values():
        unique = unique_id(name, record.question_id, shared)
        text = f"{record.question}\n{record.answer}" if record.answer.strip() else ""
        questions[record.question_id] = Question(
            question_id=unique,
            question=record.question,
            answer=record.answer,
            passage=text,
            passage_id=unique,
            source=record.source,
            knowledge_base=name,
        )
        if text:
            passages[unique] = StoredPassage(
                passage_id=unique, text=text, knowledge_base=name, source=record.source
            )
    return KnownBase(name, questions, passages)


def unique_id(base: str, identifier: str, shared: frozenset[str]) -> str:
    """The id in the run of what a file calls `identifier`."""
    return f"{base}/{identifier}" if identifier in shared else identifier


def shared_ids(groups: Iterable[Iterable[str]]) -> frozenset[str]:
    """Ids that stand in more than one of the groups."""
    counts = Counter(one for group in groups for one in set(group))
    return frozenset(one for one, times in counts.items() if times > 1)


def by_reference(names: tuple[str, ...], base: KnownBase) -> ReplyContext:
    """The shortest way to say it: these passages, or all of the knowledge base but a few.

    Args:
        names: ids of passages, in the order in which they stood; () is a context without
            any.
        base: whose passages they are.
    """
    if base.name and 2 * len(names) > len(base.order):
        present = frozenset(names)
        if names == tuple(name for name in base.order if name in present):
            gone = tuple(name for name in base.order if name not in present)
            return ReplyContext(kind="all_but", passages=gone)
    return ReplyContext(kind="passages", passages=names)


WarningKind = Literal[
    "unknown_question",
    "unknown_context",
    "experiment_without_replies",
    "in_kb_left_out",
    "not_a_reply",
]


@dataclass(frozen=True, slots=True)
class InteropWarning:
    """A warning that something was left out of what was read or written.

    Attributes:
        kind: what sort of thing.
        where: the first such place, as `file:line`, file or system.
        detail: one clause for people.
        count: how many there are in that file.
    """

    kind: WarningKind
    where: str
    detail: str
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.where}: {self.detail}{times}"


OnWarning = Callable[[InteropWarning], None]


@dataclass(frozen=True, slots=True)
class RunParts:
    """A whole run of replies in memory.

    Attributes:
        settings: JSON-ready; where it came from.
        systems: who answered.
        questions: of all knowledge bases.
        passages: of all knowledge bases.
        cases: of those questions.
        replies: of those systems to those cases.
        judgements: that came along.
        inputs: files that it is made from.
        warnings: what was left out.
    """

    settings: Mapping[str, Any]
    systems: Sequence[ReplySystem]
    questions: Sequence[Question]
    passages: Sequence[StoredPassage]
    cases: Sequence[ReplyCase]
    replies: Sequence[ReplyRow]
    judgements: Sequence[Judgement]
    inputs: Sequence[InputFile] = ()
    warnings: Sequence[InteropWarning] = ()


@dataclass(slots=True)
class WarningCounter:
    """Warnings, one per file and kind, with the first place and how many there were."""

    _found: dict[tuple[str, WarningKind], tuple[str, str, int]] = field(default_factory=dict)

    def add(self, kind: WarningKind, file: str, where: str, detail: str) -> None:
        """Count one more."""
        first = self._found.get((file, kind), (where, detail, 0))
        self._found[file, kind] = (first[0], first[1], first[2] + 1)

    def warnings(self) -> tuple[InteropWarning, ...]:
        """All of them, in the order in which each was first met."""
        return tuple(
            InteropWarning(kind, where, detail, count)
            for (_, kind), (where, detail, count) in self._found.items()
        )


def write_run(
    out: str | os.PathLike[str], parts: RunParts, *, on_warning: OnWarning | None = None
) -> Path:
    """Write `parts` as a run of replies; done again with the same parts, it changes nothing.

    Args:
        out: folder; made where missing.
        parts: checked.
        on_warning: called with each warning once all is written.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    root = RepliesRun.start(
        out,
        settings=parts.settings,
        systems=parts.systems,
        questions=parts.questions,
        passages=parts.passages,
        cases=parts.cases,
        replies=len(parts.replies),
        inputs=parts.inputs,
    )
    with RepliesRun.REPLIES.open(root) as replies:
        replies.extend(parts.replies)
    with RepliesRun.JUDGEMENTS.open(root) as judgements:
        judgements.extend(parts.judgements)
    for warning in parts.warnings if on_warning else ():
        if on_warning is not None:
            on_warning(warning)
    return root


def input_files(paths: Iterable[str | os.PathLike[str]]) -> tuple[InputFile, ...]:
    """Names and hashes of files that were read."""
    return tuple(InputFile.of(path) for path in paths)
