"""What a reader must know before trusting the numbers."""

from __future__ import annotations

from ...report import counted
from ...run import (
    CaseKind,
    Judgement,
)
from ._replies_costs import judge_warnings
from ._replies_evidence import error_types
from ._replies_summary import RepliesSummary

_FEW = 30


def warnings(summary: RepliesSummary) -> list[str]:
    """List what a reader must know before trusting the numbers; often nothing."""
    lines = (
        _unfinished(summary),
        _errors(summary),
        _seen(summary),
        _estimated(summary),
        _unjudged(summary, Judgement.ABSTENTION),
        _unjudged(summary, Judgement.FACTUALITY),
        *_stood_in(summary),
        *_biased(summary),
        _answered_elsewhere(summary),
        _shared_passages(summary),
        _few(summary),
        _left_out_pairs(summary),
    )
    return [line for line in lines if line]


def _unfinished(summary: RepliesSummary) -> str:
    if not summary.missing:
        return ""
    planned = summary.evidence.run.manifest.replies
    return (
        f"The run is incomplete: {planned - summary.missing} of {planned} replies are there. "
        "Run the same command again to continue it."
    )


def _errors(summary: RepliesSummary) -> str:
    failed = summary.evidence.failed
    if not failed:
        return ""
    kinds = ", ".join(f"{name}: {count}" for name, count in error_types(failed).items())
    total = len(failed) + len(summary.evidence.replies)
    return (
        f"{counted(len(failed), 'reply', 'replies')} of {total} ended in an error and count in no "
        f"rate ({kinds}). If hard questions fail more often, the rates look better than they are."
    )


def _seen(summary: RepliesSummary) -> str:
    cases = summary.evidence.run.cases.values()
    seen = {case.question_id for case in cases if case.held_out is False}
    if not seen:
        return ""
    asked = {case.question_id for case in cases}
    if len(seen) == len(asked):
        return (
            "The guard’s policy was calibrated on every question asked here: the rates of guarded "
            "systems flatter them, and nothing is compared with them."
        )
    return (
        f"The guard’s policy was calibrated on {len(seen)} of the "
        f"{counted(len(asked), 'question')}. They are left out wherever a guarded system is "
        "compared; the rates of guarded systems over all questions flatter them, those over "
        "unseen questions do not."
    )


def _estimated(summary: RepliesSummary) -> str:
    evidence = summary.evidence
    estimated = [
        criterion
        for criterion in (Judgement.ABSTENTION, Judgement.FACTUALITY)
        if any(
            verdict.estimate
            for of_reply in evidence.verdicts.values()
            for judge, verdict in of_reply.get(criterion, {}).items()
            if judge == evidence.primary(criterion)
        )
    ]
    if not estimated:
        return ""
    return (
        f"The {' and '.join(estimated)} shown here is an offline estimate and not a judgement: "
        "fit for comparing versions of one system, not for quoting. 'knowgate judge' with a "
        "language model as judge gives one."
    )


def _unjudged(summary: RepliesSummary, criterion: str) -> str:
    shape = summary.shape
    name = f"unjudged_{criterion}"
    count = getattr(shape.out_of_kb, name) + getattr(shape.in_kb, name)
    if not count or summary.evidence.primary(criterion) is None:
        if count and criterion == Judgement.FACTUALITY:
            return (
                "Nobody judged whether what was answered is right: 'knowgate judge' on this run "
                "does."
            )
        return ""
    replies = counted(count, "reply has", "replies have")
    line = f"{replies} no verdict on {criterion} and count in no rate of it."
    if criterion == Judgement.FACTUALITY and shape.out_of_kb.unjudged_factuality:
        line += (
            " Every abstention counts among all, so the share of wrong answers among "
            "all is likely too low."
        )
    return line


def _stood_in(summary: RepliesSummary) -> list[str]:
    evidence = summary.evidence
    lines = []
    for criterion in (Judgement.ABSTENTION, Judgement.FACTUALITY):
        others: dict[str, int] = {}
        for reply in evidence.replies:
            verdict = evidence.verdict(reply.row.reply_id, criterion)
            if verdict is not None and verdict.judge != evidence.primary(criterion):
                others[verdict.judge] = others.get(verdict.judge, 0) + 1
        for judge, count in sorted(others.items()):
            lines.append(
                f"The first judge of {criterion}, {evidence.primary(criterion)}, left "
                f"{counted(count, 'reply', 'replies')} out: there the verdict of {judge} counts."
            )
    return lines


def _biased(summary: RepliesSummary) -> list[str]:
    said = judge_warnings(summary.evidence.run)
    return [line for judge in sorted(said) for line in said[judge]]


def _answered_elsewhere(summary: RepliesSummary) -> str:
    found = summary.left_out_check
    if not found:
        return ""
    asked = {row.question_id for row in found}
    return (
        f"For {counted(len(asked), 'question')} the rest of the knowledge base may hold the "
        "answer all the same (see below): there an answer is no fault, and abstaining no merit."
    )


def _shared_passages(summary: RepliesSummary) -> str:
    run = summary.evidence.run
    asked = {case.question_id for case in run.cases.values() if case.kind is not CaseKind.SYNTHETIC}
    passages = {run.questions[name].own_passage for name in asked}
    if len(passages) >= len(asked):
        return ""
    return (
        f"{counted(len(asked), 'question')} have their answers in "
        f"{counted(len(passages), 'passage', 'passages')}. Questions on one passage tend to go "
        "alike, and the intervals take each for independent: read them as too narrow."
    )


def _few(summary: RepliesSummary) -> str:
    asked = summary.shape.out_of_kb.questions
    if not 0 < asked < _FEW:
        return ""
    return (
        f"Only {counted(asked, 'question')} outside the knowledge base: the intervals are "
        "accordingly wide."
    )


def _left_out_pairs(summary: RepliesSummary) -> str:
    if not summary.differences_left_out:
        return ""
    return (
        f"{summary.differences_left_out} more pairs of systems were not compared: the more "
        f"tests, the less each can show. The order of the run decided, not the outcome."
    )
