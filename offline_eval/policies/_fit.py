"""From calibration records to a policy with a guarantee.

    learn ─► calibrators, path of thresholds ─┐
    certify ──────────────────────────────────┴─► certificate ─► policy
    certify ─► rates that are reported

Nothing is set aside for the report: what the test sees of a policy is hardly better than what new
questions do, since the test and not the rates chose it. Thresholds that were chosen by their rates
are judged fold by fold. A leak needs no path that is learned, so that all its questions certify.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..._version import CREATED_BY
from ...calibration import CalibrationRecord, CalibratorChoice
from ...calibration.records import Records
from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, fit_policy
from ...calibration.risk.costs import LeakFold
from ...calibration.risk.fit import ALL_ROUTES, PolicyBinding, Problem
from ...calibration.risk.learned_path import forecast_path, from_surest
from ...calibration.risk.risks import LEARN_CALIBRATORS, Risk, learning_share
from ...guard.artefacts import Guarantee
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Policy
from ._advice import advice_for, cautions, limits
from ._attempts import Asked, next_attempt
from ._attempts import counted as as_counted
from ._calibrated import Calibrated
from ._rates import (
    SIGNALS,
    Rates,
    calibrated_signals,
    leak_rates_by,
    leak_rates_of,
    outcomes_under,
    passes,
    path_steps,
    signal_values,
)
from ._usable import require_usable
from .records import WORDS, CalibrationSet, require_both_kinds

# Fewer say too little of how far below the best a passage with the answer may lie.
_FEWEST_SETS = 20


_Records = tuple[CalibrationRecord, ...]


def calibrate_records(
    measured: CalibrationSet | Sequence[CalibrationSet],
    risk: Risk,
    *,
    delta: float = 0.1,
    share: float = 1.0,
    counted: bool = False,
    allowed_routes: Sequence[Route] = ALL_ROUTES,
    confidence_threshold: float | None = None,
    max_false_abstention: float = Problem.MAX_FALSE_ABSTENTION,
) -> Calibrated:
    """Fit a policy that lets through as much as it can while its risk stays under a bound.

    Every split follows from the questions, so the same arguments give the same policy.

    Args:
        measured: records on the scorer's own scale, and what measured them. For a leak there may
            be several, of the same questions, each measured by another scorer: all are
            calibrated, each at its part of `delta`, and the one that lets most answerable
            questions pass is kept, so that the promise covers the choice.
        risk: as for `fit_policy`. `Costs` and `MaxAbstention` promise nothing: the policy says
            so in its note, and no attempt is counted.
        delta: probability δ that the promise fails by bad luck, in (0, 1).
        share: of the questions to fit on, in (0, 1]; the rest is held out for reporting.
            By default all are fitted on, and the reported rates are those of the policy on the
            questions that it was tested on.
        counted: whether other calibrations may be tried on these records, and the best kept:
            this one is then counted in a history beside them (beside each of several), and
            tested at its part of `delta` (see `fit_policy`). By default it is the only one.
        allowed_routes: which routes the policy may take; without any confidence it never
            answers from memory.
        confidence_threshold: for a leak: where the context does not pass, answer from memory
            from this confidence on, in (0, 1]; declared by you, not certified. None: never.
        max_false_abstention: a policy that abstains from a larger share of the questions
            that it could answer has a problem.

    Raises:
        InputError: too few questions to split, no signal in them, a scorer that was tuned on
            them, several scorers that did not measure the same questions, or a history that
            cannot be written.
        ValueError: an argument is out of its range.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    if confidence_threshold is not None and not isinstance(risk, Leak):
        raise ValueError("confidence_threshold is for a leak; other risks certify their own")
    sets = (measured,) if isinstance(measured, CalibrationSet) else tuple(measured)
    if isinstance(risk, Leak):
        # The same promise is the same attempt, whether it was named or is the default.
        risk = replace(risk, missing=sets[0].about(risk.missing).missing)
    require_usable(sets, risk)
    asked = Asked(
        risk, delta, share, allowed_routes, confidence_threshold, max_false_abstention,
        tuple(one.sha256 for one in sets) if len(sets) > 1 else (),
    )  # fmt: skip

    def fit(attempt: int | None) -> Calibrated:
        return best_of([_calibrate(one, asked, attempt) for one in sets])

    if counted and not isinstance(risk, Costs | MaxAbstention):
        found = as_counted(sets, asked, fit)
        found = replace(found, next_attempt=next_attempt(sets))
    else:
        found = fit(None)
    # Whoever asks for a coverage, or has costs, has said how much may be abstained from.
    said = isinstance(risk, Coverage | Costs | MaxAbstention)
    problems = Problem.find(
        found.policy,
        found.measured.records,
        None if said else found.false_abstention.value,
        max_false_abstention=max_false_abstention,
        seed=found.seed,
    )
    if not problems:
        return found
    found = replace(found, problems=problems)

    def trial(other: Risk) -> Calibrated:
        """As a further calibration would be, which is not counted."""
        if isinstance(other, Leak):
            again = replace(asked, risk=other)
            return best_of([_calibrate(one, again, found.next_attempt) for one in sets])
        return _calibrate(found.measured, replace(asked, risk=other, candidates=()), None)

    return replace(found, advice=advice_for(found, asked, trial))


