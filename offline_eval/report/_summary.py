"""The numbers of an out-of-knowledge-base run, each with its interval."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..._version import __version__
from ...calibration import Interval, bootstrap_auroc, wilson_interval
from ...guard import Policy
from ..ookb import CaseKind, InputFile, OokbRun, read_ookb_run
from ._cases import Case, measured_cases
from ._numbers import REPORT_SCHEMA_VERSION

# Of the bootstrap; fixed, so that the same run gives the same report.
_SEED = 0

NOTE_NOT_CALIBRATED = "'knowgate calibrate' on this run gives it"
NOTE_NOTHING_HELD_OUT = "no held-out test question could be measured"
NOTE_NOTHING_MEASURED = "no case of this kind could be measured"


class _Summary(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Summary):
    """An estimate with its 95 % interval.

    Attributes:
        value: None where nothing was observed, never 0.0.
        low: lower end, None likewise.
        high: upper end, None likewise.
        n: questions it rests on.
        note: why something is undefined or how to get it, otherwise empty.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The four numbers, and the note where there is one."""
        return self.model_dump(exclude=set() if self.note else {"note"})


class LeftOutSummary(_Summary):
    """Cases whose own passage had been taken out of the knowledge base.

    Attributes:
        cases: in the run.
        errors: among them, not measured.
        tested: held-out and measured.
        abstained: declined among the tested, None without a policy.
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
        tested: held-out and measured, own passage retrieved.
        abstained: declined among the tested, None without a policy.
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


class PolicySummary(_Summary):
    """The policy that the rates speak of.

    Attributes:
        threshold: relevance from which a context passes; None: nothing passes.
        guarantee: what was certified, None for a policy written by hand.
        words: the promise in words.
        calibration_questions: seen by the policy.
        test_questions: held out.
        memory_threshold: confidence from which it answers from memory, declared and not
            certified; None: never.
        measures_more: the policy also asks for confidence or conflict, which this
            suite does not measure.
    """

    threshold: float | None
    guarantee: dict[str, Any] | None
    words: str
    calibration_questions: int
    test_questions: int
    memory_threshold: float | None
    measures_more: bool


