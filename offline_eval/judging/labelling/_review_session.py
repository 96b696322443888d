"""A person's verdicts on left-out cases, one after the other: stored at once, taken back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...run import MeasuredRun, OnStep, Review
from ._review_cases import ReviewCase, review_cases
from ._review_files import Imported, export_reviews, import_reviews
from ._session import NotAskedError, clean_note
from ._views import plain

CRITERION = "review"
_KEYS = {"answered": "a", "not_answered": "n", "unsure": "u"}
_TEXTS = {
    "answered": ("They answer it after all", "one of them gives the expected answer, in any words"),
    "not_answered": ("They do not", "none gives it, however near they come"),
    "unsure": ("Unsure", "counts as not answered"),
}


class ReviewSession:
    """Verdicts on the left-out cases of a run; safe for many threads.

    Positions count from 0 in the order of the cases. Every verdict is on disk before the method
    returns; verdicts of other processes are seen.

    Args:
        folder: of the run.
        cases: as `review_cases` gives them.

    Raises:
        InputError: the stored reviews are damaged.
    """

    settles = False

    def __init__(self, folder: Path, cases: Sequence[ReviewCase]) -> None:
        self.folder, self.cases = folder, tuple(cases)
        self._log, self._lock = Review.log(folder), threading.Lock()
        self._undo: list[tuple[int, Review | None]] = []
        self._skipped: set[int] = set()
        self._said: dict[str, Review] = {}
        self._read_bytes = -1
        self._refresh()

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
            before = self._said.get(self.cases[position].case_id)
            self._store(position, verdict, passage, note)
            self._undo.append((position, before))

    # What the page in the browser asks, as of `LabelSession`.

    def asked(self) -> list[dict[str, Any]]:
        """What the page asks: the question, and the verdicts with their keys."""
        outcomes = [
            {"outcome": name, "text": text, "meaning": meaning, "key": _KEYS[name], "number": ""}
            for name, (text, meaning) in _TEXTS.items()
        ]
        question = "Do these passages answer the question, without its source?"
        return [{"name": CRITERION, "question": question, "outcomes": outcomes}]

    def state(self) -> dict[str, Any]:
        """How far it is: per position `open`, `done` or `skipped`."""
        with self._lock:
            self._refresh()
            return self._state()

    def item(self, position: int) -> dict[str, Any]:
        """What the page shows of a case, without its passages.

        Raises:
            IndexError: no such position.
        """
        with self._lock:
            self._refresh()
            case = self.cases[position]
            verdict, said = self._verdict(case), self._said.get(case.case_id)
            skipped = verdict is None and position in self._skipped
            return {
                "question": plain(case.question),
                "expected": plain(case.answer),
                "facts": case.facts,
                "probable": case.probable,
                "response": "",
                "citation": "",
                "context": {"passages": len(case.passages), "words": _passages(case)},
                "steps": [{"criterion": CRITERION, "outcome": verdict, "skipped": skipped}],
                "status": self._status(position),
                "note": "" if said is None else said.note,
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
            self._skipped.add(position)
            return self._state()

    def note(self, position: int, note: str) -> dict[str, Any]:
        """Store the note on a case, with the verdict that stands there; see `label`."""
        with self._lock:
            self._refresh()
            case = self.cases[position]
            before = self._said.get(case.case_id)
            if ("" if before is None else before.note) != clean_note(note):
                passage = None if before is None else before.passage
                self._store(position, self._verdict(case), passage, note)
                self._undo.append((position, before))
            return self._state()

    def undo(self) -> dict[str, Any]:
        """Take the last change back; `position` says of which case, None where there is none."""
        with self._lock:
            self._refresh()
            if not self._undo:
                return {**self._state(), "position": None}
            position, before = self._undo[-1]
            verdict = None if before is None else before.verdict
            passage, note = (None, "") if before is None else (before.passage, before.note)
            self._store(position, verdict, passage, note)
            self._undo.pop()
            return {**self._state(), "position": position}

    def _store(
        self, position: int, verdict: Review.Verdict | None, passage: str | None, note: str | None
    ) -> None:
        case = self.cases[position]
        before = self._said.get(case.case_id)
        kept = ("" if before is None else before.note) if note is None else clean_note(note)
        self._log.append(
            [Review(case_id=case.case_id, verdict=verdict, passage=passage, note=kept)]
        )
        self._skipped.discard(position)
        self._refresh()

    def _refresh(self) -> None:
        size = self._log.size()
        if size != self._read_bytes:
            self._said = {review.case_id: review for _, review in self._log.places()}
            self._read_bytes = size

    def _verdict(self, case: ReviewCase) -> Review.Verdict | None:
        said = self._said.get(case.case_id)
        return None if said is None else said.verdict

    def _status(self, position: int) -> str:
        if self._verdict(self.cases[position]) is not None:
            return "done"
        return "skipped" if position in self._skipped else "open"

    def _state(self) -> dict[str, Any]:
        statuses = [self._status(position) for position in range(len(self.cases))]
        return {"statuses": statuses, "undoable": len(self._undo)}


def _passages(case: ReviewCase) -> str:
    number = len(case.passages)
    if not number:
        return "Nothing was retrieved."
    return f"{number}, without the source"
