"""The numbers of a run of relevance signals, each with its interval.

run folder ─► MeasuredRun ─► ScoredCase per row ─► SignalsSummary ─► report.json
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ...._version import __version__
from ....calibration import Interval, SelectiveCurve
from ....guard.decision import Decision, Route
from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...data.diversity.uniqueness import words_of
from ...data.questions import QuestionRecord
from ...report.document import Document, as_json
from ...run.grouping import error_types, grouped
from ...run.measured_run import MeasuredRun, Review
from ...run.questions import CaseKind, MeasuredRow, RunCalibration

SERVED = "served"
# A shorter answer stands in a text by chance.
_SHORT_ANSWER = 4
# Seed of the bootstrap; fixed, so that the same run gives the same report.
_SEED = 0
_NOT_CALIBRATED = "'knowgate calibrate' on this run gives it"
_NOTHING_HELD_OUT = "no question that the rates are about could be measured"
_NOTHING_MEASURED = "no case of this kind could be measured"


class ScoredCase:
    """A case that was measured without an error, decided by the policy of its run.

    Args:
        run: that it is of.
        row: as stored.
        lowest: score where nothing was retrieved: below all others, so that ranking needs no
            special case.

    Attributes:
        question: what was asked.
        score: raw relevance.
        relevance: calibrated, in [0, 1]; None without a policy.
        passes: whether the context passes, by the policy or, for costs where nothing was held
            out, by the threshold that the other questions give; None without a policy.
        counted: whether the rates are about it; False without a policy.
        held_out: whether it is, and that threshold is known not to rest on the question.
        review: what a person said of it.
        elsewhere: review found it answered by another passage: it counts in no rate.
        in_kb: the knowledge base was whole.
        found: it was, and its own passage was retrieved.
        missed: it was, and its own passage was not retrieved.
        left_out: the own passage had been left out, and no review found another that answers.
        missing: nothing that was retrieved should answer it, so that it must not pass.
    """

    def __init__(self, run: MeasuredRun, row: MeasuredRow, lowest: float) -> None:
        name, raw = row.question_id, row.raw_relevance if row.retrieved else None
        self.row, self.question = row, run.questions[name]
        self.score = lowest if raw is None else raw
        self.relevance: float | None = None
        self.passes: bool | None = None
        self.counted = self.held_out = False
        said, calibration = run.reviews.get(row.case_id), run.calibration
        self.review = None if said is None else said.verdict
        self.elsewhere = self.review is Review.Verdict.ANSWERED
        self.in_kb = row.kind is CaseKind.IN_KB
        self.found = self.in_kb and not row.retrieval_miss
        self.missed = self.in_kb and row.retrieval_miss
        self.left_out = row.kind is CaseKind.LEFT_OUT and not self.elsewhere
        self.missing = self.left_out or row.kind is CaseKind.UNANSWERABLE
        if calibration is None:
            return
        decision = decide_by_relevance(calibration.policy, raw)
        self.relevance = decision.relevance
        self.passes = decision.route is Route.FOLLOW_CONTEXT
        if name in calibration.thresholds:
            threshold, raw = calibration.thresholds[name], row.raw_relevance
            self.passes = threshold is not None and raw is not None and raw >= threshold
        self.counted = name in calibration.reported_questions
        if row.kind is CaseKind.UNANSWERABLE:
            # The promise may be about left-out questions alone: then nothing rests on these.
            self.counted = self.counted or name not in calibration.calibration_questions
        self.held_out = self.counted and not calibration.given_policy


def scored_cases(
    run: MeasuredRun, kinds: Sequence[CaseKind] = CaseKind.twins()
) -> tuple[ScoredCase, ...]:
    """Collect the cases of these kinds without an error, in the order of the run."""
    rows = [row for row in run.rows if row.error is None and row.kind in kinds]
    scores = [row.raw_relevance for row in rows if row.raw_relevance is not None and row.retrieved]
    lowest = min(scores, default=0.0) - 1.0
    return tuple(ScoredCase(run, row, lowest) for row in rows)


def relevance_gate(policy: Policy) -> Policy:
    """Reduce the policy to what this suite measures: whether the context passes.

    Confidence and conflict are not measured here. If the policy needed them, it would
    abstain because a signal is missing, which says nothing about relevance.
    """
    return policy.model_copy(update={"check_conflict": False, "confidence_threshold": None})


def decide_by_relevance(policy: Policy, raw: float | None, stage: Any = None) -> Decision:
    """Decide as the policy does on a raw relevance alone; None: nothing was retrieved."""
    gate = relevance_gate(policy)
    relevance = 0.0 if raw is None else gate.relevance_calibrator.apply(raw)
    signals = Signals.replay(gate, relevance, None, nothing_retrieved=raw is None)
    found = decide_route(gate, signals)
    return Decision(
        route=found.route, reason=found.reason, relevance=relevance, relevance_stage=stage
    )


class KindSummary:
    """The cases of one kind.

    Args:
        run: that they are of.
        kind: of the cases.
        measured: those without an error, of any kind; of in-KB cases those whose own passage
            was retrieved.

    Attributes:
        cases: in the run.
        errors: among them, not measured.
        tested: measured, and not what the policy is known to be fitted on.
        abstained: among the tested; None without a policy.
        abstention_rate: `abstained` of `tested`.
    """

    def __init__(self, run: MeasuredRun, kind: CaseKind, measured: Iterable[ScoredCase]) -> None:
        rows = [row for row in run.rows if row.kind is kind]
        own = [case for case in measured if case.row.kind is kind and case.counted]
        self.cases, self.errors = len(rows), sum(row.error is not None for row in rows)
        self.tested = len(own)
        self.abstained = None if run.calibration is None else sum(not case.passes for case in own)
        self.abstention_rate = Interval.wilson(self.abstained or 0, len(own))

    @property
    def passed(self) -> int | None:
        """Among the tested, those that passed; None without a policy."""
        return None if self.abstained is None else self.tested - self.abstained

    @property
    def pass_rate(self) -> Interval:
        """`passed` of `tested`."""
        return Interval.wilson(self.passed or 0, self.tested)


class PolicySummary:
    """The policy that the rates are about.

    Args:
        calibration: of the run.

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

    def __init__(self, calibration: RunCalibration) -> None:
        policy = calibration.policy
        self.threshold = policy.relevance_threshold if policy.may_follow else None
        self.guarantee, self.words = policy.guarantee, policy.note
        if policy.guarantee is not None:
            self.words = policy.guarantee.statement
        elif not (policy.calibrated or policy.changed):
            self.words = "This policy was written by hand: nothing is guaranteed."
        self.calibration_questions = len(calibration.calibration_questions)
        self.test_questions = len(calibration.reported_questions)
        self.memory_threshold = policy.confidence_threshold if policy.may_answer else None
        self.measures_more = policy.needs_estimator


