"""Reading a run of replies: everything is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ...guard import InputError
from ...guard.files import read_jsonl
from ..ookb import OokbQuestion
from ..runner import stored_rows
from ..runs import checked_model, read_manifest
from ._artefacts import (
    HOLDS_REPLIES,
    Judgement,
    RepliesManifest,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)

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
            mend="name a run made with `knowgate eval ookb --model …` or `--replay …`, or with "
            "`knowgate import`",
        )
    manifest = checked_model(
        RepliesManifest, value, where=str(root / "manifest.json"), mend=_MAKE_AGAIN
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
        row = checked_model(kind, value, where=where, mend=_MAKE_AGAIN)
        identifier = getattr(row, key)
        if identifier in found:
            raise InputError(
                f"{key} {identifier[:80]!r} stands here twice", where=where, mend=_MAKE_AGAIN
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
                mend=_MAKE_AGAIN,
            )