class OokbSummary(_Summary):
    """What `report.json` holds.

    Attributes:
        questions: in the run.
        passages: different ones that hold their answers; where questions share them, the
            intervals, which take questions for independent, are too narrow.
        cases: stored in the run.
        cases_planned: as the manifest has it; more than `cases` in a run cut short.
        errors: cases that could not be measured.
        errors_by_type: the same by type, most frequent first.
        auroc: in-KB against left-out, retrieval misses included; all questions.
        auroc_found_only: without retrieval misses.
        settings: of the run, as stored.
    """

    schema_version: int = REPORT_SCHEMA_VERSION
    suite: str = "ookb"
    created_by: str
    run_created_by: str
    questions: int
    passages: int
    cases: int
    cases_planned: int
    errors: int
    errors_by_type: dict[str, int]
    auroc: Estimate
    auroc_found_only: Estimate
    left_out: LeftOutSummary
    in_kb: InKbSummary
    policy: PolicySummary | None
    settings: dict[str, Any]
    inputs: tuple[InputFile, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        value = self.model_dump(mode="json")
        for name in ("auroc", "auroc_found_only"):
            value[name] = getattr(self, name).to_dict()
        value["left_out"]["abstention_rate"] = self.left_out.abstention_rate.to_dict()
        for name in ("false_abstention_rate", "retrieval_miss_rate"):
            value["in_kb"][name] = getattr(self.in_kb, name).to_dict()
        return value


def summarise_ookb(run_dir: str | os.PathLike[str]) -> OokbSummary:
    """The summary of an out-of-knowledge-base run folder.

    Raises:
        InputError: a file is missing, broken, empty or written by a newer knowgate.
    """
    run = read_ookb_run(run_dir, unfinished=True)
    return summarise(run, measured_cases(run))


def summarise(run: OokbRun, cases: Sequence[Case]) -> OokbSummary:
    """The summary of a run that was read before; `cases` as `measured_cases` gives them."""
    failed = [row for row in run.rows if row.error is not None]
    types = Counter(row.error.type for row in failed if row.error is not None)
    return OokbSummary(
        created_by=f"knowgate {__version__}",
        run_created_by=run.manifest.created_by,
        questions=len({row.question_id for row in run.rows}),
        passages=len({run.questions[row.question_id].own_passage for row in run.rows}),
        cases=len(run.rows),
        cases_planned=run.manifest.cases,
        errors=len(failed),
        errors_by_type=dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        auroc=_auroc(cases, [case for case in cases if not case.left_out]),
        auroc_found_only=_auroc(cases, [case for case in cases if case.found]),
        left_out=_left_out(run, cases),
        in_kb=_in_kb(run, cases),
        policy=_policy(run),
        settings=dict(run.settings),
        inputs=run.manifest.inputs,
    )


def _auroc(cases: Iterable[Case], positives: Iterable[Case]) -> Estimate:
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for case in positives:
        scores.setdefault(case.row.question_id, ([], []))[0].append(case.score)
    for case in cases:
        if case.left_out:
            scores.setdefault(case.row.question_id, ([], []))[1].append(case.score)
    return _estimate(bootstrap_auroc(list(scores.values()), seed=_SEED), NOTE_NOTHING_MEASURED)


def _left_out(run: OokbRun, cases: Sequence[Case]) -> LeftOutSummary:
    rows = [row for row in run.rows if row.kind is CaseKind.LEFT_OUT]
    tested = [case for case in cases if case.left_out and case.held_out]
    return LeftOutSummary(
        cases=len(rows),
        errors=sum(row.error is not None for row in rows),
        tested=len(tested),
        abstained=_abstained(run, tested),
        abstention_rate=_abstention(run, tested),
    )


def _in_kb(run: OokbRun, cases: Sequence[Case]) -> InKbSummary:
    rows = [row for row in run.rows if row.kind is CaseKind.IN_KB]
    measured = [case for case in cases if not case.left_out]
    misses = sum(case.missed for case in measured)
    tested = [case for case in measured if case.found and case.held_out]
    return InKbSummary(
        cases=len(rows),
        errors=sum(row.error is not None for row in rows),
        retrieval_misses=misses,
        tested=len(tested),
        abstained=_abstained(run, tested),
        false_abstention_rate=_abstention(run, tested),
        retrieval_miss_rate=_estimate(
            wilson_interval(misses, len(measured)), NOTE_NOTHING_MEASURED
        ),
    )


def _abstained(run: OokbRun, tested: Sequence[Case]) -> int | None:
    return None if run.calibration is None else sum(case.passes is False for case in tested)


def _abstention(run: OokbRun, tested: Sequence[Case]) -> Estimate:
    abstained = _abstained(run, tested)
    note = NOTE_NOT_CALIBRATED if abstained is None else NOTE_NOTHING_HELD_OUT
    return _estimate(wilson_interval(abstained or 0, len(tested)), note)


def _estimate(interval: Interval, note_if_undefined: str) -> Estimate:
    note = note_if_undefined if interval.value is None else ""
    return Estimate(
        value=interval.value, low=interval.low, high=interval.high, n=interval.n, note=note
    )


def _policy(run: OokbRun) -> PolicySummary | None:
    if run.calibration is None:
        return None
    policy = run.calibration.policy
    guarantee = policy.guarantee
    return PolicySummary(
        threshold=policy.relevance_threshold if policy.may_follow else None,
        guarantee=None if guarantee is None else guarantee.model_dump(mode="json"),
        words=_words(policy),
        calibration_questions=len(run.calibration.calibration_questions),
        test_questions=len(run.calibration.test_questions),
        memory_threshold=policy.confidence_threshold if policy.may_answer else None,
        measures_more=policy.needs_estimator,
    )


def _words(policy: Policy) -> str:
    if policy.guarantee is not None:
        return policy.guarantee.statement
    return "This policy was written by hand: nothing is guaranteed."