def served_counts(run: MeasuredRun) -> dict[str, Any]:
    """Count how a run asked a chain as it is served.

    Returns:
        sources_found_by: number of questions by how the documents that hold their answer were
            told from others. `unknown` ones were measured as they are: they tell drift, and
            nothing about leak and false abstention.
        short_contexts: left-out cases with fewer documents than are served, since the chain
            could not be asked for more; they are easier than real ones.
        answer_elsewhere: left-out cases in which a retrieved document still contains the whole
            answer, of at least four words, and that nobody reviewed: they count as leaks.
    """
    found_by = dict(Counter(one.found_by.value for one in run.sources.values()))
    if live := sum(row.kind is CaseKind.LIVE for row in run.rows):
        found_by["unknown"] = live
    kinds = grouped((row for row in run.rows if row.error is None), lambda row: row.kind)
    served = {row.question_id: len(row.retrieved) for row in kinds.get(CaseKind.IN_KB, ())}
    short = elsewhere = 0
    for row in kinds.get(CaseKind.LEFT_OUT, ()):
        short += len(row.retrieved) < served.get(row.question_id, 0)
        answer = words_of(run.questions[row.question_id].answer)
        if len(answer) >= _SHORT_ANSWER and row.case_id not in run.reviews:
            texts = (run.passages[name].text for name in row.retrieved if name in run.passages)
            padded = (f" {' '.join(words_of(text))} " for text in texts)
            elsewhere += any(f" {' '.join(answer)} " in text for text in padded)
    return {
        "sources_found_by": found_by,
        "short_contexts": short,
        "answer_elsewhere": elsewhere,
    }


