"""Runs that measured relevance, to calibrate on: read whole, and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AwareDatetime, Field

from ...guard import Guard, GuardOptions
from ...guard.contracts import RelevanceScorer
from ...guard.errors import InputError
from ...guard.files import AnyPath
from ...guard.policy import Policy, known_calibrator
from ...guard.routing import Calibrator, PlattCalibrator
from .manifest import Manifest, Stored
from .questions import (
    CaseKind,
    Identifier,
    MeasuredManifest,
    MeasuredRow,
    Question,
    RefusalFile,
    RunCalibration,
    SourceRow,
    UnmatchedSourceError,
)
from .replies import StoredPassage
from .table import RowT, SharedLog, Table, TableSpec

_HINT = "correct or remove the line, the others stay as they are"


def measuring_guard(
    scorer: RelevanceScorer,
    aggregator: str | None,
    calibrator: Calibrator | None = None,
    **options: Any,
) -> Guard:
    """Make a guard that measures relevance as one that serves does.

    It has no deadline: nobody waits for an answer, and how busy the machine is must not decide
    which cases count as failed.

    Args:
        scorer: called through the guard.
        aggregator: how passage scores become one value; None for the scorer's usual one.
        calibrator: of what it measures; without one only raw values are of use, as a scorer of
            one's own may give others than probabilities.
        options: further fields of `GuardOptions`.
    """
    known = calibrator or known_calibrator(scorer.fingerprint) or PlattCalibrator(a=1.0, b=0.0)
    policy = Policy.for_scorer(scorer, threshold=1.0, calibrator=known, aggregator=aggregator)
    own = GuardOptions(deadlines={"relevance": None}, **options)
    return Guard(policy, scorer=scorer, options=own, metrics=False)


class Review(Stored):
    """A line of `reviews.jsonl`: what a person says of a left-out case; its last line counts.

    Attributes:
        verdict: None takes the earlier ones back.
        at: when, with its zone.
        passage: id of the retrieved passage that answers, where one was named.
        note: of the reviewer.
    """

    class Verdict(StrEnum):
        """Whether the passages that are left answer the question."""

        ANSWERED = "answered"
        NOT_ANSWERED = "not_answered"
        UNSURE = "unsure"

    case_id: Identifier
    verdict: Verdict | None
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    passage: str | None = None
    note: Annotated[str, Field(max_length=5000)] = ""

    @property
    def answered(self) -> bool:
        """Whether the case is no leak, because a passage that is left answers its question."""
        return self.verdict is self.Verdict.ANSWERED

    @staticmethod
    def log(folder: AnyPath) -> SharedLog[Review]:
        """Return the reviews of a run, appended line by line; several processes may write."""
        return SharedLog(Path(folder) / "reviews.jsonl", Review, hint=_HINT)

    def require_of(self, cases: Mapping[str, MeasuredRow], where: str) -> None:
        """Reject a review of anything but a left-out case of a run.

        Args:
            cases: of the run, by id; see `MeasuredRun.reviewable`.
            where: file and line.

        Raises:
            InputError: there is no such case, or its passage was not retrieved for it.
        """
        row, case = cases.get(self.case_id), f"case {self.case_id[:80]!r}"
        if row is None:
            hint = "its ids end in /left_out; the table belongs to one run"
            raise _misfit(f"{case} is no left-out case of this run", where, hint)
        if self.passage is not None and self.passage not in row.retrieved:
            what = f"passage {self.passage[:80]!r} was not retrieved for {case}"
            raise _misfit(what, where, "name one of its passages, or none")

    @classmethod
    def read(cls, folder: AnyPath, cases: Mapping[str, MeasuredRow]) -> dict[str, Review]:
        """Return the last review of each case, by case id, without those that were taken back.

        Args:
            folder: of the run.
            cases: as for `require_of`.

        Raises:
            InputError: a line is damaged, or about no left-out case of the run (with the line).
        """
        found: dict[str, Review] = {}
        for where, review in cls.log(folder).places():
            review.require_of(cases, where)
            found[review.case_id] = review
        return {name: review for name, review in found.items() if review.verdict is not None}


def _reviewable(rows: Iterable[MeasuredRow]) -> dict[str, MeasuredRow]:
    return {row.case_id: row for row in rows if row.kind is CaseKind.LEFT_OUT and row.error is None}


_RUN_AGAIN = "run `knowgate measure` again into another folder"
_APART = "rows and questions do not belong together"
_CONTINUE = "start the same `knowgate measure` again to continue it"
_ROWS = TableSpec("rows", MeasuredRow, "case_id", hint=_RUN_AGAIN, clean=True)
_CALIBRATE_AGAIN = "run `knowgate calibrate` on this run again"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A checked run.

    Attributes:
        QUESTIONS: table of the questions.
        SOURCES: table of a run through a chain as it is served: where each question's
            answer stands.
        PASSAGES: table of such a run: the texts that were judged.
        manifest: the checked fields.
        questions: by id, in the order of the input.
        rows: in the order of the cases; at most one per question and kind.
        calibration: None until a policy was fitted on this run, or when not asked for.
        sources: by question; only of a run through a chain as it is served.
        passages: texts that were judged, by id; likewise.
        reviews: what people said of left-out cases, by case id.
        refusal: why the latest calibration wrote no policy; None where it wrote one, where there
            was none, or when not asked for.
    """

    QUESTIONS: ClassVar = TableSpec(
        "questions", Question, "question_id", hint=_RUN_AGAIN, whole=True, clean=True
    )
    SOURCES: ClassVar = TableSpec("sources", SourceRow, "question_id", hint=_RUN_AGAIN, clean=True)
    PASSAGES: ClassVar = TableSpec(
        "passages", StoredPassage, "passage_id", hint=_RUN_AGAIN, clean=True
    )

    manifest: MeasuredManifest
    questions: Mapping[str, Question]
    rows: tuple[MeasuredRow, ...]
    calibration: RunCalibration | None
    sources: Mapping[str, SourceRow] = field(default_factory=dict)
    passages: Mapping[str, StoredPassage] = field(default_factory=dict)
    reviews: Mapping[str, Review] = field(default_factory=dict)
    refusal: RefusalFile | None = None

    @property
    def unanswerable(self) -> bool:
        """Whether questions were asked that somebody knows to be unanswerable."""
        return any(row.kind is CaseKind.UNANSWERABLE for row in self.rows)

    @property
    def unmatched(self) -> frozenset[str]:
        """Ids of the questions that name a source which no document has."""
        return frozenset(
            row.question_id
            for row in self.rows
            if row.error is not None and row.error.type == UnmatchedSourceError.__name__
        )

    @property
    def settings(self) -> dict[str, Any]:
        """All settings as they stand in the manifest."""
        return self.manifest.settings.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def read(
        cls, folder: AnyPath, *, with_calibration: bool = True, unfinished: bool = False
    ) -> MeasuredRun:
        """Read a run of relevance signals.

        Args:
            folder: of the run.
            with_calibration: False leaves `calibration.json` and `refusal.json` unread, so that a
                broken one can be replaced.
            unfinished: True also reads a run of which only some rows are there: enough to show
                it, not to certify on it.

        Raises:
            InputError: no run there, another suite, a file that is missing, broken or
                written by a newer knowgate, or a run that is not finished; names file
                and line.
        """
        root = Path(folder)
        manifest = _read_manifest(root)
        if not cls.QUESTIONS.path(root).exists():
            hint = "start the same `knowgate measure` again, it writes what is missing"
            raise _misfit("no questions.jsonl in the run folder", str(root), hint)
        questions = cls.QUESTIONS.by_key(root)
        rows = _read_rows(root, questions)
        if not rows:
            raise _not_finished(root, manifest, 0)
        if not unfinished:
            _require_complete(root, manifest, questions, rows)
        calibration = _read_calibration(root, manifest, questions) if with_calibration else None
        sources, passages = cls.SOURCES.by_key(root), cls.PASSAGES.by_key(root)
        reviews = Review.read(root, _reviewable(rows))
        refusal = _read_file(root / "refusal.json", RefusalFile) if with_calibration else None
        return cls(manifest, questions, rows, calibration, sources, passages, reviews, refusal)

    @property
    def reviewable(self) -> dict[str, MeasuredRow]:
        """The cases that can be reviewed, by id: measured, with the source left out."""
        return _reviewable(self.rows)

    def review_counts(self) -> dict[str, int]:
        """How many left-out cases there are, and how many have which verdict."""
        cases, said = len(self.reviewable), [one.verdict for one in self.reviews.values()]
        verdicts = {verdict.value: said.count(verdict) for verdict in Review.Verdict}
        return {"left_out": cases, "reviewed": len(said), **verdicts, "open": cases - len(said)}

    @property
    def texts(self) -> dict[str, str]:
        """The texts that the run knows, by passage id.

        A shared passage goes by the id of the first question that it answers.
        """
        own = {name: question.passage for name, question in self.questions.items()}
        return {**own, **{name: passage.text for name, passage in self.passages.items()}}


