"""The numbers of a run of relevance signals, each with its interval."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...._version import __version__
from ....calibration import Interval, SelectiveCurve
from ....guard.decision import Route
from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...data import QuestionRecord
from ...data.diversity import words_of
from ...report import Document
from ...run import (
    CaseKind,
    InputFile,
    MeasuredRow,
    MeasuredRun,
    Question,
    Review,
)
from ._measured_counts import MeasuredCounts


@dataclass(frozen=True, slots=True)
class Case:
    """A case that was measured without an error.

    Attributes:
        row: as stored.
        question: what was asked.
        score: raw relevance; where nothing was retrieved, a value below all others, so
            that ranking needs no special case.
        relevance: calibrated, in [0, 1]; None without a policy.
        passes: whether the context passes, by the policy or, for costs where nothing was held
            out, by the threshold that the other questions give; None without a policy.
        counted: whether the rates are about it; False without a policy.
        held_out: whether it is, and that threshold is known not to rest on the question.
        review: what a person said of it.
    """

    row: MeasuredRow
    question: Question
    score: float
    relevance: float | None
    passes: bool | None
    counted: bool = False
    held_out: bool = False
    review: Review.Verdict | None = None

    @property
    def found(self) -> bool:
        """Whether this is an in-KB case whose own passage was retrieved."""
        return self.row.kind is CaseKind.IN_KB and not self.row.retrieval_miss

    @property
    def missed(self) -> bool:
        """Whether this is an in-KB case whose own passage was not retrieved."""
        return self.row.kind is CaseKind.IN_KB and self.row.retrieval_miss

    @property
    def left_out(self) -> bool:
        """Whether the own passage had been left out, and no review found another that answers."""
        return self.row.kind is CaseKind.LEFT_OUT and not self.elsewhere

    @property
    def elsewhere(self) -> bool:
        """Whether review found it answered by another passage: it counts in no rate."""
        return self.review is Review.Verdict.ANSWERED

    @property
    def in_kb(self) -> bool:
        """Whether the knowledge base was whole."""
        return self.row.kind is CaseKind.IN_KB

    @property
    def missing(self) -> bool:
        """Whether nothing that was retrieved should answer it, so that it must not pass."""
        return self.left_out or self.row.kind is CaseKind.UNANSWERABLE


def measured_cases(
    run: MeasuredRun, kinds: Sequence[CaseKind] = CaseKind.twins()
) -> tuple[Case, ...]:
    """Collect the cases of these kinds without an error, in the order of the run."""
    rows = [row for row in run.rows if row.error is None and row.kind in kinds]
    scores = [row.raw_relevance for row in rows if row.raw_relevance is not None and row.retrieved]
    lowest = min(scores, default=0.0) - 1.0
    gate = None if run.calibration is None else relevance_gate(run.calibration.policy)
    found = [_case(row, run.questions[row.question_id], gate, lowest) for row in rows]
    return tuple(_reported(_with_review(case, run), run) for case in found)


def _with_review(case: Case, run: MeasuredRun) -> Case:
    review = run.reviews.get(case.row.case_id)
    return case if review is None else replace(case, review=review.verdict)


def _reported(case: Case, run: MeasuredRun) -> Case:
    """The case with whether the rates are about it, and as they take it."""
    if run.calibration is None:
        return case
    name, passes = case.row.question_id, case.passes
    if name in run.calibration.thresholds:
        threshold, raw = run.calibration.thresholds[name], case.row.raw_relevance
        passes = threshold is not None and raw is not None and raw >= threshold
    counted = name in run.calibration.reported_questions
    if case.row.kind is CaseKind.UNANSWERABLE:
        # The promise may be about left-out questions alone: then nothing rests on these.
        counted = counted or name not in run.calibration.calibration_questions
    held_out = counted and not run.calibration.given_policy
    return replace(case, passes=passes, counted=counted, held_out=held_out)


def relevance_gate(policy: Policy) -> Policy:
    """Reduce the policy to what this suite measures: whether the context passes.

    Confidence and conflict are not measured here. If the policy needed them, it would
    abstain because a signal is missing, which says nothing about relevance.
    """
    return policy.model_copy(update={"check_conflict": False, "confidence_threshold": None})


def _case(row: MeasuredRow, question: Question, gate: Policy | None, lowest: float) -> Case:
    raw = row.raw_relevance if row.retrieved else None
    score = lowest if raw is None else raw
    if gate is None:
        return Case(row, question, score, None, None)
    relevance = 0.0 if raw is None else gate.relevance_calibrator.apply(raw)
    signals = Signals.replay(gate, relevance, None, nothing_retrieved=raw is None)
    passes = decide_route(gate, signals).route is Route.FOLLOW_CONTEXT
    return Case(row, question, score, relevance, passes)


SERVED = "served"
# A shorter answer stands in a text by chance.
_SHORT_ANSWER = 4

# Seed of the bootstrap; fixed, so that the same run gives the same report.
_SEED = 0

NOTE_NOT_CALIBRATED = "'knowgate calibrate' on this run gives it"
NOTE_NOTHING_HELD_OUT = "no question that the rates are about could be measured"
NOTE_NOTHING_MEASURED = "no case of this kind could be measured"


class _Summary(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Summary):
    """An estimate with its 95 % interval.

    Attributes:
        value: None where nothing was observed, never 0.0.
        low: lower end, None likewise.
        high: upper end, None likewise.
        n: number of questions that it rests on.
        note: why it is undefined, or how to get it; otherwise empty.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the four numbers, and the note where there is one."""
        return self.model_dump(exclude=set() if self.note else {"note"})


class LeftOutSummary(_Summary):
    """Cases whose own passage had been left out of the knowledge base, or that nothing answers.

    Attributes:
        cases: in the run.
        errors: among them, not measured.
        tested: measured, and not what the policy is known to be fitted on.
        abstained: among the tested; None without a policy.
        abstention_rate: `abstained` of `tested`; higher is better.
    """

    cases: int
    errors: int
    tested: int
    abstained: int | None
    abstention_rate: Estimate


class InKbSummary(_Summary):
    """Cases with the whole knowledge base.

    Attributes:
        cases: in the run.
        errors: among them, not measured.
        retrieval_misses: own passage not retrieved; counted apart.
        tested: measured, and not what the policy is known to be fitted on, own passage retrieved.
        abstained: among the tested; None without a policy.
        false_abstention_rate: `abstained` of `tested`; lower is better.
        retrieval_miss_rate: of all measured cases; the retriever's share.
    """

    cases: int
    errors: int
    retrieval_misses: int
    tested: int
    abstained: int | None
    false_abstention_rate: Estimate
    retrieval_miss_rate: Estimate


class EchoSummary(_Summary):
    """Cases whose own passage had been left out, with the question as the first passage.

    Attributes:
        cases: in the run.
        errors: among them, not measured.
        tested: measured, and not what the policy is known to be fitted on.
        passed: among the tested; None without a policy.
        pass_rate: `passed` of `tested`; lower is better.
    """

    cases: int
    errors: int
    tested: int
    passed: int | None
    pass_rate: Estimate


class ReviewSummary(_Summary):
    """What people said of cases whose own passage had been left out.

    Attributes:
        reviewed: of them, how many.
        answered: among the reviewed; another passage answers them, so they count in no rate.
        not_answered: likewise; they count as left out.
        unsure: likewise.
    """

    reviewed: int
    answered: int
    not_answered: int
    unsure: int

    @classmethod
    def of(cls, run: MeasuredRun) -> ReviewSummary | None:
        """Count; None where nothing was reviewed."""
        said = Counter(review.verdict for review in run.reviews.values())
        if not said:
            return None
        return cls(
            reviewed=said.total(), **{verdict.value: said[verdict] for verdict in Review.Verdict}
        )


class PolicySummary(_Summary):
    """The policy that the rates are about.

    Attributes:
        threshold: relevance from which a context passes; None: nothing passes.
        guarantee: what was certified, None for a policy written by hand.
        words: the guarantee as a text.
        calibration_questions: number of questions that the policy was fitted on.
        test_questions: number of questions that the rates are about: held out, or judged
            by a threshold that the others give.
        memory_threshold: confidence from which it answers from memory, declared and not
            certified; None: never.
        measures_more: the policy also needs confidence or conflict, which this suite does
            not measure.
    """

    threshold: float | None
    guarantee: dict[str, Any] | None
    words: str
    calibration_questions: int
    test_questions: int
    memory_threshold: float | None
    measures_more: bool


class RefusalSummary(_Summary):
    """Why the latest calibration wrote no policy.

    Attributes:
        problems: that it has, as sentences.
        advice: what would work, as phrases.
    """

    problems: tuple[str, ...]
    advice: tuple[str, ...]


class ServedSummary(_Summary):
    """How a run asked a chain as it is served.

    Attributes:
        sources_found_by: number of questions by how the documents that hold their answer were
            told from others. `unknown` ones were measured as they are: they tell drift, and
            nothing about leak and false abstention.
        short_contexts: left-out cases with fewer documents than are served, since the chain
            could not be asked for more; they are easier than real ones.
        answer_elsewhere: left-out cases in which a retrieved document still contains the whole
            answer, of at least four words, and that nobody reviewed: they count as leaks.
    """

    sources_found_by: dict[str, int]
    short_contexts: int
    answer_elsewhere: int


class OokbSummary(_Summary):
    """What `report.json` holds.

    Attributes:
        questions: in the run.
        passages: number of different passages that hold their answers, or of sources, pages or
            topics where these were left out. Where questions share one, the intervals are too
            narrow: they take questions for independent.
        cases: stored in the run.
        cases_planned: as the manifest has it; more than `cases` in an unfinished run.
        errors: cases that could not be measured.
        errors_by_type: the same by type, most frequent first.
        leave_out: what the left-out cases lack.
        unmatched: questions that name a source which no document has.
        duplicates: questions that repeat an earlier one, case and white space aside.
        duplicates_apart: those that count as evidence of their own all the same, since they name
            other sources.
        auroc: in-KB against left-out, retrieval misses included; all questions.
        auroc_found_only: without retrieval misses.
        settings: of the run, as stored.
        served: of a run through a chain as it is served, else None.
        echo: of a run with cases in which a passage repeats the question, else None.
        unanswerable: of a run with questions that the user knows to be unanswerable, else None.
        auroc_unanswerable: in-KB without retrieval misses against these; likewise.
        shared_words: mean share of a question's content words that its own passage holds; None
            where the passages are not stored.
        made_by: of questions that programs made, how many by each.
        reviews: of a run with reviews, else None.
        refusal: where the latest calibration wrote no policy, else None.
    """

    schema_version: int = Document.SCHEMA_VERSION
    suite: str = "ookb"
    created_by: str
    run_created_by: str
    questions: int
    passages: int
    cases: int
    cases_planned: int
    errors: int
    errors_by_type: dict[str, int]
    leave_out: str
    unmatched: int
    duplicates: int
    duplicates_apart: int
    auroc: Estimate
    auroc_found_only: Estimate
    left_out: LeftOutSummary
    in_kb: InKbSummary
    policy: PolicySummary | None
    settings: dict[str, Any]
    inputs: tuple[InputFile, ...]
    served: ServedSummary | None = None
    echo: EchoSummary | None = None
    unanswerable: LeftOutSummary | None = None
    auroc_unanswerable: Estimate | None = None
    shared_words: float | None = None
    made_by: dict[str, int] = {}
    reviews: ReviewSummary | None = None
    refusal: RefusalSummary | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        value = self.model_dump(mode="json")
        for name in ("served", "shared_words", "made_by", "reviews", "refusal"):
            if getattr(self, name) in (None, {}):
                del value[name]
        if self.echo is None:
            del value["echo"]
        else:
            value["echo"]["pass_rate"] = self.echo.pass_rate.to_dict()
        if self.unanswerable is None or self.auroc_unanswerable is None:
            del value["unanswerable"], value["auroc_unanswerable"]
        else:
            rate = self.unanswerable.abstention_rate.to_dict()
            value["unanswerable"]["abstention_rate"] = rate
            value["auroc_unanswerable"] = self.auroc_unanswerable.to_dict()
        for name in ("auroc", "auroc_found_only"):
            value[name] = getattr(self, name).to_dict()
        value["left_out"]["abstention_rate"] = self.left_out.abstention_rate.to_dict()
        for name in ("false_abstention_rate", "retrieval_miss_rate"):
            value["in_kb"][name] = getattr(self.in_kb, name).to_dict()
        return value


def summarise_ookb(run_dir: str | os.PathLike[str]) -> OokbSummary:
    """Summarise a run folder.

    Raises:
        InputError: a file is missing, broken, empty or written by a newer knowgate.
    """
    run = MeasuredRun.read(run_dir, unfinished=True)
    return summarise(run, measured_cases(run))


def summarise(run: MeasuredRun, cases: Sequence[Case]) -> OokbSummary:
    """Summarise a run; `cases` as `measured_cases` gives them."""
    failed = [row for row in run.rows if row.error is not None]
    known = [
        row
        for row in run.rows
        if row.kind in CaseKind.twins() and row.question_id not in run.unmatched
    ]
    counts = MeasuredCounts.of(run)
    found = [case for case in cases if case.found]
    unanswerable = measured_cases(run, (CaseKind.UNANSWERABLE,))
    types = Counter(row.error.type for row in failed if row.error is not None)
    return OokbSummary(
        created_by=f"knowgate {__version__}",
        run_created_by=run.manifest.created_by,
        questions=len({row.question_id for row in run.rows} - _alone(run)),
        passages=len({run.questions[row.question_id].evidence for row in known}),
        cases=len(run.rows),
        cases_planned=run.manifest.cases,
        errors=len(failed),
        errors_by_type=dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        leave_out=run.manifest.settings.leave_out,
        unmatched=counts.unmatched,
        duplicates=counts.duplicates,
        duplicates_apart=counts.duplicates_apart,
        auroc=_auroc(cases, [case for case in cases if case.in_kb]),
        auroc_found_only=_auroc(cases, found),
        left_out=_left_out(run, cases, CaseKind.LEFT_OUT),
        in_kb=_in_kb(run, cases),
        policy=_policy(run),
        settings=dict(run.settings),
        inputs=run.manifest.inputs,
        served=_served(run) if run.manifest.settings.retrieval == SERVED else None,
        echo=_echo(run),
        unanswerable=_left_out(run, unanswerable, CaseKind.UNANSWERABLE)
        if run.unanswerable
        else None,
        auroc_unanswerable=_auroc(unanswerable, found) if run.unanswerable else None,
        shared_words=QuestionRecord.mean_shared_words(
            (one.question, one.passage) for one in run.questions.values() if one.passage
        ),
        made_by=Counter(one.made_by for one in run.questions.values() if one.made_by),
        reviews=ReviewSummary.of(run),
        refusal=_refusal(run),
    )


def _alone(run: MeasuredRun) -> set[str]:
    """Ids of the unanswerable questions."""
    return {row.question_id for row in run.rows if row.kind is CaseKind.UNANSWERABLE}


def _refusal(run: MeasuredRun) -> RefusalSummary | None:
    refusal = run.refusal
    if refusal is None:
        return None
    return RefusalSummary(problems=refusal.problems, advice=refusal.advice)


def _served(run: MeasuredRun) -> ServedSummary:
    rows = [row for row in run.rows if row.error is None]
    left_out = [row for row in rows if row.kind is CaseKind.LEFT_OUT]
    found = Counter(one.found_by.value for one in run.sources.values())
    live = [row for row in run.rows if row.kind is CaseKind.LIVE]
    if live:
        found["unknown"] = len(live)
    served = {row.question_id: len(row.retrieved) for row in rows if row.kind is CaseKind.IN_KB}
    return ServedSummary(
        sources_found_by=dict(found),
        short_contexts=sum(len(row.retrieved) < served.get(row.question_id, 0) for row in left_out),
        answer_elsewhere=sum(
            row.case_id not in run.reviews and _answer_stands_in(run, row) for row in left_out
        ),
    )


def _answer_stands_in(run: MeasuredRun, row: MeasuredRow) -> bool:
    answer = words_of(run.questions[row.question_id].answer)
    if len(answer) < _SHORT_ANSWER:
        return False
    texts = (run.passages[name].text for name in row.retrieved if name in run.passages)
    wanted = f" {' '.join(answer)} "
    return any(wanted in f" {' '.join(words_of(text))} " for text in texts)


def _auroc(cases: Iterable[Case], positives: Iterable[Case]) -> Estimate:
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for case in positives:
        scores.setdefault(case.row.question_id, ([], []))[0].append(case.score)
    for case in cases:
        if case.missing:
            scores.setdefault(case.row.question_id, ([], []))[1].append(case.score)
    return _estimate(
        SelectiveCurve.bootstrap_auroc(list(scores.values()), seed=_SEED), NOTE_NOTHING_MEASURED
    )


def _left_out(run: MeasuredRun, cases: Sequence[Case], kind: CaseKind) -> LeftOutSummary:
    rows = [row for row in run.rows if row.kind is kind]
    tested = [case for case in cases if case.row.kind is kind and case.missing and case.counted]
    return LeftOutSummary(
        cases=len(rows),
        errors=sum(row.error is not None for row in rows),
        tested=len(tested),
        abstained=_abstained(run, tested),
        abstention_rate=_abstention(run, tested),
    )


def _echo(run: MeasuredRun) -> EchoSummary | None:
    rows = [row for row in run.rows if row.kind is CaseKind.ECHO]
    if not rows:
        return None
    tested = [case for case in measured_cases(run, (CaseKind.ECHO,)) if case.counted]
    abstained = _abstained(run, tested)
    passed = None if abstained is None else len(tested) - abstained
    note = NOTE_NOT_CALIBRATED if passed is None else NOTE_NOTHING_HELD_OUT
    return EchoSummary(
        cases=len(rows),
        errors=sum(row.error is not None for row in rows),
        tested=len(tested),
        passed=passed,
        pass_rate=_estimate(Interval.wilson(passed or 0, len(tested)), note),
    )


def _in_kb(run: MeasuredRun, cases: Sequence[Case]) -> InKbSummary:
    rows = [row for row in run.rows if row.kind is CaseKind.IN_KB]
    measured = [case for case in cases if case.in_kb]
    misses = sum(case.missed for case in measured)
    tested = [case for case in measured if case.found and case.counted]
    return InKbSummary(
        cases=len(rows),
        errors=sum(row.error is not None for row in rows),
        retrieval_misses=misses,
        tested=len(tested),
        abstained=_abstained(run, tested),
        false_abstention_rate=_abstention(run, tested),
        retrieval_miss_rate=_estimate(
            Interval.wilson(misses, len(measured)), NOTE_NOTHING_MEASURED
        ),
    )


def _abstained(run: MeasuredRun, tested: Sequence[Case]) -> int | None:
    return None if run.calibration is None else sum(case.passes is False for case in tested)


def _abstention(run: MeasuredRun, tested: Sequence[Case]) -> Estimate:
    abstained = _abstained(run, tested)
    note = NOTE_NOT_CALIBRATED if abstained is None else NOTE_NOTHING_HELD_OUT
    return _estimate(Interval.wilson(abstained or 0, len(tested)), note)


def _estimate(interval: Interval, note_if_undefined: str) -> Estimate:
    note = note_if_undefined if interval.value is None else ""
    return Estimate(
        value=interval.value, low=interval.low, high=interval.high, n=interval.n, note=note
    )


def _policy(run: MeasuredRun) -> PolicySummary | None:
    if run.calibration is None:
        return None
    policy = run.calibration.policy
    guarantee = policy.guarantee
    return PolicySummary(
        threshold=policy.relevance_threshold if policy.may_follow else None,
        guarantee=None if guarantee is None else guarantee.model_dump(mode="json"),
        words=_words(policy),
        calibration_questions=len(run.calibration.calibration_questions),
        test_questions=len(run.calibration.reported_questions),
        memory_threshold=policy.confidence_threshold if policy.may_answer else None,
        measures_more=policy.needs_estimator,
    )


def _words(policy: Policy) -> str:
    if policy.guarantee is not None:
        return policy.guarantee.statement
    if policy.calibrated or policy.changed:
        return policy.note
    return "This policy was written by hand: nothing is guaranteed."
