"""Verdicts on left-out cases as a file for a spreadsheet, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....guard.errors import InputError
from ...data import Fields
from ...run import MeasuredRow, MeasuredRun, Review
from ._export import from_cell, is_csv_name, write_export
from ._review_cases import ReviewCase

_COLUMNS = (
    "case_id", "verdict", "passage", "note", "at", "question", "answer", "relevance",
    "probably_answered", "first_passage",
)  # fmt: skip
_FIELDS = ("verdict", "passage", "note", "at")
_HINT = f"verdict is one of {', '.join(Review.Verdict)}, or empty; correct the line"


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the rows of a file.

    Attributes:
        stored: verdicts that were new or changed.
        unchanged: verdicts that stood there already.
        without_verdict: rows whose verdict is empty.
    """

    stored: int
    unchanged: int
    without_verdict: int


def export_reviews(
    run: MeasuredRun, cases: tuple[ReviewCase, ...], path: str | os.PathLike[str]
) -> int:
    """Write all left-out cases in the order of review, with the verdicts that there are.

    Args:
        run: with its reviews.
        cases: as `review_cases` gives them.
        path: ends in .csv or .jsonl.

    Returns:
        How many cases have a verdict.

    Raises:
        InputError: another suffix, or the file cannot be written.
    """
    rows = [_row(case, run.reviews.get(case.case_id)) for case in cases]
    write_export(path, rows, _COLUMNS)
    return sum(row["verdict"] is not None for row in rows)


def _row(case: ReviewCase, review: Review | None) -> dict[str, Any]:
    stored = {} if review is None else review.model_dump(mode="json")
    return {
        "case_id": case.case_id,
        **{name: stored.get(name) for name in _FIELDS},
        "question": case.question,
        "answer": case.answer,
        "relevance": case.relevance,
        "probably_answered": case.probable,
        "first_passage": case.passages[0].text if case.passages else None,
    }


def import_reviews(
    folder: str | os.PathLike[str], run: MeasuredRun, path: str | os.PathLike[str]
) -> Imported:
    """Store the verdicts of a file, all of them or none.

    Args:
        folder: of the run.
        run: with its reviews.
        path: ends in .csv or .jsonl; only `case_id` and `verdict` are needed. A row whose verdict
            is empty says nothing.

    Raises:
        InputError: a row is damaged, is about no left-out case of the run, or a case stands there
            twice; names file and line.
    """
    cases, found = run.reviewable, dict[str, Review]()
    without = 0
    for where, values in _read(path):
        review = _checked(values, cases, where)
        if review.verdict is None:
            without += 1
            continue
        if review.case_id in found:
            raise InputError(
                f"case {review.case_id[:80]!r} stands there twice",
                where=where,
                hint="leave one of both rows",
            )
        found[review.case_id] = review
    changed = [review for name, review in found.items() if not _same(review, run.reviews.get(name))]
    Review.log(folder).append(changed)
    return Imported(len(changed), len(found) - len(changed), without)


def _read(path: str | os.PathLike[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    is_csv = is_csv_name(path, "--import")
    others = "verdict, and perhaps passage, note, at"
    for row in Fields.of_table(path, needed="case_id", others=others):
        texts = {key: from_cell(text) for key, text in row.value.items()} if is_csv else row.value
        yield row.where, texts


def _checked(values: Mapping[str, Any], cases: Mapping[str, MeasuredRow], where: str) -> Review:
    given = {
        name: values[name] for name in ("case_id", *_FIELDS) if values.get(name) not in (None, "")
    }
    verdict = given.get("verdict")
    if isinstance(verdict, str):
        given["verdict"] = "_".join(verdict.lower().split()) or None
    review = Review.checked({"verdict": None, **given}, where=where, hint=_HINT, clean=True)
    review.require_of(cases, where)
    return review


def _same(one: Review, other: Review | None) -> bool:
    def said(review: Review) -> tuple[object, ...]:
        return review.verdict, review.passage, review.note

    return other is not None and said(one) == said(other)
