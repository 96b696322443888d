"""One object that watches a guard in service."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ...guard import Decision, InputError, Policy, Route
from .._intervals import wilson_interval
from ._drift import LEAST_VALUES, DriftReport, SignalCounter, compare_counts
from ._monitor_metrics import MonitorCollector
from ._monitor_report import AbstentionState, MonitorReport, RiskState
from ._rate_change import RateChangeDetector
from ._risk_monitor import RiskMonitor
from ._state import probability, state_of, whole

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ALL = "all"
_LET_THROUGH = (Route.FOLLOW_CONTEXT, Route.ANSWER)
_STATE = "decision_monitor"


class DecisionMonitor:
    """Observes decisions and feedback; reports drift, abstention and risk.

    Pass it to a guard as an observer: `Guard.load("policy.json", observers=[monitor])`. It keeps
    counts, never a question or a reply; a decision costs constant time and memory, and
    many threads may decide at once.

    Decisions are counted in blocks of `window`. Drift is judged once per block, when it is
    full, so `drift_alpha` is the probability of a false verdict per block, not per look.

    Args:
        policy: the one that the guard serves by, with its histograms.
        window: decisions of a block.
        risk: bound α on the share of wrong replies. By default that of the policy's guarantee,
            unless it speaks of leave-one-out pass rates, which feedback on replies does not
            measure; then, and without a guarantee, no risk is watched.
        delta: probability of a false alarm of the risk, ever: of all routes together, and of
            each alone. By default the guarantee's, or .1.
        least_rate: smallest sampling rate of feedback (see `RiskMonitor`).
        baseline: abstentions and decisions, as (abstained, n), that count as normal. By default
            those of the calibration questions, where the policy keeps them; `"live"`
            and otherwise: those of the first block.
        run_length: steps between false alarms of a change, on average at least: decisions for
            the abstention rate, labels for a rise of the risk.
        drift_alpha: see above.
        metrics: False for none.
        registry: where metrics are registered; prometheus-client's own by default.

    Raises:
        InputError: a number is out of range, or the registry has another monitor's metrics.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        window: int = 1000,
        risk: float | None = None,
        delta: float | None = None,
        least_rate: float = 1.0,
        baseline: tuple[int, int] | Literal["live"] | None = None,
        run_length: float = 100_000,
        drift_alpha: float = 0.01,
        metrics: bool = True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < LEAST_VALUES:
            raise InputError(
                f"window must be a whole number, at least {LEAST_VALUES}",
                mend="fewer decisions are too few to judge drift by",
            )
        self._policy = policy
        self._window = window
        self._drift_alpha = probability(drift_alpha, "drift_alpha")
        self._run_length = run_length
        self._detector = _detector(policy, baseline, run_length)
        self._risks = _risk_monitors(policy, risk, delta, least_rate)
        # A CUSUM of its own: evidence from the beginning would outweigh a late change for long.
        # It steps by labels of equal weight.
        self._rise: RateChangeDetector | None = None
        if self._risks and least_rate == 1:
            self._rise = RateChangeDetector(0.0, self._risks[_ALL].risk, run_length=run_length)
        self._lock = threading.Lock()
        self._decisions = 0
        self._block = _Block(policy)
        self._last: _Block | None = None
        self._judged: tuple[int, DriftReport] | None = None
        self._collector = MonitorCollector(self.report)
        if metrics:
            self._collector.register(registry)

    def __call__(self, decision: Decision) -> None:
        """Observe one decision."""
        abstained = decision.route is Route.ABSTAIN
        with self._lock:
            self._decisions += 1
            self._block.add(decision.relevance, decision.confidence, abstained)
            if self._detector is not None:
                self._detector.observe(abstained)
            if self._block.signals.decisions == self._window:
                if self._detector is None:
                    self._detector = RateChangeDetector.from_counts(
                        self._block.abstained, self._window, run_length=self._run_length
                    )
                self._last, self._block = self._block, _Block(self._policy)

    def feedback(self, route: Route | str, right: bool | None, *, rate: float = 1.0) -> None:
        """Take in a label of a reply that was let through.

        Args:
            route: of its decision: `follow_context` or `answer`.
            right: whether the reply is right; None where it was not picked for labelling,
                which is only to be told where sampling rates differ (see `RiskMonitor`).
            rate: probability with which it was picked.

        Raises:
            InputError: no risk is watched, another route, or an impossible rate.
        """
        if route not in _LET_THROUGH:
            raise InputError(
                f"feedback on route {str(route)!r}",
                mend=f"one of: {', '.join(_LET_THROUGH)}; an abstention has no reply to be wrong",
            )
        if right is not None and not isinstance(right, bool):
            raise InputError("feedback is neither true, false nor None")
        with self._lock:
            if not self._risks:
                raise InputError("no risk is watched", mend="pass risk=… to the monitor")
            for name in (_ALL, Route(route).value):
                if right is None:
                    self._risks[name].skip(rate=rate)
                else:
                    self._risks[name].observe(not right, rate=rate)
            if self._rise is not None and right is not None:
                self._rise.observe(not right)

    def report(self) -> MonitorReport:
        """What is known now."""
        with self._lock:
            complete = self._last is not None
            block = (self._last or self._block).copy()
            number = self._decisions // self._window
            judged = self._judged if complete else None
            abstention = AbstentionState.of(
                wilson_interval(block.abstained, block.signals.decisions),
                self._detector,
                self._run_length,
            )
            risks = {name: RiskState.of(monitor) for name, monitor in self._risks.items()}
            rise = None if self._rise is None else self._rise.alarm
            decisions = self._decisions
        if judged is not None and judged[0] == number:
            drift = judged[1]
        else:
            # Outside the lock: this takes milliseconds, which no decision should wait for.
            drift = compare_counts(
                self._policy, block.signals, alpha=self._drift_alpha, least=LEAST_VALUES, seed=0
            )
            if complete:
                self._judged = (number, drift)
        return MonitorReport(decisions, self._window, complete, drift, abstention, risks, rise)

    def reset(self, *, risk: bool = True, abstention: bool = True) -> None:
        """Forget alarms and begin anew, after their cause was found and mended.

        Args:
            risk: forget all feedback.
            abstention: let the detector of the abstention rate begin anew, on the same baseline.
        """
        with self._lock:
            if risk:
                self._risks = {
                    name: RiskMonitor(each.risk, each.delta, least_rate=each.least_rate)
                    for name, each in self._risks.items()
                }
                if self._rise is not None:
                    self._rise.reset()
            if abstention and self._detector is not None:
                self._detector.reset()

    def close(self) -> None:
        """Take the metrics out of the registry, for another monitor to take their place."""
        self._collector.unregister()

    def to_dict(self) -> dict[str, Any]:
        """Everything it knows, as JSON holds it, for `restore` after a restart."""
        with self._lock:
            return {
                "kind": _STATE,
                "policy_sha256": _sha256(self._policy),
                "window": self._window,
                "decisions": self._decisions,
                "block": self._block.to_dict(),
                "last": None if self._last is None else self._last.to_dict(),
                "detector": None if self._detector is None else self._detector.to_dict(),
                "risks": {name: monitor.to_dict() for name, monitor in self._risks.items()},
                "rise": None if self._rise is None else self._rise.to_dict(),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `to_dict` left off; replaces all that was observed so far.

        Raises:
            InputError: the state is broken, or of another policy, window or set of risks.
        """
        found = state_of(state, _STATE)
        if found.get("policy_sha256") != _sha256(self._policy):
            raise InputError(
                "the saved state belongs to another policy",
                mend="begin anew after a recalibration: what was observed speaks of the old one",
            )
        risks = found.get("risks")
        if found.get("window") != self._window or not isinstance(risks, Mapping):
            raise InputError("the saved state has another window, or is broken")
        if set(risks) != set(self._risks):
            raise InputError("the saved state watches other risks")
        monitors = {name: RiskMonitor.from_dict(risks[name]) for name in self._risks}
        block = _Block.from_dict(self._policy, found.get("block"))
        saved = found.get("last")
        last = None if saved is None else _Block.from_dict(self._policy, saved)
        detector, rise = (
            None if found.get(name) is None else RateChangeDetector.from_dict(found[name])
            for name in ("detector", "rise")
        )
        if (rise is None) != (self._rise is None):
            raise InputError("the saved state watches other risks")
        decisions = whole(found, "decisions")
        with self._lock:
            self._risks, self._detector, self._rise = monitors, detector, rise
            self._block, self._last, self._decisions = block, last, decisions
            self._judged = None


class _Block:
    """Counts of some consecutive decisions."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.signals = SignalCounter(policy)
        self.abstained = 0

    def add(self, relevance: float | None, confidence: float | None, abstained: bool) -> None:
        self.signals.add(relevance, confidence)
        self.abstained += abstained

    def copy(self) -> _Block:
        return _Block.from_dict(self._policy, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        return {
            "decisions": self.signals.decisions,
            "abstained": self.abstained,
            "counts": {name: list(counts) for name, counts in self.signals.counts.items()},
        }

    @classmethod
    def from_dict(cls, policy: Policy, state: object) -> _Block:
        block = cls(policy)
        counts = state.get("counts") if isinstance(state, Mapping) else None
        if not isinstance(state, Mapping) or not isinstance(counts, Mapping):
            raise InputError("a block of a saved state is broken")
        block.signals.decisions, block.abstained = (
            whole(state, "decisions"), whole(state, "abstained"),
        )  # fmt: skip
        for name, bins in block.signals.counts.items():
            saved = counts.get(name)
            if not isinstance(saved, list) or len(saved) != len(bins):
                raise InputError("a block of a saved state is broken")
            block.signals.counts[name] = [whole({"count": count}, "count") for count in saved]
        return block


def _detector(
    policy: Policy, baseline: tuple[int, int] | Literal["live"] | None, run_length: float
) -> RateChangeDetector | None:
    kept = policy.histograms.get("abstained")
    if baseline is None and kept is not None and len(kept.counts) == 2 and any(kept.counts):
        passed, abstained = kept.counts
        baseline = (abstained, passed + abstained)
    if baseline is None or baseline == "live":
        # To find a bad run_length now, and not when the first block is full.
        RateChangeDetector.from_rate(0.5, run_length=run_length)
        return None
    return RateChangeDetector.from_counts(*baseline, run_length=run_length)


def _risk_monitors(
    policy: Policy, risk: float | None, delta: float | None, least_rate: float
) -> dict[str, RiskMonitor]:
    guarantee = policy.guarantee
    of_replies = guarantee is not None and "relevance.left_out" not in policy.histograms
    if risk is None:
        if guarantee is None or not of_replies:
            return {}
        risk = guarantee.risk
    if delta is None:
        delta = guarantee.delta if guarantee is not None else 0.1
    names = (_ALL, *(route.value for route in _LET_THROUGH))
    return {name: RiskMonitor(risk, delta, least_rate=least_rate) for name in names}


def _sha256(policy: Policy) -> str:
    return hashlib.sha256(policy.to_json().encode("utf-8")).hexdigest()