def _misfit(what: str, where: str, hint: str = _RUN_AGAIN) -> InputError:
    return InputError(what, where=where, hint=hint)


def _read_manifest(root: Path) -> MeasuredManifest:
    path = str(root / "manifest.json")
    value = Manifest.read_raw(root)
    suite = value.get("suite")
    if suite != "ookb":
        what = f"the run is of suite {suite!r}, not 'ookb'"
        raise _misfit(what, path, "name a run made with `knowgate measure`")
    if value.get("holds") == "replies":
        hint = "calibrate on a run of `knowgate measure --questions … --scorer … --out …`"
        raise _misfit("the run holds replies, not relevance signals", path, hint)
    manifest = MeasuredManifest.checked(value, where=path, hint=_RUN_AGAIN, clean=True)
    if not manifest.cases:
        raise _misfit("the run holds no cases", path)
    return manifest


def _not_finished(root: Path, manifest: MeasuredManifest, done: int) -> InputError:
    what = f"the run is not finished ({done} of {manifest.cases} cases)"
    return _misfit(what, str(root), _CONTINUE)


def _read_rows(root: Path, questions: Mapping[str, Question]) -> tuple[MeasuredRow, ...]:
    places = Table(root, _ROWS, writable=False).places()
    for where, row in places:
        if row.question_id not in questions:
            what = f"question_id {row.question_id!r} is not in questions.jsonl: {_APART}"
            raise _misfit(what, where)
        if row.case_id != f"{row.question_id}/{row.kind}":
            raise _misfit(f"case {row.case_id!r} is another {row.kind} case: {_APART}", where)
        own = questions[row.question_id].own_passage
        if row.kind.leaves_out and own in row.retrieved:
            raise _misfit(f"passage {own!r} was retrieved although it was left out", where)
    return tuple(row for _, row in places)


