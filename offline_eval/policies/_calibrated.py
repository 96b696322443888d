"""A fitted policy with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...calibration import CalibrationRecord, CalibratorChoice, Interval
from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention
from ...calibration.risk.costs import LeakFold
from ...calibration.risk.fit import CascadeBand, Problem
from ...calibration.risk.leak import populations_of
from ...calibration.risk.risks import Risk, rounded_up
from ...guard.artefacts import Guarantee
from ...guard.policy import Policy
from ..run.measured_run import Review
from ._rates import LeakRates, Rates
from .records import CalibrationSet


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fitted policy with its evidence.

    Attributes:
        policy: certified, or one that always abstains and says so; or chosen for costs.
        measured: all records, with what measured them.
        risk: what the policy was fitted to.
        learn: records that calibrators and path were fitted on; empty for a leak.
        certify: records that the certificate rests on.
        test: records held out for reporting; empty unless asked for.
        folds: for a leak and for costs without held-out records, the questions with the
            thresholds that they are judged by; else empty.
        choices: signal name → its calibrator and why that one; empty for a leak.
        steps: the declared path as it was tested.
        rates: how the policy did on `test`; where nothing was held out, on `certify`.
            None for a leak and for costs.
        leak_rates: likewise for a leak and for costs; None for any other risk.
        problems: why the policy should not serve; empty where nothing speaks against it.
        cascade: of two scorers, the band that was chosen; None for one.
        seed: of the split and of all resampling; it follows from the questions.
        warnings: what to know before trusting the promise; often nothing.
        not_promised: what the guarantee does not cover, as phrases.
        next_attempt: which attempt another calibration on this data would be; None where they
            are not counted.
        advice: where there are problems, what would work, with figures of these questions.
    """

    policy: Policy
    measured: CalibrationSet
    risk: Risk
    certify: tuple[CalibrationRecord, ...]
    test: tuple[CalibrationRecord, ...]
    steps: tuple[Mapping[str, Any], ...]
    seed: int
    learn: tuple[CalibrationRecord, ...] = ()
    folds: tuple[LeakFold, ...] = ()
    choices: Mapping[str, CalibratorChoice] = field(default_factory=dict)
    rates: Rates | None = None
    leak_rates: LeakRates | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    not_promised: tuple[str, ...] = ()
    cascade: CascadeBand | None = None
    next_attempt: int | None = None
    advice: tuple[str, ...] = ()

    @property
    def unseen(self) -> tuple[CalibrationRecord, ...]:
        """Records that neither calibrators nor path were fitted on."""
        return (*self.certify, *self.test)

    @property
    def false_abstention(self) -> Interval:
        """Share of the questions that could be answered which the policy abstains from."""
        rates = self.rates or self.leak_rates
        return Interval() if rates is None else rates.false_abstention

    def accepting(self, *kinds: str) -> Calibrated:
        """The same, without the problems of these kinds, e.g. `generated`."""
        kept = tuple(one for one in self.problems if one.kind not in kinds)
        return replace(self, problems=kept)

    @property
    def judged(self) -> str:
        """Which questions the rates are about, as a phrase after "questions"."""
        if self.test:
            return "that were held out"
        if isinstance(self.risk, Costs | MaxAbstention):
            return "judged by what the others give"
        return "that it was calibrated on"

    @property
    def reported_by_run(self) -> bool:
        """Whether the report of the measured run is about this policy."""
        alone = self.measured.mix is None and self.measured.cascade is None
        # It judges its rows by its own scorer alone.
        return alone and isinstance(self.risk, Leak | Costs | MaxAbstention)

    @property
    def leaks(self) -> dict[str, Interval]:
        """For a leak and for costs: by kind of missing answers, the share that passes."""
        rates = self.leak_rates
        if rates is None:
            return {}
        cases = populations_of(self.certify)
        return {case: getattr(rates, f"{case}_abstention").complement() for case in cases}

    @property
    def cost(self) -> float | None:
        """For `Costs` the mean cost per question, where it could be measured; else None."""
        leaks = [leak.value for leak in self.leaks.values() if leak.value is not None]
        abstained = self.false_abstention.value
        if not isinstance(self.risk, Costs) or not leaks or abstained is None:
            return None
        return self.risk.of(sum(leaks) / len(leaks), abstained)

    def spent(self) -> list[str]:
        """Where the questions went, as phrases with numbers."""
        parts = [(self.learn, "to learn the path on"), (self.test, "held out for reporting")]
        phrases = [f"{len({r.question_id for r in part})} {what}" for part, what in parts if part]
        if self.cascade is not None:
            phrases.append(f"{self.cascade.learned_on} to choose the width of the band on")
        failed = [r for r in self.certify if r.relevance is None and r.case != "in_kb"]
        certify, unmeasured = ({r.question_id for r in of} for of in (self.certify, failed))
        units = len({r.unit for r in self.certify})
        phrases.append(f"{len(certify)} on {units} passages or groups to certify on")
        if unmeasured:
            phrases.append(f"{len(unmeasured)} of them without a relevance")
        return [f"{self.measured.questions} in all", *phrases]

    def smallest_risk(self) -> float | None:
        """About the smallest bound that the next attempt could certify; None: none at all.

        On wrong answers it is that of the best point of the path that was tested.
        """
        from scipy.stats import beta

        guarantee = self.policy.guarantee
        if guarantee is None or self.coverage is not None:
            return None
        level = Guarantee.level_of(guarantee.delta, self.next_attempt) / guarantee.candidates
        if isinstance(self.risk, Leak):
            measured = [r for r in self.certify if r.relevance is not None]
            cases = populations_of(self.certify)
            units = [{r.unit for r in measured if r.case == case} for case in cases]
            return Leak.smallest(min(map(len, units)), level)
        bounds = [
            # One question fewer: the test passes over points that only just could be certified.
            float(beta.ppf(1.0 - level, point.errors + 1, point.let_through - 1 - point.errors))
            for point in guarantee.path
            if point.let_through - 1 > point.errors
        ]
        if not bounds or any(risk.kind != "selective" for risk in guarantee.risks):
            return None
        return rounded_up(min(bounds))

    def left_out_of_prompts(self) -> float | None:
        """Share of answerable questions' retrieved passages that it drops; None if it keeps all."""
        if self.policy.kept_margin is None:
            return None
        sets = [scores for scores, _ in self.measured.kept_sets]
        return 1.0 - sum(len(self.policy.kept(s)) for s in sets) / sum(map(len, sets))

    @property
    def reviews(self) -> dict[str, int] | None:
        """How far left-out cases were reviewed; None where there are none to review.

        Numbers of cases that can be reviewed (`left_out`) and of those with a verdict; of these,
        of those that another passage answers, which do not count as left out, and of those that
        nobody was sure of, which count as leaks.
        """
        verdicts = self.measured.reviews
        if verdicts is None:
            return None
        cases = [r for r in self.measured.records if r.measured_case == "left_out"]
        given = list(verdicts.values())
        return {
            "left_out": sum(r.relevance is not None for r in cases),
            "reviewed": len(given),
            "answered": given.count(Review.Verdict.ANSWERED),
            "unsure": given.count(Review.Verdict.UNSURE),
        }

    @property
    def coverage(self) -> float | None:
        """The share that was asked to be let through, None where a risk was bounded."""
        return self.risk.share if isinstance(self.risk, Coverage) else None
