"""A person's verdicts on left-out cases, one after the other: stored at once, taken back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ...data.fields import rows_of_table
from ...run.calls import OnStep
from ...run.measured_run import MeasuredRun, Review
from ...run.questions import MeasuredRow
from ._labels import from_cell, is_csv_name, write_export
from ._review_cases import ReviewCase, review_cases
from .session import LoggedSession, NotAskedError, plain

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


def _read(path: str | os.PathLike[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    is_csv = is_csv_name(path, "--import")
    others = "verdict, and perhaps passage, note, at"
    for where, row in rows_of_table(path, needed="case_id", others=others):
        yield where, {key: from_cell(text) for key, text in row.items()} if is_csv else row


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


CRITERION = "review"
_KEYS = {"answered": "a", "not_answered": "n", "unsure": "u"}
_TEXTS = {
    "answered": ("They answer it after all", "one of them gives the expected answer, in any words"),
    "not_answered": ("They do not", "none gives it, however near they come"),
    "unsure": ("Unsure", "counts as not answered"),
}


class ReviewSession(LoggedSession[Review]):
    """Verdicts on the left-out cases of a run, in the order of the cases.

    Args:
        folder: of the run.
        cases: as `review_cases` gives them.

    Raises:
        InputError: the stored reviews are damaged.
    """

    kept = {"verdict", "passage"}  # noqa: RUF012

    def __init__(self, folder: Path, cases: Sequence[ReviewCase]) -> None:
        self.folder, self.cases = folder, tuple(cases)
        # Until the page is opened again; by id.
        self._skipped: set[str] = set()
        super().__init__(Review.log(folder), [case.case_id for case in cases])

    @classmethod
    def open(cls, folder: Path, *, on_scored: OnStep | None = None) -> ReviewSession:
        """Read a run, and look for the passages that probably answer its left-out questions.

        Args:
            folder: of the run, finished or not.
            on_scored: called with the number of passages that were looked at, and of all.

        Raises:
            InputError: there is no such run, it is damaged, or it has no left-out case.
        """
        return cls(
            folder, review_cases(MeasuredRun.read(folder, unfinished=True), on_scored=on_scored)
        )

    @staticmethod
    def store_file(folder: Path, path: Path) -> Imported:
        """Store the verdicts of a file, all of them or none.

        Args:
            folder: of the run.
            path: ends in .csv or .jsonl; only `case_id` and `verdict` are needed. A row whose
                verdict is empty says nothing.

        Raises:
            InputError: a row is damaged, is about no left-out case of the run, or a case stands
                there twice; names file and line.
        """
        run = MeasuredRun.read(folder, unfinished=True)
        cases, found = run.reviewable, dict[str, Review]()
        without = 0
        for where, values in _read(path):
            review = _checked(values, cases, where)
            if review.verdict is None:
                without += 1
                continue
            if review.case_id in found:
                what = f"case {review.case_id[:80]!r} stands there twice"
                raise InputError(what, where=where, hint="leave one of both rows")
            found[review.case_id] = review
        changed = [one for name, one in found.items() if not _same(one, run.reviews.get(name))]
        Review.log(folder).append(changed)
        return Imported(len(changed), len(found) - len(changed), without)

    def export(self, path: Path) -> int:
        """Write all left-out cases in the order of review, with the verdicts that there are.

        Args:
            path: ends in .csv or .jsonl.

        Returns:
            How many cases have a verdict.

        Raises:
            InputError: another suffix, or the file cannot be written.
        """
        reviews = MeasuredRun.read(self.folder, unfinished=True).reviews
        rows = [_row(case, reviews.get(case.case_id)) for case in self.cases]
        write_export(path, rows, _COLUMNS)
        return sum(row["verdict"] is not None for row in rows)

    @property
    def open_positions(self) -> list[int]:
        """Positions of the cases without a verdict."""
        with self._current():
            return [at for at in range(len(self)) if self._steps(at)[0]["outcome"] is None]

    def decide(
        self,
        position: int,
        verdict: Review.Verdict | None,
        *,
        passage: str | None = None,
        note: str | None = None,
    ) -> dict[str, Any]:
        """Store a verdict; the last one of a case counts.

        Args:
            position: of the case.
            verdict: None takes back what stands there.
            passage: id of the one that answers, if it is named.
            note: as it was, where it is None.

        Returns:
            The state after it.

        Raises:
            IndexError: no such position.
            InputError: it cannot be stored.
        """
        with self._current():
            key = self._names[position], CRITERION
            return self._store(position, [self._row(key, note, verdict=verdict, passage=passage)])

    # What the page in the browser asks, as of `LabelSession`.

    def asked(self) -> list[dict[str, Any]]:
        """What the page asks: the question, and the verdicts with their keys."""
        outcomes = [
            {"outcome": name, "text": text, "meaning": meaning, "key": _KEYS[name], "number": ""}
            for name, (text, meaning) in _TEXTS.items()
        ]
        question = "Do these passages answer the question, without its source?"
        return [{"name": CRITERION, "question": question, "outcomes": outcomes}]

    def item(self, position: int) -> dict[str, Any]:
        """What the page shows of a case, without its passages.

        Raises:
            IndexError: no such position.
        """
        case = self.cases[position]
        number = len(case.passages)
        words = f"{number}, without the source" if number else "Nothing was retrieved."
        view: dict[str, Any] = {
            "question": plain(case.question),
            "expected": plain(case.answer),
            "facts": case.facts,
            "probable": case.probable,
            "response": "",
            "citation": "",
            "context": {"passages": number, "words": words},
        }
        with self._current():
            return {**view, **self._shown(position)}

    def context(self, position: int) -> list[dict[str, Any]]:
        """The passages of a case, in the order in which they are read.

        Raises:
            IndexError: no such position.
        """
        return [
            {
                "text": plain(one.text or ""),
                "name": plain(one.heading),
                "probable": one.probable and place == 0,
            }
            for place, one in enumerate(self.cases[position].passages)
        ]

    def label(
        self, position: int, criterion: str, outcome: str, note: str | None = None
    ) -> dict[str, Any]:
        """Store a verdict and return the state; see `decide`."""
        if criterion != CRITERION or outcome not in _TEXTS:
            raise NotAskedError
        return self.decide(position, Review.Verdict(outcome), note=note)

    def skip(self, position: int, note: str | None = None) -> dict[str, Any]:
        """Leave a case undecided until the page is opened again; see `label`."""
        if note is not None:
            self.note(position, note)
        with self._current():
            self._skipped.add(self._names[position])
            return self._state()

    def _append(self, rows: Sequence[Review]) -> None:
        super()._append(rows)
        self._skipped -= {row.case_id for row in rows}

    def _now(self) -> datetime:
        return datetime.now(UTC)

    def _key(self, row: Review) -> tuple[str, str]:
        return row.case_id, CRITERION

    def _blank(self, name: str, criterion: str) -> Review:
        del criterion
        return Review(case_id=name, verdict=None)

    def _steps(self, position: int) -> list[dict[str, Any]]:
        name = self._names[position]
        verdict = self._stood((name, CRITERION)).verdict
        skipped = verdict is None and name in self._skipped
        return [{"criterion": CRITERION, "outcome": verdict, "skipped": skipped}]