def _require_complete(
    root: Path,
    manifest: MeasuredManifest,
    questions: Mapping[str, Question],
    rows: tuple[MeasuredRow, ...],
) -> None:
    """Reject anything but each question's two or three cases, in order, with its passage named."""
    alone = {
        row.question_id: row.kind
        for row in rows
        if row.kind in (CaseKind.LIVE, CaseKind.UNANSWERABLE)
    }
    echoed = any(row.kind is CaseKind.ECHO for row in rows)
    kinds = (*CaseKind.twins(), CaseKind.ECHO) if echoed else CaseKind.twins()
    expected = [
        f"{name}/{kind}"
        for name in questions
        for kind in ((alone[name],) if name in alone else kinds)
    ]
    found = [row.case_id for row in rows]
    if set(found) < set(expected):
        raise _not_finished(root, manifest, len(found))
    if found != expected:
        raise _misfit(_APART, str(root / "rows.jsonl"))
    # Of a question whose every case failed, nobody may know the source.
    measured = {row.question_id for row in rows if row.error is None} - alone.keys()
    for name in measured:
        if not questions[name].passage_id:
            # A guess could count questions on one passage as independent.
            what = f"question {name!r}: field 'passage_id' is missing"
            raise _misfit(what, str(root / "questions.jsonl"), _CONTINUE)


def _read_calibration(
    root: Path,
    manifest: MeasuredManifest,
    questions: Mapping[str, Question],
) -> RunCalibration | None:
    path = root / "calibration.json"
    found, what = _read_file(path, RunCalibration), ""
    if found is None:
        return None
    manifest.require_of(found.policy, where=str(path), hint=_CALIBRATE_AGAIN)
    fitted, held_out = found.calibration_questions, found.test_questions
    if stray := sorted((fitted | held_out | found.thresholds.keys()) - questions.keys()):
        what = f"question {stray[0]!r} is not part of this run"
    elif both := sorted(fitted & held_out):
        what = f"question {both[0]!r} is a calibration and a test question at once"
    if what:
        raise _misfit(what, str(path), _CALIBRATE_AGAIN)
    return found


def _read_file(path: Path, model: type[RowT]) -> RowT | None:
    """What a calibration left; None where it left no such file."""
    if not path.exists():
        return None
    value = Manifest.read_versioned(path, hint=_CALIBRATE_AGAIN)
    if "policy" in model.model_fields:
        value["policy"] = Policy.parse(value.get("policy"), where=str(path))
    return model.checked(value, where=str(path), hint=_CALIBRATE_AGAIN, clean=True)
