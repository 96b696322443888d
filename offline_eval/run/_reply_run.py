"""Reading a run of replies: everything is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ..._version import __version__
from ...guard.errors import InputError
from ...guard.files import read_jsonl, read_text, write_json, write_text
from ._manifest import SCHEMA_VERSION, checked_model, holds_run, read_manifest
from ._questions import InputFile, OokbQuestion
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
)
from ._store import stored_rows

_Model = TypeVar("_Model", bound=BaseModel)

_MAKE_AGAIN = "make the run again into another folder"


@dataclass(frozen=True, slots=True)
class RepliesRun:
    """A checked run of replies.

    Attributes:
        folder: where it lies.
        manifest: the checked fields.
        questions: by id, in the order of the input.
        passages: by id.
        cases: by id, in the order of the file.
        replies: by id, in the order in which they finished; an unfinished run has fewer
            than the manifest says.
        judgements: by id, in the order in which they were made.
    """

    folder: Path
    manifest: RepliesManifest
    questions: Mapping[str, OokbQuestion]
    passages: Mapping[str, StoredPassage]
    cases: Mapping[str, ReplyCase]
    replies: Mapping[str, ReplyRow]
    judgements: Mapping[str, Judgement]

    @property
    def systems(self) -> Mapping[str, ReplySystem]:
        """The systems under test by id, in the order of the manifest."""
        return {system.system_id: system for system in self.manifest.systems}

    def case_of(self, reply: ReplyRow) -> ReplyCase:
        """The case that a reply answers."""
        return self.cases[reply.case_id]

    def question_of(self, reply: ReplyRow) -> OokbQuestion:
        """The question that a reply answers."""
        return self.questions[self.case_of(reply).question_id]

    def context_passages(self, reply: ReplyRow) -> list[StoredPassage]:
        """The passages that stood in the context of a reply; those not kept are left out.

        A context of the whole knowledge base comes without what was taken out of it, in
        the order of `passages.jsonl`.
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


def holds_replies(folder: str | os.PathLike[str]) -> bool:
    """Whether a run folder holds replies rather than relevance signals.

    Raises:
        InputError: no run there, or one written by a newer knowgate.
    """
    return read_manifest(folder).get("holds") == HOLDS_REPLIES


def read_replies_run(folder: str | os.PathLike[str]) -> RepliesRun:
    """A run of replies, finished or not.

    Raises:
        InputError: no such run there, or a file that is missing, broken or written by a
            newer knowgate; names file and line.
    """
    root = Path(folder)
    value = read_manifest(root)
    if value.get("suite") != "ookb" or value.get("holds") != HOLDS_REPLIES:
        raise InputError(
            "the run holds no replies",
            where=str(root / "manifest.json"),
            hint="name a run made with `knowgate eval ookb --model …` or `--replay …`, or with "
            "`knowgate import`",
        )
    manifest = checked_model(
        RepliesManifest, value, where=str(root / "manifest.json"), hint=_MAKE_AGAIN
    )
    questions = _keyed(root, "questions", OokbQuestion, "question_id")
    cases = _keyed(root, "cases", ReplyCase, "case_id")
    _known(root, "cases", cases, "question_id", questions)
    replies = _keyed(root, "replies", ReplyRow, "reply_id", missing_ok=True)
    _known(root, "replies", replies, "case_id", cases)
    _known(root, "replies", replies, "system_id", {s.system_id: s for s in manifest.systems})
    judgements = _keyed(root, "judgements", Judgement, "judgement_id", missing_ok=True)
    _known(root, "judgements", judgements, "reply_id", replies)
    return RepliesRun(
        folder=root,
        manifest=manifest,
        questions=questions,
        passages=_keyed(root, "passages", StoredPassage, "passage_id", missing_ok=True),
        cases=cases,
        replies=replies,
        judgements=judgements,
    )


def _keyed(
    root: Path, name: str, kind: type[_Model], key: str, *, missing_ok: bool = False
) -> dict[str, _Model]:
    """The checked rows of one file by their ids."""
    found: dict[str, _Model] = {}
    for where, value in _rows(root, name, missing_ok=missing_ok):
        row = checked_model(kind, value, where=where, hint=_MAKE_AGAIN)
        identifier = getattr(row, key)
        if identifier in found:
            raise InputError(
                f"{key} {identifier[:80]!r} stands here twice", where=where, hint=_MAKE_AGAIN
            )
        found[identifier] = row
    return found


def _rows(root: Path, name: str, *, missing_ok: bool) -> Sequence[tuple[str, Mapping[str, Any]]]:
    if name in ("replies", "judgements"):
        # Appended to while calls finish, in either kind of store.
        return stored_rows(root / name)
    path = root / f"{name}.jsonl"
    if missing_ok and not path.exists():
        return []
    return [(f"{path}:{number}", value) for number, value in read_jsonl(path)]


def _known(
    root: Path, name: str, rows: Mapping[str, BaseModel], field: str, known: Mapping[str, Any]
) -> None:
    for identifier, row in rows.items():
        value = getattr(row, field)
        if value not in known:
            raise InputError(
                f"row {identifier[:80]!r} names the {field} {value[:80]!r}, which the run has not",
                where=str(root / f"{name}.jsonl"),
                hint=_MAKE_AGAIN,
            )


_OURS = frozenset({"questions.jsonl", "passages.jsonl", "cases.jsonl"})


def start_replies_run(
    folder: str | os.PathLike[str],
    *,
    settings: Mapping[str, Any],
    systems: Sequence[ReplySystem],
    questions: Sequence[OokbQuestion],
    passages: Sequence[StoredPassage],
    cases: Sequence[ReplyCase],
    replies: int,
    inputs: Sequence[InputFile] = (),
) -> Path:
    """Make the folder of a run, or find it made by the same call before.

    Args:
        folder: made where missing.
        settings: JSON-ready; whatever decides the replies.
        systems: all systems under test.
        questions: with the name of their knowledge base, if there are several.
        passages: likewise.
        cases: of those questions.
        replies: rows of the finished run.
        inputs: files that it is made from.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    root = Path(folder)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "suite": "ookb",
        "holds": HOLDS_REPLIES,
        "created_by": f"knowgate {__version__}",
        "settings": dict(settings),
        "systems": [system.model_dump(mode="json") for system in systems],
        "knowledge_bases": [
            base.model_dump(mode="json") for base in _knowledge_bases(questions, passages)
        ],
        "inputs": [file.model_dump(mode="json") for file in inputs],
        "questions": len(questions),
        "cases": len(cases),
        "replies": replies,
    }
    if holds_run(root, manifest, own=_OURS):
        return root
    # The manifest goes last: a folder with one has all that it speaks of.
    _write(root / "questions.jsonl", questions)
    _write(root / "passages.jsonl", passages)
    _write(root / "cases.jsonl", cases)
    write_json(root / "manifest.json", manifest)
    return root


def _knowledge_bases(
    questions: Iterable[OokbQuestion], passages: Iterable[StoredPassage]
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


def _write(path: Path, rows: Iterable[BaseModel]) -> None:
    text = "".join(row.model_dump_json() + "\n" for row in rows)
    if not path.exists() or read_text(path) != text:
        write_text(path, text)
