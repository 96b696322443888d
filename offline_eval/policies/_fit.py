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

from ..._version import __version__
from ...calibration import CalibrationRecord, CalibratorChoice
from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, fit_policy
from ...calibration.risk.costs import LeakFold
from ...calibration.risk.fit import PolicyBinding, Problem
from ...calibration.risk.learned_path import forecast_path, from_surest
from ...calibration.risk.risks import LEARN_CALIBRATORS, Risk, learning_share
from ...guard.artefacts import Guarantee
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import IdentityCalibrator, Policy
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
    passing,
    path_steps,
    signal_values,
)
from .records import WORDS, CalibrationSet, require_both_kinds

# Fewer say too little of how far below the best a passage with the answer may lie.
_FEWEST_SETS = 20
_ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


_Records = tuple[CalibrationRecord, ...]


def calibrate_records(
    measured: CalibrationSet | Sequence[CalibrationSet],
    risk: Risk,
    *,
    delta: float = 0.1,
    share: float = 1.0,
    counted: bool = False,
    allowed_routes: Sequence[Route] = _ALL_ROUTES,
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
    for one in sets:
        _require_not_tuned_on(one)
    require_candidates(sets, risk)
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
        [chosen] = [one for one in sets if one.source == found.measured.source][:1]
        return _calibrate(chosen, replace(asked, risk=other, candidates=()), None)

    return replace(found, advice=advice_for(found, asked, trial))


def _require_not_tuned_on(measured: CalibrationSet) -> None:
    """Reject questions that the scorer has seen in tuning: on them it is better than on others.

    Raises:
        InputError: there are such questions, or nobody says whether there are.
    """
    if measured.tuned_on is None:
        what = (
            "measured by a tuned scorer, and nothing says whether it was tuned on these questions"
        )
        hint = 'give each record its "question" and name the tuned folder (--scorer DIR), or state '
        hint += '"tuned_on": [] in the first line'
        raise InputError(what, where=measured.source, hint=hint)
    if measured.tuned_on:
        some = f"{len(measured.tuned_on)} of its {measured.questions} questions"
        what = f"the scorer was tuned on {some}, e.g. {measured.tuned_on[0][:80]!r}"
        hint = "measure other questions than `knowgate tune relevance` was given"
        raise InputError(f"{what}: there it looks too good", where=measured.source, hint=hint)


def _calibrate(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    if measured.cascade is not None and not isinstance(asked.risk, Leak):
        what = "has the verdicts of a costly scorer, and a cascade is calibrated to a leak"
        hint = "promise a leak, or leave the costly scorer out"
        raise InputError(what, where=measured.source, hint=hint)
    calibrate = _calibrate_selective
    if isinstance(asked.risk, Leak | Costs | MaxAbstention):
        calibrate, measured = _calibrate_leak, measured.about(asked.risk.missing)
    found = calibrate(measured, asked, attempt)
    return replace(found, policy=measured.marked(found.policy))


def _calibrate_selective(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    # Which record stands for its question must not depend on the order of a file.
    ordered = tuple(sorted(measured.records, key=lambda record: (record.question_id, record.case)))
    measured, seed = replace(measured, records=ordered), measured.seed
    learn, certify, test = _three_parts(measured, asked.share)
    choices = choose_calibrators(learn, seed=seed)
    routes = _possible_routes(measured, asked.allowed_routes)
    # The identity for a signal that was never measured.
    calibrators = {
        f"{name}_calibrator": choices[name].calibrator if name in choices else IdentityCalibrator()
        for name in SIGNALS
    }
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
        created_by=f"knowgate {__version__}",
        retrieval=measured.retrieval,
        **more,
    )


def _calibrate_leak(measured: CalibrationSet, asked: Asked, attempt: int | None) -> Calibrated:
    certify, test = _two_parts(measured, asked.share)
    seed = measured.seed
    binding = _binding(measured, cascade=measured.cascade, candidates=max(1, len(asked.candidates)))
    if isinstance(asked.risk, Costs | MaxAbstention):
        require_both_kinds(certify, measured.source)
    fit = fit_policy(certify, asked.risk, delta=asked.delta, attempt=attempt, binding=binding)
    policy, folds = fit.policy, () if test else LeakFold.deal(fit, seed=seed)
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
        policy = _with_answers_from_memory(policy, asked.confidence_threshold)
    return Calibrated(
        policy=policy,
        measured=measured,
        risk=asked.risk,
        certify=certify,
        test=test,
        folds=folds,
        steps=path_steps(fit),
        leak_rates=rates,
        seed=seed,
        cascade=fit.cascade,
    )


def _two_parts(measured: CalibrationSet, share: float) -> tuple[_Records, _Records]:
    """Deal the groups to fit on and to report.

    Raises:
        InputError: nothing is left to fit on, or no source was left out.
    """
    if measured.cascade is not None:
        measured.require_usual_aggregator()
        if measured.missing == "both":
            what = "a cascade is calibrated to one kind of missing answers"
            hint = "choose --missing unanswerable or --missing left-out"
            raise InputError(what, where=measured.source, hint=hint)
    if not measured.leaves_out:
        raise InputError(
            "holds no questions with their source left out, which a leak is measured on",
            where=measured.source,
            hint="name a run of the ookb suite",
        )
    fit_on, test = CalibrationRecord.split(measured.records, share=share)
    if not fit_on or (not test and share < 1.0):
        raise InputError(
            "too few distinct passages to split into two parts",
            where=measured.source,
            hint="use more questions",
        )
    return tuple(fit_on), tuple(test)


def _three_parts(measured: CalibrationSet, share: float) -> tuple[_Records, _Records, _Records]:
    """Deal the groups to learn from, to certify on, and to report.

    Raises:
        InputError: one of the first two would be empty.
    """
    fit_on, test = CalibrationRecord.split(measured.records, share=share)
    learning = learning_share(LEARN_CALIBRATORS, len({record.question_id for record in fit_on}))
    learn, certifying = CalibrationRecord.split(fit_on, share=learning)
    if not learn or not certifying:
        groups = f"{measured.groups} group{'' if measured.groups == 1 else 's'}"
        found = f"{measured.questions} questions of {groups}"
        what = f"too few to split: {found}, of them {share:g} to fit on"
        hint = "use more of them, or a larger share; the questions of a group stay together"
        raise InputError(what, where=measured.source, hint=hint)
    return tuple(learn), tuple(certifying), tuple(test)


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
    update = {"confidence_threshold": float(threshold), "allowed_routes": _ALL_ROUTES}
    if guarantee is None:
        return policy.model_copy(update=update)
    statement = f"{guarantee.statement} {WORDS.text('from_memory', guarantee, float(threshold))}"
    said = guarantee.model_copy(update={"statement": statement})
    return policy.model_copy(update={**update, "guarantee": said})


def require_candidates(sets: Sequence[CalibrationSet], risk: Risk) -> None:
    """Reject several scorers that none can be chosen of; one is never rejected.

    Raises:
        InputError: they did not measure the same questions, or one is a cascade.
        ValueError: the risk is no leak.
    """
    if len(sets) == 1:
        return
    if not isinstance(risk, Leak):
        raise ValueError("one of several scorers is chosen for a Leak")
    first, *others = sets
    cases = [{(r.question_id, r.measured_case, r.unit) for r in one.records} for one in sets]
    for other, asked in zip(others, cases[1:], strict=True):
        if asked != cases[0]:
            what = f"holds other questions or passages than {first.name}"
            hint = "measure the same questions with each scorer"
            raise InputError(what, where=other.source, hint=hint)
    if any(one.cascade is not None for one in sets):
        raise InputError(
            "has the verdicts of a costly scorer, and a cascade is not chosen among others",
            where=first.source,
            hint="calibrate the cascade by itself",
        )


def best_of(found: Sequence[Calibrated]) -> Calibrated:
    """The calibration that lets most answerable questions pass, of equals the first.

    Its rates are those of the whole procedure: the choice is made anew for each fold. Their
    intervals hold those of the chosen policy, too.
    """
    certified = [one for one in found if one.policy.may_follow]
    if len(certified) < 2:
        return (certified or found)[0]
    counts = [
        len(passing(one.policy, [r for r in one.certify if r.is_answerable])) for one in certified
    ]
    best = certified[counts.index(max(counts))]
    if best.test:
        return best
    assert best.leak_rates is not None
    folds = LeakFold.chosen([one.folds for one in certified])
    rates = leak_rates_by(folds, best.measured.beside).widened(best.leak_rates)
    return replace(best, leak_rates=rates)


def choose_calibrators(
    records: Sequence[CalibrationRecord], *, seed: int = 0
) -> dict[str, CalibratorChoice]:
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


def _calibrated(
    records: Sequence[CalibrationRecord], binding: PolicyBinding
) -> list[CalibrationRecord]:
    """The records with calibrated signals; without passages no context is right."""
    calibrators = binding.relevance_calibrator, binding.confidence_calibrator
    found = []
    for record in records:
        relevance, confidence = calibrated_signals(record, *calibrators)
        right = None if record.nothing_retrieved else record.context_right
        one = replace(record, relevance=relevance, confidence=confidence, context_right=right)
        found.append(one)
    return found
