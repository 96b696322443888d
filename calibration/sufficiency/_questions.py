"""What a sufficiency scorer is trained on: questions with the passage that answers them."""

from __future__ import annotations

import json
import lzma
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...guard import InputError

_MEND = 'each line needs "qid", "group", "source", "question", "passage" and "label" (0 or 1)'


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question, the passage that suffices, and what does not.

    Attributes:
        id: of the question.
        text: the question.
        passage: suffices to answer it.
        topic: document, site or knowledge base; other passages of a topic are the hard
            negatives of its questions.
        source: data set, for balancing; a topic with few passages borrows from it.
        answer: answer text where known: a passage that contains it is no negative.
        negatives: passages known not to suffice.
        others: further passages that suffice.
    """

    id: str
    text: str
    passage: str
    topic: str
    source: str = ""
    answer: str | None = None
    negatives: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def read_pairs(
    paths: Iterable[str | os.PathLike[str]], *, language: str = "en"
) -> list[TrainingQuestion]:
    """Questions from JSON lines of labelled (question, passage) pairs, xz-packed or not.

    Fields as in the sufficiency pack: `source`, `lang`, `qid`, `group`, `question`,
    `passage`, `label`, `answer`. A question with several sufficient passages gives one
    training question for each; one without any gives none.

    Raises:
        InputError: a file is missing or a line has other fields.
    """
    sufficient: list[dict[str, Any]] = []
    insufficient: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for row in _rows(Path(path)):
            if row.get("lang", language) != language:
                continue
            if row["label"] == 1:
                sufficient.append(row)
            else:
                insufficient[row["qid"]].append(row["passage"])
    passages: dict[str, list[str]] = defaultdict(list)
    for row in sufficient:
        passages[row["qid"]].append(row["passage"])
    return [
        TrainingQuestion(
            id=row["qid"],
            text=row["question"],
            passage=row["passage"],
            topic=row["group"],
            source=row["source"],
            answer=row.get("answer"),
            negatives=tuple(insufficient[row["qid"]]),
            others=tuple(p for p in passages[row["qid"]] if p != row["passage"]),
        )
        for row in sufficient
    ]


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    opener = lzma.open if path.suffix == ".xz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                yield _row(line, f"{path}:{number}")
    except OSError:
        raise InputError("cannot be read", where=str(path), mend="check the path") from None
    except (UnicodeDecodeError, lzma.LZMAError, EOFError):
        raise InputError("not JSON lines", where=str(path), mend=_MEND) from None


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    texts = ("qid", "group", "source", "question", "passage")
    if (
        not isinstance(row, dict)
        or row.get("label") not in (0, 1)
        or not all(isinstance(row.get(name), str) for name in texts)
        or not isinstance(row.get("answer"), str | None)
    ):
        raise InputError("not a labelled pair", where=where, mend=_MEND)
    return row


def by_topic(questions: Sequence[TrainingQuestion]) -> dict[str, list[TrainingQuestion]]:
    """The questions of each topic."""
    found: dict[str, list[TrainingQuestion]] = defaultdict(list)
    for question in questions:
        found[question.topic].append(question)
    return dict(found)
