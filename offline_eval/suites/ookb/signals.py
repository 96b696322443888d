"""Measured relevance signals: each case decided by a policy, and the numbers of a run.

run folder ─► MeasuredRun ─► ScoredCase per row ─► SignalsSummary ─► report.json
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ....calibration import Interval, SelectiveCurve
from ....guard.decision import Decision, Route
from ....guard.errors import InputError
from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...data.diversity.uniqueness import words_of
from ...data.questions import mean_shared_words
from ...report.document import as_json
from ...run.grouping import error_types, grouped
from ...run.measured_run import MeasuredRun, Review
from ...run.questions import CaseKind, FoundBy, MeasuredRow, RunCalibration
from ...systems.leaving_out import FEWEST_WORDS, stands_in
from ..parts import run_values

SERVED = "served"
_REVIEWED = ("reviewed", *Review.Verdict)
# Seed of the bootstrap; fixed, so that the same run gives the same report.
_SEED = 0


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
        decision: of the policy; None without one.
        relevance: calibrated, in [0, 1]; None without a policy.
        passes: whether the context passes, by the policy or, for costs where nothing was held
            out, by the threshold that the other questions give; None without a policy.
        counted: whether the rates are about it; False without a policy.
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
        self.passes: bool | None = None
        self.counted = False
        said, fitted = run.reviews.get(row.case_id), run.calibration
        self.review = None if said is None else said.verdict
        self.elsewhere = self.review is Review.Verdict.ANSWERED
        self.in_kb = row.kind is CaseKind.IN_KB
        self.found = self.in_kb and not row.retrieval_miss
        self.missed = self.in_kb and row.retrieval_miss
        self.left_out = row.kind is CaseKind.LEFT_OUT and not self.elsewhere
        self.missing = self.left_out or row.kind is CaseKind.UNANSWERABLE
        self.decision = None if fitted is None else decide_by_relevance(fitted.policy, raw)
        self.relevance = None if self.decision is None else self.decision.relevance
        if fitted is None or self.decision is None:
            return
        self.passes = self.decision.route is Route.FOLLOW_CONTEXT
        if name in fitted.thresholds:
            threshold, raw = fitted.thresholds[name], row.raw_relevance
            self.passes = threshold is not None and raw is not None and raw >= threshold
        # The promise may be about left-out questions alone: then nothing rests on the others.
        free = row.kind is CaseKind.UNANSWERABLE and name not in fitted.calibration_questions
        self.counted = free or name in fitted.reported_questions


def scored_cases(run: MeasuredRun) -> tuple[ScoredCase, ...]:
    """Collect the cases without an error, in the order of the run."""
    rows = [row for row in run.rows if row.error is None]
    scores = [row.raw_relevance for row in rows if row.raw_relevance is not None and row.retrieved]
    lowest = min(scores, default=0.0) - 1.0
    return tuple(ScoredCase(run, row, lowest) for row in rows)


def relevance_gate(policy: Policy) -> Policy:
    """Reduce the policy to what this suite measures: whether the context passes.

    Confidence and conflict are not measured here. If the policy needed them, it would
    abstain because a signal is missing, which says nothing about relevance.
    """
    return policy.model_copy(update={"check_conflict": False, "confidence_threshold": None})


def decide_by_relevance(policy: Policy, raw: float | None) -> Decision:
    """Decide as the policy does on a raw relevance alone; None: nothing was retrieved."""
    gate = relevance_gate(policy)
    relevance = 0.0 if raw is None else gate.relevance_calibrator.apply(raw)
    signals = Signals.replay(gate, relevance, None, nothing_retrieved=raw is None)
    found = decide_route(gate, signals)
    return Decision(route=found.route, reason=found.reason, relevance=relevance)


def replayed_decisions(run: MeasuredRun, policy: Policy) -> Iterator[Decision]:
    """Yield what a policy would have decided on each measured case, by relevance alone.

    Of a run of a live log these are the questions as they came; of any other run, each question
    with and without its own passage. Cases with an error are left out.

    Raises:
        FingerprintMismatchError: the run was measured by another scorer than the policy's.
        InputError: the policy is that of a cascade of two scorers.
    """
    if policy.scorer.stages:
        raise InputError(
            "a run of one scorer does not say what a cascade of two would have decided",
            where="--run",
            hint="log its decisions, and name them with --input",
        )
    policy.require_scorer(run.manifest.settings.scorer)
    for row in run.rows:
        if row.error is None and row.kind is not CaseKind.ECHO:
            yield decide_by_relevance(policy, row.raw_relevance if row.retrieved else None)


# Of a kind of cases: what is counted, and the name of its share.
_COUNTED = {
    CaseKind.LEFT_OUT: ("abstained", "abstention_rate"),
    CaseKind.IN_KB: ("abstained", "false_abstention_rate"),
    CaseKind.UNANSWERABLE: ("abstained", "abstention_rate"),
    CaseKind.ECHO: ("passed", "pass_rate"),
}


def kind_counts(run: MeasuredRun, kind: CaseKind, measured: Iterable[ScoredCase]) -> dict[str, Any]:
    """Count the cases of one kind.

    Args:
        run: that they are of.
        kind: of the cases.
        measured: those without an error, of any kind; of in-KB cases count those whose own passage
            was retrieved, of left-out ones those that no other passage answers.

    Returns:
        Cases in the run; errors among them; those tested: measured, and not what the policy is
        known to be fitted on; those `abstained` from, or of echoes those `passed`, None without a
        policy; and their share.
    """
    rows = [row for row in run.rows if row.kind is kind]
    of_kind = [case for case in measured if case.row.kind is kind and case.counted]
    own = [case for case in of_kind if not (case.missed or case.elsewhere)]
    count, share = _COUNTED[kind]
    hits = sum(bool(case.passes) is (kind is CaseKind.ECHO) for case in own)
    return {
        "cases": len(rows),
        "errors": sum(row.error is not None for row in rows),
        "tested": len(own),
        count: None if run.calibration is None else hits,
        share: Interval.wilson(hits, len(own)),
    }


def policy_values(calibration: RunCalibration) -> dict[str, Any]:
    """Return what the rates are about.

    Returns:
        `threshold`: relevance from which a context passes; None: nothing passes. `guarantee`: what
        was certified, None for a policy written by hand; `words`: the same as a text. The numbers
        of questions that the policy was fitted on and that the rates are about (held out, or
        judged by a threshold that the others give). `memory_threshold`: confidence from which it
        answers from memory, declared and not certified; None: never. `measures_more`: it also
        needs confidence or conflict, which this suite does not measure.
    """
    policy, words = calibration.policy, calibration.policy.note
    if policy.guarantee is not None:
        words = policy.guarantee.statement
    elif not (policy.calibrated or policy.changed):
        words = "This policy was written by hand: nothing is guaranteed."
    return {
        "threshold": policy.relevance_threshold if policy.may_follow else None,
        "guarantee": policy.guarantee,
        "words": words,
        "calibration_questions": len(calibration.calibration_questions),
        "test_questions": len(calibration.reported_questions),
        "memory_threshold": policy.confidence_threshold if policy.may_answer else None,
        "measures_more": policy.needs_estimator,
    }


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
        found_by[FoundBy.UNKNOWN.value] = live
    kinds = grouped((row for row in run.rows if row.error is None), lambda row: row.kind)
    served = {row.question_id: len(row.retrieved) for row in kinds.get(CaseKind.IN_KB, ())}
    short = elsewhere = 0
    for row in kinds.get(CaseKind.LEFT_OUT, ()):
        short += len(row.retrieved) < served.get(row.question_id, 0)
        answer = words_of(run.questions[row.question_id].answer)
        if len(answer) >= FEWEST_WORDS and row.case_id not in run.reviews:
            texts = (run.passages[name].text for name in row.retrieved if name in run.passages)
            elsewhere += any(stands_in(words_of(text), answer) for text in texts)
    return {"sources_found_by": found_by, "short_contexts": short, "answer_elsewhere": elsewhere}


class SignalsSummary:
    """All numbers of a run.

    Args:
        run: as read.

    Attributes:
        scored: its cases with the answer and without, measured.
        scored_unanswerable: its questions that the user knows to be unanswerable, measured.
        live: nothing is known of where the answers are.
        known_questions: number of questions of which it is known where their answers are.
        values: as `report.json` has them, with intervals in the place of their JSON, and None for
            what a run has not. Among them: `passages`, the number of different passages that hold
            the answers, or of sources, pages or topics where these were left out (where questions
            share one, the intervals are too narrow: they take questions for independent);
            `duplicates`, questions that repeat an earlier one, case and white space aside, and
            `duplicates_apart`, those of them that count as evidence of their own all the same,
            since they name other sources; `auroc`, in-KB against left-out cases, retrieval misses
            included, and `auroc_found_only` without these; `shared_words`, the mean share of a
            question's content words that its own passage holds.
    """

    def __init__(self, run: MeasuredRun) -> None:
        self.run, every = run, scored_cases(run)
        self.scored = [case for case in every if case.row.kind in CaseKind.twins()]
        kinds = grouped(every, lambda case: case.row.kind)
        self.scored_unanswerable = kinds.get(CaseKind.UNANSWERABLE, [])
        in_kb, found = kinds.get(CaseKind.IN_KB, []), [case for case in every if case.found]
        asked = {
            kind: {row.question_id for row in run.rows if row.kind is kind} for kind in CaseKind
        }
        answerable = asked[CaseKind.IN_KB] | asked[CaseKind.LEFT_OUT]
        evidence = {run.questions[name].evidence for name in answerable - run.unmatched}
        questions = len(set().union(*asked.values()) - asked[CaseKind.UNANSWERABLE])
        errors, duplicates = error_types(run.rows), count_duplicates(run)
        served = served_counts(run) if run.manifest.settings.retrieval == SERVED else None
        unknown = served["sources_found_by"] if served else {}
        self.live = set(unknown) == {"unknown"}
        self.known_questions = questions - unknown.get("unknown", 0) - len(run.unmatched)
        counts = {kind: kind_counts(run, kind, every) for kind in _COUNTED}
        misses, known = len(in_kb) - len(found), run.questions.values()
        of_nothing = _auroc(found, self.scored_unanswerable)
        reviews = {name: n for name, n in run.review_counts().items() if name in _REVIEWED}
        self.values: dict[str, Any] = {
            "questions": questions,
            "passages": len(evidence),
            "cases": len(run.rows),
            "errors": sum(errors.values()),
            "errors_by_type": errors,
            "duplicates": duplicates[0],
            "duplicates_apart": duplicates[1],
            "policy": None if run.calibration is None else policy_values(run.calibration),
            "cases_planned": run.manifest.cases,
            "leave_out": run.manifest.settings.leave_out,
            "unmatched": len(run.unmatched),
            "left_out": counts[CaseKind.LEFT_OUT],
            "in_kb": {
                **counts[CaseKind.IN_KB],
                "retrieval_misses": misses,
                "retrieval_miss_rate": Interval.wilson(misses, len(in_kb)),
            },
            "echo": counts[CaseKind.ECHO] if asked[CaseKind.ECHO] else None,
            "unanswerable": counts[CaseKind.UNANSWERABLE] if run.unanswerable else None,
            "auroc": _auroc(in_kb, self.scored),
            "auroc_found_only": _auroc(found, self.scored),
            "auroc_unanswerable": of_nothing if run.unanswerable else None,
            "served": served,
            "shared_words": mean_shared_words(
                (one.question, one.passage) for one in known if one.passage
            ),
            "made_by": dict(Counter(one.made_by for one in known if one.made_by)) or None,
            "reviews": reviews if reviews["reviewed"] else None,
            "refusal": run.refusal,
        }

    @classmethod
    def read(cls, run_dir: str | os.PathLike[str]) -> SignalsSummary:
        """Summarise a run folder, finished or not.

        Raises:
            InputError: a file is missing, broken, empty or written by a newer knowgate.
        """
        return cls(MeasuredRun.read(run_dir, unfinished=True))

    def note(self, name: str, rate: Interval) -> str:
        """Say why a rate is undefined; empty where it is not.

        Args:
            name: its key in `values`.
            rate: of this summary.
        """
        if rate.value is not None:
            return ""
        if not name.endswith(("abstention_rate", "pass_rate")):
            return "no case of this kind could be measured"
        if self.run.calibration is None:
            return "'knowgate calibrate' on this run gives it"
        return "no question that the rates are about could be measured"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        values = {
            name: self._json(name, value)
            for name, value in self.values.items()
            if value is not None or name == "policy"
        }
        return {**run_values(self.run.manifest, values), "settings": dict(self.run.settings)}

    def _json(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._json(key, item) for key, item in value.items()}
        if not isinstance(value, Interval):
            return as_json(value)
        note = self.note(name, value)
        return {**value.to_dict(), **({"note": note} if note else {})}


def count_duplicates(run: MeasuredRun) -> tuple[int, int]:
    """Count questions in the same words as an earlier one, and those of other evidence."""
    names = dict.fromkeys(row.question_id for row in run.rows)
    asked = (run.questions[name] for name in names)
    same = grouped(asked, lambda one: " ".join(one.question.split()).casefold()).values()
    repeated = sum(len(several) - 1 for several in same)
    return repeated, sum(len({one.evidence for one in several}) - 1 for several in same)


def _auroc(positives: Iterable[ScoredCase], cases: Iterable[ScoredCase]) -> Interval:
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for case in positives:
        scores.setdefault(case.row.question_id, ([], []))[0].append(case.score)
    for case in cases:
        if case.missing:
            scores.setdefault(case.row.question_id, ([], []))[1].append(case.score)
    return SelectiveCurve.bootstrap_auroc(list(scores.values()), seed=_SEED)
