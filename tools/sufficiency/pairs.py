"""Read the sufficiency pack, the FAQ pack and ObliQA."""

from __future__ import annotations

import json
import lzma
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from knowgate.calibration.training.cases import TrainingQuestion
from knowgate.guard.errors import InputError
from knowgate.guard.files import read_jsonl

# Shorter rules are headings.
_SHORTEST_RULE = 60
_HINT = 'each line needs "qid", "group", "source", "question", "passage" and "label" (0 or 1)'


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


def site_questions(folder: Path, sites: Sequence[str]) -> list[TrainingQuestion]:
    """The questions of sites of the FAQ pack, each with its answer; one topic a site."""
    return [
        TrainingQuestion(row["id"], row["question"], row["answer"], site, source="faq")
        for site in sites
        for _, row in read_jsonl(folder / f"{site}.jsonl")
    ]


def rule_questions(folder: Path) -> tuple[list[TrainingQuestion], dict[str, list[str]]]:
    """ObliQA's questions that one passage answers, and the passages of each document."""
    pools: dict[str, list[str]] = defaultdict(list)
    with lzma.open(folder / "obliqa_passages.jsonl.xz", "rt", encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            if len(row["text"]) >= _SHORTEST_RULE:
                pools[str(row["document"])].append(row["text"])
    with lzma.open(folder / "obliqa.jsonl.xz", "rt", encoding="utf-8") as stream:
        found = [
            TrainingQuestion(
                f"obliqa-{number}",
                row["question"],
                row["passages"][0],
                str(row["document"]),
                source="obliqa",
            )
            for number, row in enumerate(map(json.loads, stream))
            if len(row["passages"]) == 1 and len(row["passages"][0]) >= _SHORTEST_RULE
        ]
    return found, dict(pools)


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    opener = lzma.open if path.suffix == ".xz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                yield _row(line, f"{path}:{number}")
    except OSError:
        raise InputError("cannot be read", where=str(path), hint="check the path") from None
    except (UnicodeDecodeError, lzma.LZMAError, EOFError):
        raise InputError("not JSON lines", where=str(path), hint=_HINT) from None


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
        raise InputError("not a labelled pair", where=where, hint=_HINT)
    return row