class SignalsSummary:
    """All numbers of a run.

    Args:
        run: as read.

    Attributes:
        scored: its cases with the answer and without, measured.
        scored_unanswerable: its questions that the user knows to be unanswerable, measured.
        passages: number of different passages that hold their answers, or of sources, pages or
            topics where these were left out. Where questions share one, the intervals are too
            narrow: they take questions for independent.
        errors_by_type: cases that could not be measured by type, most frequent first.
        duplicates: questions that repeat an earlier one, case and white space aside.
        duplicates_apart: those that count as evidence of their own all the same, since they name
            other sources.
        auroc: in-KB against left-out, retrieval misses included; all questions.
        auroc_found_only: without retrieval misses.
        auroc_unanswerable: these against unanswerable questions, None without any.
        left_out: cases whose own passage had been left out; a higher rate is better.
        in_kb: cases with the whole knowledge base; a lower rate is better.
        echo: cases with the question as the first passage, None without any.
        unanswerable: as `left_out`, None without any.
        retrieval_misses: in-KB cases whose own passage was not retrieved; counted apart.
        retrieval_miss_rate: of all measured in-KB cases; the retriever's share.
        policy: that the rates are about; None before calibration.
        served: of a run through a chain as it is served, else None.
        shared_words: mean share of a question's content words that its own passage holds; None
            where the passages are not stored.
        made_by: of questions that programs made, how many by each.
        questions: number of them, without unanswerable ones.
        cases: number of cases that are stored.
        errors: number of cases that could not be measured.
        live: nothing is known of where the answers are.
        known_questions: number of questions of which it is known where their answers are.
        note_on_makers: what to know of questions that programs made; empty without any.
    """

    def __init__(self, run: MeasuredRun) -> None:
        self.run = run
        self.scored = cases = scored_cases(run)
        self.scored_unanswerable = own = scored_cases(run, (CaseKind.UNANSWERABLE,))
        answerable = {row.question_id for row in run.rows if row.kind in CaseKind.twins()}
        evidence = {run.questions[name].evidence for name in answerable - run.unmatched}
        self.passages = len(evidence)
        self.errors_by_type = error_types(run.rows)
        self.duplicates, self.duplicates_apart = count_duplicates(run)
        in_kb = [case for case in cases if case.in_kb]
        found = [case for case in cases if case.found]
        left_out = [case for case in cases if case.left_out]
        self.auroc, self.auroc_found_only = _auroc(in_kb, cases), _auroc(found, cases)
        self.auroc_unanswerable = _auroc(found, own) if run.unanswerable else None
        self.left_out = KindSummary(run, CaseKind.LEFT_OUT, left_out)
        self.in_kb = KindSummary(run, CaseKind.IN_KB, found)
        self.echo: KindSummary | None = None
        self.unanswerable: KindSummary | None = None
        if any(row.kind is CaseKind.ECHO for row in run.rows):
            self.echo = KindSummary(run, CaseKind.ECHO, scored_cases(run, (CaseKind.ECHO,)))
        if run.unanswerable:
            self.unanswerable = KindSummary(run, CaseKind.UNANSWERABLE, own)
        self.retrieval_misses = len(in_kb) - len(found)
        self.retrieval_miss_rate = Interval.wilson(self.retrieval_misses, len(in_kb))
        self.policy = None if run.calibration is None else PolicySummary(run.calibration)
        is_served = run.manifest.settings.retrieval == SERVED
        self.served = served_counts(run) if is_served else None
        self.shared_words = QuestionRecord.mean_shared_words(
            (one.question, one.passage) for one in run.questions.values() if one.passage
        )
        self.made_by = Counter(one.made_by for one in run.questions.values() if one.made_by)
        alone = {row.question_id for row in run.rows if row.kind is CaseKind.UNANSWERABLE}
        self.questions = len({row.question_id for row in run.rows} - alone)
        self.cases, self.errors = len(run.rows), sum(self.errors_by_type.values())
        found_by: dict[str, int] = self.served["sources_found_by"] if self.served else {}
        self.live = set(found_by) == {"unknown"}
        self.known_questions = self.questions - found_by.get("unknown", 0) - len(run.unmatched)
        self.note_on_makers = QuestionRecord.note_on_makers(dict(self.made_by), self.questions)

    @classmethod
    def read(cls, run_dir: str | os.PathLike[str]) -> SignalsSummary:
        """Summarise a run folder, finished or not.

        Raises:
            InputError: a file is missing, broken, empty or written by a newer knowgate.
        """
        return cls(MeasuredRun.read(run_dir, unfinished=True))

    @property
    def reviews(self) -> dict[str, int]:
        """How many left-out cases were reviewed, and with which verdict; empty without any."""
        said = Counter(review.verdict for review in self.run.reviews.values())
        verdicts = {verdict.value: said[verdict] for verdict in Review.Verdict}
        return {"reviewed": said.total(), **verdicts} if said else {}

    def note(self, rate: Interval, *, by_policy: bool = True) -> str:
        """Say why a rate is undefined; empty where it is not.

        Args:
            rate: of this summary.
            by_policy: it is about what the policy does.
        """
        if rate.value is not None:
            return ""
        if not by_policy:
            return _NOTHING_MEASURED
        return _NOT_CALIBRATED if self.policy is None else _NOTHING_HELD_OUT

    def _rate(self, rate: Interval, *, by_policy: bool = True) -> dict[str, Any]:
        note = self.note(rate, by_policy=by_policy)
        return {**rate.to_dict(), **({"note": note} if note else {})}

    def _kind(self, kind: KindSummary) -> dict[str, Any]:
        return {**vars(kind), "abstention_rate": self._rate(kind.abstention_rate)}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        measured = partial(self._rate, by_policy=False)
        in_kb = self._kind(self.in_kb)
        in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
        in_kb["retrieval_misses"] = self.retrieval_misses
        in_kb["retrieval_miss_rate"] = measured(self.retrieval_miss_rate)
        run, manifest = self.run, self.run.manifest
        value = {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": "ookb",
            "created_by": f"knowgate {__version__}",
            "run_created_by": manifest.created_by,
            "questions": self.questions,
            "passages": self.passages,
            "cases": self.cases,
            "cases_planned": manifest.cases,
            "errors": self.errors,
            "errors_by_type": self.errors_by_type,
            "leave_out": manifest.settings.leave_out,
            "unmatched": len(run.unmatched),
            "duplicates": self.duplicates,
            "duplicates_apart": self.duplicates_apart,
            "auroc": measured(self.auroc),
            "auroc_found_only": measured(self.auroc_found_only),
            "left_out": self._kind(self.left_out),
            "in_kb": in_kb,
            "policy": None if self.policy is None else vars(self.policy),
            "settings": dict(run.settings),
            "inputs": manifest.inputs,
        }
        # What only some runs have.
        further: dict[str, Any] = {
            "served": self.served,
            "shared_words": self.shared_words,
            "made_by": dict(self.made_by) or None,
            "reviews": self.reviews or None,
        }
        if self.echo is not None:
            rate = self._rate(self.echo.pass_rate)
            further["echo"] = {**vars(self.echo), "passed": self.echo.passed, "pass_rate": rate}
            del further["echo"]["abstained"], further["echo"]["abstention_rate"]
        if self.unanswerable is not None and self.auroc_unanswerable is not None:
            further["unanswerable"] = self._kind(self.unanswerable)
            further["auroc_unanswerable"] = measured(self.auroc_unanswerable)
        if (refusal := run.refusal) is not None:
            further["refusal"] = {"problems": refusal.problems, "advice": refusal.advice}
        kept = {name: found for name, found in further.items() if found is not None}
        found: dict[str, Any] = as_json(value | kept)
        return found


def count_duplicates(run: MeasuredRun) -> tuple[int, int]:
    """Count questions in the same words as an earlier one, and those of other evidence."""
    asked = dict.fromkeys(row.question_id for row in run.rows)
    same = grouped(
        (run.questions[name] for name in asked),
        lambda one: " ".join(one.question.split()).casefold(),
    )
    repeated = sum(len(several) - 1 for several in same.values())
    return repeated, sum(len({one.evidence for one in several}) - 1 for several in same.values())


def _auroc(positives: Iterable[ScoredCase], cases: Iterable[ScoredCase]) -> Interval:
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for case in positives:
        scores.setdefault(case.row.question_id, ([], []))[0].append(case.score)
    for case in cases:
        if case.missing:
            scores.setdefault(case.row.question_id, ([], []))[1].append(case.score)
    return SelectiveCurve.bootstrap_auroc(list(scores.values()), seed=_SEED)
