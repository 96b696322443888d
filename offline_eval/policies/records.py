"""Calibration records with what measured them, and how runs become such records."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...calibration import CalibrationRecord
from ...calibration.mixing import MixFit
from ...calibration.records import MISSING_CASES, lines_sha256
from ...calibration.risk.fit import Cascade
from ...guard.artefacts import Missing, Retrieval
from ...guard.contracts import ConflictBetween
from ...guard.errors import InputError
from ...guard.files import AnyPath
from ...guard.fingerprint import Fingerprint, MixRule, default_aggregator, read_loosely
from ...guard.policy import Policy, default_calibrator
from ..data.diversity.uniqueness import words_of
from ..data.questions import note_on_makers
from ..report.prose import Templates
from ..run import Question, Stored
from ..run.grouping import grouped
from ..run.manifest import Manifest
from ..run.measured_run import MeasuredRun, Review
from ..run.questions import CaseKind, MeasuredRow
from ..suites.uniknow.plan import uniknow_signals
from ..systems.leaving_out import stands_in

WORDS = Templates(Path(__file__).parent / "calibration.txt")


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Records to calibrate on, with what measured them.

    Attributes:
        records: in their order; signals are as measured, on any scale.
        source: file or folder they come from.
        scorer: what measured relevance, None where that is not known.
        estimator: what measured confidence, None where that is not known or nothing did.
        aggregator: how passage scores became one value.
        population: what kind of questions and cases these are, as a phrase; may be "".
        conflict_between: what the records' `conflict` compares, as in `Policy`.
        kept_sets: of each question whose passage was retrieved, the raw scores of what was
            retrieved and the places of those that hold the answer, for `Policy.kept_margin_of`.
        tuned_on: ids of the questions that the scorer was tuned on; None where it was tuned, and
            nothing says on what.
        retrieval: what their passages were retrieved by, None where that is not known.
        cascade: the costly scorer that gave the records' verdicts, and what it costs; None where
            there is none.
        leaves_out: each question has a record `in_kb` and a record `left_out`, as `Leak` needs.
        contents: by question and case, a hash of the question and of the passages that were
            judged; empty where they are not known.
        others: further files or folders that they rest on: of a judge's verdicts, of a mix.
        missing: which of the records must not pass; None where nobody has chosen yet.
        beside: records that must not pass either and that the promise is not about.
        makers: of each question that a program made, its `QuestionRecord.made_by`.
        reviews: by question, what people said of its left-out case; None where it cannot be
            reviewed, since the records come from no run that leaves sources out.
        margins: by question and case, how far the best passage stands out, see `MixRule`; empty
            where scores of passages are not known.
        mix: of several scorers, which were compared as a mix; None for any other set.
        unbound: they come from a run of an earlier version, where a row that was changed, left out
            or taken from another run is not noticed.
    """

    records: tuple[CalibrationRecord, ...]
    source: str
    scorer: Fingerprint | None = None
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    population: str = ""
    conflict_between: ConflictBetween = "memory"
    tuned_on: tuple[str, ...] | None = ()
    retrieval: Retrieval | None = None
    leaves_out: bool = False
    kept_sets: tuple[tuple[tuple[float, ...], tuple[int, ...]], ...] = ()
    cascade: Cascade | None = None
    contents: Mapping[tuple[str, str], str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    missing: Missing | None = None
    beside: tuple[CalibrationRecord, ...] = ()
    makers: Mapping[str, str] = field(default_factory=dict)
    reviews: Mapping[str, Review.Verdict] | None = None
    margins: Mapping[tuple[str, str], float] = field(default_factory=dict)
    mix: MixFit | None = None
    unbound: bool = False

    def about(self, missing: Missing | None) -> CalibrationSet:
        """Return the set with the records that a promise is about; the others stand beside them.

        Args:
            missing: which questions must not pass: `left_out`, `unanswerable` or `both`; None
                for the user's own unanswerable ones, where there are any.

        Raises:
            InputError: there are no such questions.
        """
        cases = {record.case for record in self.records if record.is_missing}
        if missing is None:
            missing = "unanswerable" if "unanswerable" in cases else "left_out"
        wanted = set(MISSING_CASES) if missing == "both" else {missing}
        if "unanswerable" in wanted - cases:
            what = "holds no unanswerable questions of your own"
            hint = "measure with --unanswerable FILE, or promise with --missing left-out"
            raise InputError(what, where=self.source, hint=hint)
        parts = grouped(self.records, lambda r: r.is_missing and r.case not in wanted)
        kept, beside = (tuple(parts.get(aside, ())) for aside in (False, True))
        population = self.population
        if population and missing != "left_out":
            population = f"{population}; {WORDS.text('of_users')}"
        return replace(self, records=kept, beside=beside, missing=missing, population=population)

    @property
    def generated(self) -> float:
        """Share of the questions that programs made; 0.0 where all are people's."""
        asked = {record.question_id for record in self.records}
        return len(asked & self.makers.keys()) / len(asked) if asked else 0.0

    def marked(self, policy: Policy) -> Policy:
        """A policy from these records, which says if programs made some of the questions."""
        asked = {record.question_id for record in self.records}
        makers = Counter(maker for name, maker in self.makers.items() if name in asked)
        note = note_on_makers(makers, len(asked))
        notes = " ".join(one for one in (policy.note, note) if one)
        return policy.model_copy(update={"generated": self.generated, "note": notes})

    @property
    def sources(self) -> tuple[str, ...]:
        """All files or folders that the records come from."""
        return (self.source, *self.others)

    @property
    def name(self) -> str:
        """The file's or folder's own name, so that reports do not depend on where it is."""
        return Path(os.path.abspath(self.source)).name

    @property
    def questions(self) -> int:
        """How many questions there are, not counting variants."""
        return len({record.question_id for record in self.records})

    @property
    def seed(self) -> int:
        """The seed of every split and resampling, which follows from the questions."""
        return CalibrationRecord.seed_of(record.question_id for record in self.records)

    @property
    def groups(self) -> int:
        """How many groups there are; a question without a group is one of its own."""
        return len({record.unit for record in self.records})

    @property
    def sha256(self) -> str:
        """Hash of the records without verdicts and reviews, independent of their order.

        With another costly scorer, or further reviews, these are still the same questions.
        """
        return lines_sha256(
            json.dumps(astuple(_unreviewed(record))[:-2]) for record in self.records
        )

    def cascade_settings(self) -> dict[str, Any]:
        """What of a cascade decides the test, as JSON; empty without one."""
        if self.cascade is None:
            return {}
        verdicts = lines_sha256(
            json.dumps([r.question_id, r.case, r.verdict]) for r in self.records
        )
        settings = {name: one for name, one in asdict(self.cascade).items() if one is not None}
        if self.cascade.strict is not None:
            strict = (json.dumps([r.question_id, r.case, r.strict]) for r in self.records)
            settings["strict"] = lines_sha256(strict)
        return {"cascade": {**settings, "costly": verdicts}}

    def with_judge(
        self,
        judged: CalibrationSet,
        read: CalibrationSet | None = None,
    ) -> CalibrationSet:
        """The records with the verdicts of a costly scorer on the same cases.

        Args:
            judged: what that scorer measured, e.g. another run of `knowgate measure`.
            read: what the strict reading measured: a run with `--scorer strict:NAME`.

        Raises:
            InputError: one measured other cases, or what was retrieved in another way; it is the
                same scorer, or aggregated in another way than a cascade does; or `read` is no
                strict reading of the cheap scorer.
        """
        verdicts = self.require_same_cases(judged)
        strict = None if read is None else self.require_same_cases(read)
        if read is not None and read.scorer is not None:
            loose = read_loosely(read.scorer)
            if self.scorer is None or loose is None or loose.differences(self.scorer):
                what = f"was measured by {read.scorer.kind!r}, which is no strict reading of the "
                what += f"scorer of {self.name}"
                hint = "measure with --scorer NAME, with --scorer strict:NAME, and with the judge"
                raise InputError(what, where=read.source, hint=hint)
        assert judged.scorer is not None
        calibrator = default_calibrator(judged.scorer)
        records = []
        for record in self.records:
            key = record.question_id, record.measured_case
            raw, relevance = verdicts[key], record.relevance
            doubted = None if strict is None else strict[key]
            if strict is not None and doubted is None:
                # Where one reading fails, the cascade does.
                relevance = None
            verdict = None if raw is None else calibrator.apply(raw)
            records.append(replace(record, relevance=relevance, verdict=verdict, strict=doubted))
        return replace(
            self,
            records=tuple(records),
            cascade=Cascade(costly=judged.scorer, strict=None if read is None else read.scorer),
            tuned_on=tuned_together((self, judged)),
            others=(*self.others, judged.source),
        )

    def require_same_cases(self, judged: CalibrationSet) -> dict[tuple[str, str], float | None]:
        """Return another scorer's relevance by question and case.

        Raises:
            InputError: it measured other cases, or what was retrieved in another way; or it is
                the same scorer, or aggregated in another way than a cascade does.
        """
        relevance = {(r.question_id, r.measured_case): r.relevance for r in judged.records}
        cases = ((r.question_id, r.measured_case) for r in self.records)
        unmeasured = next((case for case in cases if case not in relevance), None)
        here, there = self.contents, judged.contents
        other = next((case for case, told in here.items() if there.get(case, told) != told), None)
        what, hint = "", "measure the same questions with both scorers"
        asked = "question {!r}, case {!r}".format
        if unmeasured is not None:
            what = f"{asked(*unmeasured)} of {self.name} was not measured"
        elif self.retrieval != judged.retrieval:
            what = f"its passages were retrieved in another way than those of {self.name}"
            hint = "measure both with the same options, apart from --scorer and --out"
        elif judged.scorer is None:
            what, hint = "does not say which scorer measured it", "name a run of `knowgate measure`"
        elif other is not None:
            what = f"{asked(*other)}, has another question or passages here than in {self.name}"
            hint += ", on the same passages"
        elif judged.scorer == self.scorer:
            what = f"was measured by the scorer of {self.name} itself"
            hint = "name a run of another scorer"
        if what:
            raise InputError(what, where=judged.source, hint=hint)
        judged.require_usual_aggregator()
        return relevance

    def require_usual_aggregator(self) -> None:
        """Reject values that a cascade, or a mix, would aggregate in another way.

        Raises:
            InputError: passages were aggregated in another way than the scorer's usual one.
        """
        usual = None if self.scorer is None else default_aggregator(self.scorer.kind)
        if usual not in (None, self.aggregator):
            raise InputError(
                f"is aggregated by {self.aggregator!r}; cascades and mixes take {usual!r} here",
                where=self.source,
                hint="measure without --aggregator",
            )

    @staticmethod
    def of_run(run: AnyPath) -> CalibrationSet:
        """The cases of a finished run folder, by the suite that its manifest names.

        Raises:
            InputError: no such run, a suite that measures nothing to calibrate on, or a run
                that its suite's reader rejects.
        """
        suite = str(Manifest.read_raw(run).get("suite"))
        if suite not in _SUITES:
            raise InputError(
                f"a run of suite {suite!r} holds nothing to calibrate on",
                where=str(Path(run) / "manifest.json"),
                hint=f"name a run of: {', '.join(_SUITES)}; or write a records file (--records)",
            )
        return _SUITES[suite](run)


def tuned_together(sets: Iterable[CalibrationSet]) -> tuple[str, ...] | None:
    """The questions that one of several scorers was tuned on; None where one does not say."""
    tuned = [one.tuned_on for one in sets]
    return None if None in tuned else tuple(dict.fromkeys(q for one in tuned for q in one or ()))


def _unreviewed(record: CalibrationRecord) -> CalibrationRecord:
    """The record as it was before its case was found to be answered elsewhere."""
    if record.case == record.measured_case:
        return record
    return replace(record, case=record.measured_case, context_right=False)


def require_both_kinds(records: Iterable[CalibrationRecord], where: str) -> None:
    """Reject records that errors cannot be weighed on.

    Raises:
        InputError: no answerable question was measured, or none whose answer is missing.
    """
    measured = [record for record in records if record.relevance is not None]
    answerable = any(record.is_answerable for record in measured)
    if not answerable or not any(record.is_missing for record in measured):
        kind = "missing" if answerable else "retrieved"
        raise InputError(
            f"no question whose answer is {kind} was measured, so errors cannot be weighed",
            where=where,
            hint="measure questions of both kinds",
        )


def records_from_ookb(run: AnyPath) -> CalibrationSet:
    """Two cases per question: with the whole knowledge base, and with its source left out.

    The suite judges no reply: a context counts as right where the question's own passage
    was retrieved, or where a review found that another passage answers the question with its own
    left out. A left-out case that nobody reviewed, or nobody was sure of, counts as wrong. It
    measures no confidence.

    Raises:
        InputError: no finished run of this suite lies there, or it holds questions of a live
            log only.
    """
    found: MeasuredRun = MeasuredRun.read(run, with_calibration=False)
    # Questions whose source nobody knows are no evidence.
    kinds = (*CaseKind.twins(), CaseKind.UNANSWERABLE)
    rows = [
        row for row in found.rows if row.kind in kinds and row.question_id not in found.unmatched
    ]
    if not any(row.kind is CaseKind.IN_KB for row in rows):
        what = "it is not known where any answer stands, so there is nothing to calibrate on"
        hint = 'give the questions "source", "passage" or "answer"; a run of a live log serves '
        hint += "to watch for drift (`knowgate drift --run`)"
        raise InputError(what, where=os.fspath(run), hint=hint)
    return CalibrationSet(
        records=tuple(_ookb_record(found, row) for row in rows),
        source=os.fspath(run),
        scorer=found.manifest.scorer,
        aggregator=found.manifest.settings.aggregator,
        population=WORDS.text(
            "drawn_from",
            found.manifest.settings.leave_out.value,
            sum(row.kind is CaseKind.LEFT_OUT for row in found.rows),
            sum(review.answered for review in found.reviews.values()),
        ),
        reviews={
            row.question_id: review.verdict
            for row in rows
            if (review := found.reviews.get(row.case_id)) is not None and review.verdict is not None
        },
        tuned_on=found.manifest.tuned_on,
        unbound=not found.manifest.chained,
        retrieval=_retrieval(found),
        leaves_out=True,
        kept_sets=tuple(_kept_sets(found)),
        contents=_contents(found, rows),
        margins={
            (row.question_id, row.kind.value): MixRule.margin(scores)
            for row in rows
            if (scores := [one for one in row.scores if one is not None])
        },
        makers={one.question_id: one.made_by for one in found.questions.values() if one.made_by},
    )


def _contents(run: MeasuredRun, rows: Iterable[MeasuredRow]) -> dict[tuple[str, str], str]:
    """Per case that did not fail, a hash of its question and of the passages in their order."""
    found, texts = {}, run.texts
    for row in rows:
        if row.error is None:
            judged = [(name, texts.get(name)) for name in row.retrieved]
            text = json.dumps([run.questions[row.question_id].question, judged])
            found[row.question_id, row.kind.value] = lines_sha256([text])
    return found


def _retrieval(run: MeasuredRun) -> Retrieval:
    settings = run.manifest.settings
    known = {"scorer", "aggregator", "top_k", "passage"}
    stored = [one.text for one in run.passages.values()]
    texts = stored or [one.passage for one in run.questions.values()]
    return Retrieval(
        k=settings.top_k,
        passage=settings.passage,
        longest=max(map(len, texts), default=0) or None,
        details=settings.model_dump(mode="json", exclude=known, exclude_none=True),
    )


def _kept_sets(run: MeasuredRun) -> Iterator[tuple[tuple[float, ...], tuple[int, ...]]]:
    for row in run.rows:
        if row.kind is not CaseKind.IN_KB or row.error is not None or row.retrieval_miss:
            continue
        question = run.questions[row.question_id]
        if question.made_by:
            # Its wording is the passage's, so people's lie further below the best.
            continue
        pairs = zip(row.retrieved, row.scores, strict=True)
        scored = [(name, score) for name, score in pairs if score is not None]
        holding = _holding(run, question, [name for name, _ in scored])
        needed = tuple(i for i, (name, _) in enumerate(scored) if name in holding)
        if needed:
            yield tuple(score for _, score in scored), needed


def _holding(run: MeasuredRun, question: Question, names: Sequence[str]) -> set[str]:
    """The passages that hold the answer: the own one, or the chunks of the own document.

    Of several chunks those that have the answer word for word, if there are such.
    """
    own, answer = question.own_passage, words_of(question.answer)
    found = {name for name in names if name == own or name.startswith(f"{own}#")}
    texts = {name: run.passages[name].text for name in found & run.passages.keys()}
    verbatim = {name for name, text in texts.items() if stands_in(words_of(text), answer)}
    return verbatim if answer and verbatim else found


def _ookb_record(run: MeasuredRun, row: MeasuredRow) -> CalibrationRecord:
    failed, review = row.error is not None, run.reviews.get(row.case_id)
    elsewhere = review is not None and review.answered
    right = row.kind is CaseKind.IN_KB and not failed and not row.retrieval_miss
    question = run.questions[row.question_id]
    group = question.evidence
    if row.kind is CaseKind.UNANSWERABLE:
        group = f"topic {question.topic}" if question.topic else ""
    return CalibrationRecord(
        question_id=row.question_id,
        relevance=None if failed else row.raw_relevance,
        confidence=None,
        context_right=right or elsewhere,
        closed_book_right=None,
        group=group,
        case=CalibrationRecord.ELSEWHERE if elsewhere else row.kind.value,
        nothing_retrieved=not failed and not row.retrieved,
    )


class _UniknowSettings(Stored):
    scorer: Fingerprint | None
    estimator: Fingerprint | None
    dataset: str = ""
    aggregator: str | None = None


def records_from_uniknow(run: AnyPath) -> CalibrationSet:
    """One case per question and context, with what the run's guard measured of it.

    A context counts as right where the model's plain reply to it is the expected one. The
    run's training and evaluation questions are both taken: calibration makes parts of its own.

    Raises:
        InputError: no such run, no guard took part, or it is not whole.
    """
    signals, manifest = uniknow_signals(run), Manifest.read(run)
    hint = "make the run again into another folder"
    settings = _UniknowSettings.checked(manifest.settings, where=os.fspath(run), hint=hint)
    kinds = ", ".join(dict.fromkeys(signal.kind.replace("_", " ") for signal in signals))
    return CalibrationSet(
        records=tuple(signal.record() for signal in signals),
        source=os.fspath(run),
        scorer=settings.scorer,
        estimator=settings.estimator,
        aggregator=settings.aggregator or "max",
        unbound=not manifest.chained,
        population=f"questions of the data set {settings.dataset}, each with a context of every "
        f"kind that was made ({kinds}), all kinds counting the same",
    )


_SUITES = {"ookb": records_from_ookb, "uniknow": records_from_uniknow}
