"""A person's verdicts on left-out cases, one after the other: stored at once, taken back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ...data.fields import Fields
from ...run.calls import OnStep
from ...run.measured_run import MeasuredRun, Review
from ...run.questions import MeasuredRow
from ._labels import from_cell, is_csv_name, write_export
from ._review_cases import ReviewCase, review_cases
from .session import LoggedSession, NotAskedError, clean_note, plain

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

    def __init__(self, folder: Path, cases: Sequence[ReviewCase]) -> None:
        self.folder, self.cases = folder, tuple(cases)
        # Until the page is opened again; by id.
        self._skipped: set[str] = set()
        super().__init__(Review.log(folder))

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
        """Store the verdicts of a file; see `import_reviews`."""
        return import_reviews(folder, MeasuredRun.read(folder, unfinished=True), path)

    def export(self, path: Path) -> int:
        """Write all cases with their verdicts; see `export_reviews`."""
        return export_reviews(MeasuredRun.read(self.folder, unfinished=True), self.cases, path)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def open_positions(self) -> list[int]:
        """Positions of the cases without a verdict."""
        with self._lock:
            self._refresh()
            return [at for at, case in enumerate(self.cases) if self._verdict(case) is None]

    def decide(
        self,
        position: int,
        verdict: Review.Verdict | None,
        *,
        passage: str | None = None,
        note: str | None = None,
    ) -> None:
        """Store a verdict; the last one of a case counts.

        Args:
            position: of the case.
            verdict: None takes back what stands there.
            passage: id of the one that answers, if it is named.
            note: as it was, where it is None.

        Raises:
            IndexError: no such position.
            InputError: it cannot be stored.
        """
        with self._lock:
            self._refresh()
            self._store(position, verdict, passage, note)

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
        with self._lock:
            self._refresh()
            case = self.cases[position]
            said, status = self._before(position), self._status(case)
            step = {
                "criterion": CRITERION,
                "outcome": said.verdict,
                "skipped": status == "skipped",
            }
            return {
                "question": plain(case.question),
                "expected": plain(case.answer),
                "facts": case.facts,
                "probable": case.probable,
                "response": "",
                "citation": "",
                "context": {"passages": len(case.passages), "words": _passages(case)},
                "steps": [step],
                "status": status,
                "note": said.note,
            }

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
        """Store a verdict and return the state; see `decide`.

        Raises:
            IndexError: no such position.
            NotAskedError: no such verdict.
        """
        if criterion != CRITERION or outcome not in _TEXTS:
            raise NotAskedError
        self.decide(position, Review.Verdict(outcome), note=note)
        return self.state()

    def skip(self, position: int, note: str | None = None) -> dict[str, Any]:
        """Leave a case undecided until the page is opened again; see `label`."""
        if note is not None:
            self.note(position, note)
        with self._lock:
            self._refresh()
            if not 0 <= position < len(self.cases):
                raise IndexError(position)
            self._skipped.add(self.cases[position].case_id)
            return self._state()

    def note(self, position: int, note: str) -> dict[str, Any]:
        """Store the note on a case, with the verdict that stands there; see `label`."""
        with self._lock:
            self._refresh()
            before = self._before(position)
            if before.note != clean_note(note):
                self._store(position, before.verdict, before.passage, note)
            return self._state()

    def _before(self, position: int) -> Review:
        name = self.cases[position].case_id
        return self._said.get(name) or Review(case_id=name, verdict=None)

    def _store(
        self, position: int, verdict: Review.Verdict | None, passage: str | None, note: str | None
    ) -> None:
        before = self._before(position)
        kept = before.note if note is None else clean_note(note)
        row = Review(case_id=before.case_id, verdict=verdict, passage=passage, note=kept)
        self._change(position, [row], [before])

    def _append(self, rows: Sequence[Review]) -> None:
        super()._append(rows)
        self._skipped -= {row.case_id for row in rows}

    def _now(self) -> datetime:
        return datetime.now(UTC)

    def _forget(self) -> None:
        self._said: dict[str, Review] = {}

    def _take(self, rows: Sequence[Review]) -> None:
        self._said |= {review.case_id: review for review in rows}

    def _statuses(self) -> list[str]:
        return [self._status(case) for case in self.cases]

    def _verdict(self, case: ReviewCase) -> Review.Verdict | None:
        said = self._said.get(case.case_id)
        return None if said is None else said.verdict

    def _status(self, case: ReviewCase) -> str:
        if self._verdict(case) is not None:
            return "done"
        return "skipped" if case.case_id in self._skipped else "open"


def _passages(case: ReviewCase) -> str:
    number = len(case.passages)
    if not number:
        return "Nothing was retrieved."
    return f"{number}, without the source"
