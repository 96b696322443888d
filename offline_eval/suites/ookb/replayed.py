"""What a policy would have decided on the cases of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....guard.decision import Decision
from ....guard.errors import InputError
from ....guard.fingerprint import CascadeRule, default_aggregator
from ....guard.policy import Policy, default_calibrator
from ...run.measured_run import MeasuredRun
from ...run.questions import CaseKind, MeasuredRow
from .signals import decide_by_relevance

_Key = tuple[str, CaseKind]


def replayed_decisions(
    run: MeasuredRun, policy: Policy, judged: MeasuredRun | None = None
) -> Iterator[Decision]:
    """Yield what a policy would have decided on each measured case, by relevance alone.

    Of a run of a live log these are the questions as they came; of any other run, each question
    with and without its own passage. Cases with an error are left out.

    Args:
        run: measured by the policy's scorer, or by the cheap one of its cascade.
        policy: decides.
        judged: for the policy of a cascade, a run of its costly scorer on the same passages.

    Raises:
        FingerprintMismatchError: a run was measured by another scorer than the policy's.
        InputError: there is a run of a costly scorer and no cascade, or the other way round; or
            both runs did not measure the same passages.
    """
    rule, verdicts = _cascade(run, policy, judged)
    for row in _decided(run):
        raw, stage = row.raw_relevance if row.retrieved else None, None
        if raw is not None and rule is not None:
            verdict = verdicts.get((row.question_id, row.kind))
            raw, stage = rule.value(raw, verdict), rule.stage(raw, verdict)
        yield decide_by_relevance(policy, raw, stage)


def _decided(run: MeasuredRun) -> list[MeasuredRow]:
    return [row for row in run.rows if row.error is None and row.kind is not CaseKind.ECHO]


def _cascade(
    run: MeasuredRun, policy: Policy, judged: MeasuredRun | None
) -> tuple[CascadeRule | None, Mapping[_Key, float]]:
    """The rule of a policy's two scorers and the verdicts of the costly one; None for one."""
    if bool(policy.scorer.stages) is (judged is None):
        raise InputError(
            "is for the policy of a cascade of two scorers, which needs it",
            where="--judge-run",
            hint="name a run of its costly scorer on the same questions, or leave it out",
        )
    if judged is None:
        policy.require_scorer(run.manifest.settings.scorer)
        return None, {}
    pairs = zip(("--run", "--judge-run"), (run, judged), policy.scorer.stages, strict=True)
    for option, one, scorer in pairs:
        settings = one.manifest.settings
        policy.model_copy(update={"scorer": scorer}).require_scorer(settings.scorer)
        if settings.aggregator != default_aggregator(scorer.kind):
            raise InputError(
                f"is aggregated by {settings.aggregator!r}, as no scorer of a cascade is",
                where=option,
                hint="measure without --aggregator",
            )
    numbers: dict[str, Any] = dict(policy.scorer.settings)
    if "calibrator" in numbers:
        raise InputError(
            "the policy's cascade has a calibrator of verdicts of its own",
            where="--policy",
            hint="log its decisions, and name them with --input",
        )
    return CascadeRule(**numbers), _verdicts(run, judged)


def _verdicts(run: MeasuredRun, judged: MeasuredRun) -> dict[_Key, float]:
    """The costly scorer's verdict on each case of the run; none where it failed.

    Raises:
        InputError: it did not measure a case, or on other passages.
    """
    level = default_calibrator(judged.manifest.settings.scorer)
    rows = {(row.question_id, row.kind): row for row in judged.rows}
    found = {}
    for row in _decided(run):
        key = row.question_id, row.kind
        if key not in rows or (rows[key].error is None and rows[key].retrieved != row.retrieved):
            raise InputError(
                f"question {row.question_id!r} was not measured on the same passages as in --run",
                where="--judge-run",
                hint="measure both with the same options, apart from --scorer and --out",
            )
        raw = rows[key].raw_relevance
        if rows[key].error is None and raw is not None:
            found[key] = level.apply(raw)
    return found
