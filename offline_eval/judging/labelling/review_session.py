"""The left-out cases of a run in the order of review, and a person's verdicts on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ....guard.decision import Route
from ....guard.errors import InputError
from ....guard.files import AnyPath, read_jsonl
from ....guard.policy import Policy
from ....guard.signals.support import Support, SupportCheck
from ...data.fields import Placed, from_cell, read_csv
from ...run.calls import OnStep
from ...run.measured_run import MeasuredRun, Review
from ...run.questions import MeasuredRow, Question
from ._labels import is_csv, write_export
from .session import LoggedSession, NotAskedError, plain

# Score from which on a passage is said to answer probably.
PROBABLE = 0.6


# A question; the answer that is looked for, found nowhere if it is empty; and ids of passages.
Sought = tuple[str, str, tuple[str, ...]]


def answer_scores(
    sought: Sequence[Sought], texts: Mapping[str, str], *, on_scored: OnStep | None = None
) -> list[tuple[float, ...]]:
    """Score how probably each passage holds each answer.

    The score is how far the answer would rest on the passage, were it a reply: the support of the
    sentence with the least, see `SupportCheck`. It orders what people read, and decides nothing.

    Args:
        sought: the answers.
        texts: of the passages; one that is missing here scores 0.
        on_scored: called with the number of answers that are done, and of all.

    Returns:
        Per answer one score per passage, in [0, 1].
    """
    check, found = SupportCheck(), []
    for done, (question, answer, names) in enumerate(sought, start=1):
        supports = (check.check(answer, [texts.get(name, "")], question) for name in names)
        found.append(tuple(map(_least, supports)))
        if on_scored is not None:
            on_scored(done, len(sought))
    return found


def _least(found: Support) -> float:
    """The support of the sentence with the least; 0.0 where none says anything."""
    values = (one.support for one in found.sentences)
    return min((value for value in values if value is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """A left-out case, as a reviewer reads it.

    Attributes:
        row: as measured.
        question: that was asked.
        passages: that were retrieved, in their order, but the likeliest one first where it
            probably answers: of each its id, what it is called, and its text, None where the run
            does not hold it.
        probable: whether the question is probably answered after all: by the first passage.
        policy: that was fitted on the run; None without one.
    """

    row: MeasuredRow
    question: Question
    passages: tuple[tuple[str, str, str | None], ...] = ()
    probable: bool = False
    policy: Policy | None = None

    @property
    def relevance(self) -> float | None:
        """Raw, of all passages; None where nothing was retrieved."""
        return self.row.raw_relevance if self.row.retrieved else None

    @property
    def facts(self) -> str:
        """Its relevance in words; with a policy also calibrated, and whether it passes."""
        raw = "nothing was retrieved" if self.relevance is None else f"raw {self.relevance:.3f}"
        if self.policy is None:
            return f"relevance: {raw}"
        calibrated = None
        if self.relevance is not None:
            calibrated = self.policy.relevance_calibrator.apply(self.relevance)
            raw = f"{calibrated:.3f} ({raw})"
        # Confidence was not measured: what is answered from memory does not pass.
        passes = self.policy.route(calibrated, None) is Route.FOLLOW_CONTEXT
        colon = ":" if calibrated is None else ""
        return f"relevance{colon} {raw}, {'passes' if passes else 'does not pass'}"


def review_cases(run: MeasuredRun, *, on_scored: OnStep | None = None) -> tuple[ReviewCase, ...]:
    """The cases that can be reviewed: the probably answered ones, then by falling relevance.

    Args:
        run: of relevance signals.
        on_scored: called with the number of cases that were looked at, and of all.

    Raises:
        InputError: the run has no case with its source left out.
    """
    rows = list(run.reviewable.values())
    if not rows:
        what = "the run holds no measured case with its source left out"
        hint = "name a run of `knowgate measure` on questions with a source or an answer"
        raise InputError(what, where="RUN", hint=hint)
    questions = [run.questions[row.question_id] for row in rows]
    sought = [
        (question.question, question.answer, row.retrieved)
        for question, row in zip(questions, rows, strict=True)
    ]
    scores = answer_scores(sought, run.texts, on_scored=on_scored)
    return tuple(sorted(map(partial(_case, run), rows, scores), key=_place))


def _place(case: ReviewCase) -> tuple[bool, bool, float, str]:
    nothing = case.relevance is None
    return not case.probable, nothing, -(case.relevance or 0.0), case.row.case_id


def _case(run: MeasuredRun, row: MeasuredRow, likely: Sequence[float]) -> ReviewCase:
    names, texts = list(row.retrieved), run.texts
    best = max(likely, default=0.0)
    if best >= PROBABLE:
        names.insert(0, names.pop(likely.index(best)))
    return ReviewCase(
        row=row,
        question=run.questions[row.question_id],
        passages=tuple((name, _heading(run, name), texts.get(name) or None) for name in names),
        probable=best >= PROBABLE,
        policy=None if run.calibration is None else run.calibration.policy,
    )


def _heading(run: MeasuredRun, name: str) -> str:
    """What a passage is called: its id, and its source where that is not in the id."""
    stored = run.passages.get(name) or run.questions.get(name)
    source = None if stored is None else stored.source
    return name if not source or source in name else f"{name} · {source}"


# What a person fills in, and what tells what it is about.
_FIELDS = ("verdict", "passage", "note", "at")
_HINT = f"verdict is one of {', '.join(Review.Verdict)}, or empty; correct the line"


def _exported(case: ReviewCase, review: Review | None) -> dict[str, Any]:
    stored = {} if review is None else review.model_dump(mode="json")
    return {
        "case_id": case.row.case_id,
        **{name: stored.get(name) for name in _FIELDS},
        "question": case.question.question,
        "answer": case.question.answer,
        "relevance": case.relevance,
        "probably_answered": case.probable,
        "first_passage": case.passages[0][-1] if case.passages else None,
    }


def _imported(path: AnyPath) -> Iterator[Placed]:
    if not is_csv(path, "--import"):
        yield from ((f"{os.fspath(path)}:{line}", row) for line, row in read_jsonl(path))
        return
    others = "verdict, and perhaps passage, note, at"
    for where, row in read_csv(path, needed="case_id", others=others):
        yield where, {name: from_cell(text) for name, text in row.items()}


def _checked(values: Mapping[str, Any], cases: Mapping[str, MeasuredRow], where: str) -> Review:
    names = ("case_id", *_FIELDS)
    given = {name: values[name] for name in names if values.get(name) not in (None, "")}
    verdict = given.get("verdict")
    if isinstance(verdict, str):
        given["verdict"] = "_".join(verdict.lower().split()) or None
    review = Review.checked({"verdict": None, **given}, where=where, hint=_HINT, clean=True)
    review.require_of(cases, where)
    return review


def _same(one: Review, other: Review | None) -> bool:
    kept = {"verdict", "passage", "note"}
    return other is not None and one.model_dump(include=kept) == other.model_dump(include=kept)


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
        super().__init__(Review.log(folder), [case.row.case_id for case in cases])

    @classmethod
    def open(cls, folder: Path, *, on_scored: OnStep | None = None) -> ReviewSession:
        """Read a run, and look for the passages that probably answer its left-out questions.

        Args:
            folder: of the run, finished or not.
            on_scored: called with the number of cases that were looked at, and of all.

        Raises:
            InputError: there is no such run, it is damaged, or it has no left-out case.
        """
        return cls(
            folder, review_cases(MeasuredRun.read(folder, unfinished=True), on_scored=on_scored)
        )

    @staticmethod
    def store_file(folder: Path, path: AnyPath) -> tuple[int, int, int]:
        """Store the verdicts of a file, all of them or none.

        Args:
            folder: of the run.
            path: ends in .csv or .jsonl; only `case_id` and `verdict` are needed. A row whose
                verdict is empty says nothing.

        Returns:
            Numbers of verdicts that were new or changed, of those that stood there already, and
            of rows without a verdict.

        Raises:
            InputError: a row is damaged, is about no left-out case of the run, or a case stands
                there twice; names file and line.
        """
        run = MeasuredRun.read(folder, unfinished=True)
        cases, found, without = run.reviewable, dict[str, Review](), 0
        for where, values in _imported(path):
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
        return len(changed), len(found) - len(changed), without

    def export(self, path: AnyPath) -> int:
        """Write all left-out cases in the order of review, with the verdicts that there are.

        Args:
            path: ends in .csv or .jsonl.

        Returns:
            How many cases have a verdict.

        Raises:
            InputError: another suffix, or the file cannot be written.
        """
        reviews = MeasuredRun.read(self.folder, unfinished=True).reviews
        rows = [_exported(case, reviews.get(case.row.case_id)) for case in self.cases]
        write_export(path, rows, list(rows[0]) if rows else ())
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
            "question": plain(case.question.question),
            "expected": plain(case.question.answer),
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
        case = self.cases[position]
        return [
            {
                "text": plain(text or ""),
                "name": plain(heading),
                "probable": case.probable and place == 0,
            }
            for place, (_, heading, text) in enumerate(case.passages)
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

    def _key(self, row: Review) -> tuple[str, str]:
        return row.case_id, CRITERION

    def _blank(self, name: str, criterion: str) -> Review:
        return Review(case_id=name, verdict=None)

    def _steps(self, position: int) -> list[dict[str, Any]]:
        name = self._names[position]
        verdict = self._stood((name, CRITERION)).verdict
        skipped = verdict is None and name in self._skipped
        return [{"criterion": CRITERION, "outcome": verdict, "skipped": skipped}]
