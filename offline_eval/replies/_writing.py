"""Starting a run of replies: everything that is known before the first call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..._version import __version__
from ...guard.files import read_text, write_json, write_text
from ..ookb import InputFile, OokbQuestion
from ..runs import SCHEMA_VERSION, holds_run
from ._artefacts import (
    HOLDS_REPLIES,
    ReplyCase,
    ReplySystem,
    StoredKnowledgeBase,
    StoredPassage,
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