def _calibrate(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    calibrate = _calibrate_selective
    if isinstance(asked.risk, Leak | Costs | MaxAbstention):
        calibrate, measured = _calibrate_leak, measured.about(asked.risk.missing)
    found = calibrate(measured, asked, attempt)
    return replace(found, policy=measured.marked(found.policy))


def _calibrate_selective(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    # Which record stands for its question must not depend on the order of a file.
    ordered = tuple(sorted(measured.records, key=lambda record: (record.question_id, record.case)))
    measured, seed = replace(measured, records=ordered), measured.seed
    learn, certify, test = _parts(measured, asked.share, learns=True)
    choices = choose_calibrators(learn, seed=seed)
    routes = _possible_routes(measured, asked.allowed_routes)
    # The identity for a signal that was never measured.
    calibrators = {f"{name}_calibrator": one.calibrator for name, one in choices.items()}
    estimator = measured.estimator if "confidence" in choices else None
    binding = _binding(measured, estimator=estimator, **calibrators)
    records, path = _calibrated(certify, binding), None
    if not isinstance(asked.risk, Coverage | Leak | Costs | MaxAbstention):
        forecasts = forecast_path(
            _calibrated(learn, binding),
            asked.risk,
            delta=Guarantee.level_of(asked.delta, attempt),
            questions=len({record.unit for record in records}),
            may_follow=Route.FOLLOW_CONTEXT in routes,
            may_answer=Route.ANSWER in routes,
            conflict_between=measured.conflict_between,
        )
        path = from_surest(forecasts)
    fit = fit_policy(
        records,
        asked.risk,
        delta=asked.delta,
        path=path,
        attempt=attempt,
        allowed_routes=routes,
        conflict_between=measured.conflict_between,
        binding=binding,
    )
    return Calibrated(
        policy=fit.policy,
        measured=measured,
        risk=asked.risk,
        learn=learn,
        certify=certify,
        test=test,
        choices=choices,
        steps=path_steps(fit),
        rates=Rates(outcomes_under(fit.policy, test or certify)),
        seed=seed,
        warnings=tuple(cautions(measured, certify, fit.policy, share=asked.share)),
        not_promised=tuple(limits(fit.policy)),
    )


def _binding(measured: CalibrationSet, **more: Any) -> PolicyBinding:
    return PolicyBinding(
        scorer=measured.scorer or PolicyBinding.UNNAMED,
        aggregator=measured.aggregator,
        created_by=CREATED_BY,
        retrieval=measured.retrieval,
        **more,
    )


def _calibrate_leak(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    _, certify, test = _parts(measured, asked.share, learns=False)
    binding = _binding(measured, cascade=measured.cascade, candidates=max(1, len(asked.candidates)))
    if isinstance(asked.risk, Costs | MaxAbstention):
        require_both_kinds(certify, measured.source)
    fit = fit_policy(certify, asked.risk, delta=asked.delta, attempt=attempt, binding=binding)
    policy, folds = fit.policy, () if test else LeakFold.deal(fit, seed=measured.seed)
    if policy.may_follow and len(measured.kept_sets) >= _FEWEST_SETS:
        # It leaves out of the prompt what lies far below the best passage, and breaks no set of
        # the calibration questions that holds the answer.
        margin = Policy.kept_margin_of(measured.kept_sets)
        policy = policy.model_copy(update={"kept_margin": margin})
    if fit.cascade is not None:
        certify, test = tuple(fit.records), tuple(fit.cascade.applied(test))
        measured = replace(measured, records=fit.cascade.applied(measured.records))
    if folds:
        # Those of the policy that is written, and of how it was chosen.
        whole = leak_rates_by([LeakFold.whole(fit)], measured.beside)
        rates = leak_rates_by(folds, measured.beside).widened(whole)
    else:
        rates = leak_rates_of(policy, [*test, *measured.beside])
    if asked.confidence_threshold is not None:
        policy = _with_answers_from_memory(policy, float(asked.confidence_threshold))
    return Calibrated(
        policy=policy,
        measured=measured,
        risk=asked.risk,
        certify=certify,
        test=test,
        folds=folds,
        steps=path_steps(fit),
        leak_rates=rates,
        seed=measured.seed,
        cascade=fit.cascade,
    )


def _parts(measured: CalibrationSet, share: float, *, learns: bool) -> tuple[_Records, ...]:
    """Deal the groups to learn from, if anything is learned, to certify on, and to report.

    Raises:
        InputError: there are too few of them.
    """
    fit_on, test = CalibrationRecord.split(measured.records, share=share)
    asked = len({record.question_id for record in fit_on})
    learning = learning_share(LEARN_CALIBRATORS, asked) if learns else 0.0
    learn, certify = CalibrationRecord.split(fit_on, share=learning)
    if not certify or not (learn if learns else test or share == 1.0):
        found = f"{measured.questions} questions of {measured.groups} groups"
        what = f"too few to split: {found}, of them {share:g} to fit on"
        hint = "use more of them, or a larger share; the questions of a group stay together"
        raise InputError(what, where=measured.source, hint=hint)
    return tuple(learn), tuple(certify), tuple(test)


def _possible_routes(measured: CalibrationSet, allowed: Sequence[Route]) -> tuple[Route, ...]:
    """The allowed routes whose signal was measured at all.

    Raises:
        InputError: none is left.
    """
    has = {
        Route.FOLLOW_CONTEXT: any(record.relevance is not None for record in measured.records),
        Route.ANSWER: any(record.confidence is not None for record in measured.records),
        Route.ABSTAIN: True,
    }
    routes = tuple(dict.fromkeys(route for route in (*allowed, Route.ABSTAIN) if has[route]))
    if routes == (Route.ABSTAIN,):
        what = (
            "neither relevance nor confidence was measured on any case, or their routes are barred"
        )
        raise InputError(what, where=measured.source, hint="measure one of them")
    return routes


def _with_answers_from_memory(policy: Policy, threshold: float) -> Policy:
    """Let `policy` also answer from memory where the context does not pass.

    Confidence was not measured: the threshold is declared, and the guarantee's statement
    says that it is not certified. The promise about contexts that pass is unchanged.
    """
    guarantee = policy.guarantee
    changes: dict[str, Any] = {"confidence_threshold": threshold, "allowed_routes": ALL_ROUTES}
    if guarantee is not None:
        statement = f"{guarantee.statement} {WORDS.text('from_memory', guarantee, threshold)}"
        changes["guarantee"] = guarantee.model_copy(update={"statement": statement})
    return policy.model_copy(update=changes)


def best_of(found: Sequence[Calibrated]) -> Calibrated:
    """The calibration that lets most answerable questions pass, of equals the first.

    Its rates are those of the whole procedure: the choice is made anew for each fold. Their
    intervals hold those of the chosen policy, too.
    """
    certified = [one for one in found if one.policy.may_follow]
    if len(certified) < 2:
        return (certified or found)[0]

    def answered(one: Calibrated) -> int:
        return sum(r.is_answerable and passes(one.policy, r) for r in one.certify)

    best = max(certified, key=answered)
    if best.test:
        return best
    assert best.leak_rates is not None
    folds = LeakFold.chosen([one.folds for one in certified])
    rates = leak_rates_by(folds, best.measured.beside).widened(best.leak_rates)
    return replace(best, leak_rates=rates)


def choose_calibrators(records: Records, *, seed: int = 0) -> dict[str, CalibratorChoice]:
    """Choose a calibrator for the raw values of each signal that was measured.

    Relevance is calibrated to "the reply from the context is right", confidence to "the
    reply from memory is right"; not known counts as wrong.
    """
    values = {name: signal_values(name, records)[0] for name in SIGNALS}
    return {
        name: CalibratorChoice.among(raws, came_true, groups=units, seed=seed)
        for name, (raws, came_true, units) in values.items()
        if raws
    }


def _calibrated(records: Records, binding: PolicyBinding) -> list[CalibrationRecord]:
    """The records with calibrated signals; without passages no context is right."""
    found = []
    for record in records:
        relevance, confidence = calibrated_signals(record, binding)
        right = None if record.nothing_retrieved else record.context_right
        one = replace(record, relevance=relevance, confidence=confidence, context_right=right)
        found.append(one)
    return found
