"""Start and read runs of replies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ...guard.errors import InputError
from ...guard.policy import Policy
from ._manifest import InputFile, Manifest, Stored
from ._questions import Question
from ._replies import (
    HOLDS_REPLIES,
    Judgement,
    RepliesManifest,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredKnowledgeBase,
    StoredPassage,
    StoredPolicy,
)
from ._run import Run
from ._table import TableSpec

_Model = TypeVar("_Model", bound=Stored)

_MAKE_AGAIN = "make the run again into another folder"

_QUESTIONS = TableSpec("questions", Question, "question_id", whole=True)
_PASSAGES = TableSpec("passages", StoredPassage, "passage_id", whole=True)
_CASES = TableSpec("cases", ReplyCase, "case_id", whole=True)
_POLICIES = TableSpec("policies", StoredPolicy, "guard", whole=True)


@dataclass(frozen=True, slots=True)
class RepliesRun:
    """A checked run of replies.

    Attributes:
        REPLIES: the table of replies.
        JUDGEMENTS: the table of judgements.
        folder: where it lies.
        manifest: the checked fields.
        questions: by id, in the order of the input.
        passages: by id.
        cases: by id, in the order of the file.
        replies: by id, in the order in which they finished; an unfinished run has fewer
            than the manifest says.
        judgements: by id, in the order in which they were made.
        policies: of the guards by name; none where the run does not hold them.
    """

    REPLIES: ClassVar = TableSpec("replies", ReplyRow, "reply_id")
    JUDGEMENTS: ClassVar = TableSpec("judgements", Judgement, "judgement_id")

    folder: Path
    manifest: RepliesManifest
    questions: Mapping[str, Question]
    passages: Mapping[str, StoredPassage]
    cases: Mapping[str, ReplyCase]
    replies: Mapping[str, ReplyRow]
    judgements: Mapping[str, Judgement]
    policies: Mapping[str, Policy] = field(default_factory=dict)

    @classmethod
    def is_in(cls, folder: str | os.PathLike[str]) -> bool:
        """Whether a run folder holds replies rather than relevance signals.

        Raises:
            InputError: no run there, or one written by a newer knowgate.
        """
        return Manifest.read_raw(folder).get("holds") == HOLDS_REPLIES

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> RepliesRun:
        """Read a run of replies, finished or not.

        Raises:
            InputError: no such run there, or a file that is missing, broken or written by a
                newer knowgate; names file and line.
        """
        root = Path(folder)
        where, value = str(root / "manifest.json"), Manifest.read_raw(root)
        if value.get("suite") != "ookb" or value.get("holds") != HOLDS_REPLIES:
            raise InputError(
                "the run holds no replies",
                where=where,
                hint="name a run made with `knowgate eval ookb --model …` or `--replay …`, or "
                "with `knowgate import`",
            )
        manifest = RepliesManifest.checked(value, where=where, hint=_MAKE_AGAIN)
        questions = _keyed(root, _QUESTIONS)
        cases = _keyed(root, _CASES)
        _known(root, "cases", cases, "question_id", questions)
        replies = _keyed(root, cls.REPLIES)
        _known(root, "replies", replies, "case_id", cases)
        _known(root, "replies", replies, "system_id", {s.system_id: s for s in manifest.systems})
        judgements = _keyed(root, cls.JUDGEMENTS)
        _known(root, "judgements", judgements, "reply_id", replies)
        return cls(
            folder=root,
            manifest=manifest,
            questions=questions,
            passages=_keyed(root, _PASSAGES) if _PASSAGES.path(root).exists() else {},
            cases=cases,
            replies=replies,
            judgements=judgements,
            policies=_policies(root),
        )

    @classmethod
    def start(
        cls,
        folder: str | os.PathLike[str],
        *,
        settings: Mapping[str, Any],
        systems: Sequence[ReplySystem],
        questions: Sequence[Question],
        passages: Sequence[StoredPassage],
        cases: Sequence[ReplyCase],
        replies: int,
        inputs: Sequence[InputFile] = (),
    ) -> Path:
        """Make the folder of a run, or find it made by an equal call before.

        Args:
            folder: made where missing.
            settings: as JSON; everything that decides the replies.
            systems: all systems under test.
            questions: with the name of their knowledge base, if there are several.
            passages: likewise.
            cases: of those questions.
            replies: number of rows of the finished run.
            inputs: files that it is made from.

        Raises:
            InputError: the folder holds something else, or cannot be written.
        """
        root, asked = Path(folder), RepliesAsked(systems, questions, passages, cases, replies)
        manifest = asked.manifest(settings, inputs)
        with Run.create_or_resume(root, manifest, files=asked.files()):
            return root

    @property
    def systems(self) -> Mapping[str, ReplySystem]:
        """The systems under test by id, in the order of the manifest."""
        return {system.system_id: system for system in self.manifest.systems}

    def judges_of(self, criterion: str) -> tuple[str, ...]:
        """List the judges with a verdict on `criterion`, best first.

        Labels that came with the replies, then language models, then judges of the user's
        own, then the offline detector and the estimate; among equals those with more verdicts.
        """
        counts: dict[str, int] = {}
        for judgement in self.judgements.values():
            if judgement.criterion == criterion and judgement.outcome is not None:
                counts[judgement.judge] = counts.get(judgement.judge, 0) + 1
        return tuple(sorted(counts, key=lambda name: (_rank(name), -counts[name], name)))

    def case_of(self, reply: ReplyRow) -> ReplyCase:
        """Return the case that a reply answers."""
        return self.cases[reply.case_id]

    def question_of(self, reply: ReplyRow) -> Question:
        """Return the question that a reply answers."""
        return self.questions[self.case_of(reply).question_id]

    def context_passages(self, reply: ReplyRow) -> list[StoredPassage]:
        """Return the passages of a reply's context, as far as the run has their texts.

        For a context of the whole knowledge base, these are all its passages but those left
        out, in the order of `passages.jsonl`.
        """
        context = reply.context or ReplyContext()
        if context.kind == "passages":
            return [self.passages[name] for name in context.passages if name in self.passages]
        if context.kind != "all_but":
            return []
        base, gone = self.case_of(reply).knowledge_base, frozenset(context.passages)
        return [
            passage
            for name, passage in self.passages.items()
            if passage.knowledge_base == base and name not in gone
        ]


def _keyed(root: Path, spec: TableSpec[_Model]) -> dict[str, _Model]:
    """Read the rows of a table by their ids."""
    return {getattr(row, spec.key): row for row in spec.read(root)}


def _policies(root: Path) -> dict[str, Policy]:
    path = _POLICIES.path(root)
    if not path.exists():
        return {}
    return {
        name: Policy.parse(stored.policy, where=str(path), allow_changed=True)
        for name, stored in _keyed(root, _POLICIES).items()
    }


def _known(
    root: Path, name: str, rows: Mapping[str, Stored], field: str, known: Mapping[str, Any]
) -> None:
    for identifier, row in rows.items():
        value = getattr(row, field)
        if value not in known:
            raise InputError(
                f"row {identifier[:80]!r} names the {field} {value[:80]!r}, which the run has not",
                where=str(root / f"{name}.jsonl"),
                hint=_MAKE_AGAIN,
            )


def _rank(judge: str) -> int:
    if judge == Judgement.GIVEN:
        return 0
    if judge.startswith(Judgement.LLM_PREFIX):
        return 1
    offline = Judgement.OFFLINE_JUDGES
    return 3 + offline.index(judge) if judge in offline else 2


@dataclass(frozen=True, slots=True)
class RepliesAsked:
    """What is asked of whom in a run of replies.

    Attributes:
        systems: all systems under test.
        questions: with the name of their knowledge base, if there are several.
        passages: likewise.
        cases: of those questions.
        replies: rows of the finished run.
        policies: of the guards, by name.
    """

    systems: Sequence[ReplySystem]
    questions: Sequence[Question]
    passages: Sequence[StoredPassage]
    cases: Sequence[ReplyCase]
    replies: int
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def manifest(self, settings: Mapping[str, Any], inputs: Sequence[InputFile]) -> RepliesManifest:
        """Return the manifest of the run.

        Args:
            settings: JSON-ready; whatever decides the replies.
            inputs: files that the run is made from.
        """
        return RepliesManifest.new(
            suite="ookb",
            holds=HOLDS_REPLIES,
            settings=dict(settings),
            systems=tuple(self.systems),
            knowledge_bases=tuple(_knowledge_bases(self.questions, self.passages)),
            inputs=tuple(inputs),
            questions=len(self.questions),
            cases=len(self.cases),
            replies=self.replies,
        )

    def files(self) -> dict[str, Callable[[Path], object]]:
        """Return what writes the files of questions, passages, cases and policies, by name."""
        tables: list[tuple[TableSpec[Any], Sequence[Stored]]] = [
            (_QUESTIONS, self.questions),
            (_PASSAGES, self.passages),
            (_CASES, self.cases),
        ]
        policies = [
            StoredPolicy(guard=name, policy=json.loads(policy.to_json()))
            for name, policy in self.policies.items()
        ]
        if policies:
            tables.append((_POLICIES, policies))
        return {spec.path(Path()).name: partial(_write, spec=spec, rows=r) for spec, r in tables}


def _knowledge_bases(
    questions: Iterable[Question], passages: Iterable[StoredPassage]
) -> list[StoredKnowledgeBase]:
    asked: dict[str, int] = {}
    for question in questions:
        asked[question.knowledge_base] = asked.get(question.knowledge_base, 0) + 1
    held: dict[str, int] = {}
    for passage in passages:
        held[passage.knowledge_base] = held.get(passage.knowledge_base, 0) + 1
    return [
        StoredKnowledgeBase(name=name, questions=number, passages=held.get(name, 0))
        for name, number in asked.items()
    ]


def _write(path: Path, *, spec: TableSpec[Any], rows: Iterable[Stored]) -> None:
    spec.write(path.parent, rows)
