"""One object that watches a guard in service."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.decision import Decision, Route
from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.read_models import CheckedSettings, check_model
from .. import Interval
from ._streams import (
    ALL,
    LET_THROUGH,
    SAVED_HINT,
    Count,
    RateChangeDetector,
    RiskMonitor,
    RunLength,
    risk_monitors,
)
from .drift import (
    LEAST_ALPHA,
    LEAST_VALUES,
    DriftReport,
    SignalCounter,
    compare_counts,
)
from .report import AbstentionState, MonitorReport, metric_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


_logger = logging.getLogger("knowgate.calibration")


class _Saved(BaseModel):
    """What a monitor knows, as `DecisionMonitor.to_dict` gives it."""

    kind: Literal["decision_monitor"]
    policy_sha256: str
    window: Count
    decisions: Count
    block: SignalCounter
    last: SignalCounter | None
    live: bool
    detector: RateChangeDetector | None
    risks: dict[str, RiskMonitor]


@checked_dataclass(frozen=True)
class AlarmSettings(CheckedSettings):
    """When `DecisionMonitor` raises an alarm.

    Attributes:
        baseline: abstentions and decisions, as (abstained, n), that count as normal. By default
            those of the calibration questions, where the policy keeps them; `"live"`
            and otherwise: those of the first block.
        run_length: steps between false alarms of a change, on average at least: decisions for
            the abstention rate, labels for a rise of the risk.
        drift_alpha: probability of a false verdict of drift per block; at least .001.
    """

    baseline: tuple[Count, Count] | Literal["live"] | None = None
    run_length: RunLength = 100_000
    drift_alpha: Annotated[float, Field(strict=True, ge=LEAST_ALPHA, lt=1)] = 0.01


class DecisionMonitor(Collector):
    """Observes decisions and feedback; reports drift, abstention and risk.

    Pass it to a guard as an observer: `Guard.load("policy.json", observers=[monitor])`. It keeps
    counts, never a question or a reply; a decision costs constant time and memory, and
    many threads may decide at once.

    Decisions are counted in blocks of `window`. Drift is judged once per block, when it is
    full, so `AlarmSettings.drift_alpha` is the probability of a false verdict per block, not
    per look.

    Args:
        policy: the one that the guard serves by, with its histograms.
        window: decisions of a block.
        risk: bound α on the share of wrong replies of all routes together. By default what the
            policy's guarantee promises, of all routes or of each. Where it speaks of something
            that feedback on replies does not measure (leave-one-out pass rates, costs), and
            without a guarantee, no risk is watched.
        delta: probability of a false alarm of the promised risks, ever; of each of the
            other ones too. By default the guarantee's, or .1.
        least_rate: smallest sampling rate of feedback (see `RiskMonitor`).
        alarms: baseline of the abstention rate, and how rare false alarms are.
        metrics: False for none.
        registry: where metrics are registered; prometheus-client's own by default.

    Raises:
        InputError: a number is out of range, a histogram of the policy cannot be used, or the
            registry has another monitor's metrics.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        window: int = 1000,
        risk: float | None = None,
        delta: float | None = None,
        least_rate: float = 1.0,
        alarms: AlarmSettings | None = None,
        metrics: bool = True,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < LEAST_VALUES:
            raise InputError(
                f"window must be a whole number, at least {LEAST_VALUES}",
                hint="fewer decisions are too few to judge drift by",
            )
        self._policy, self._alarms = policy, alarms or AlarmSettings()
        self._given = _detector(policy, self._alarms)
        self._lock = threading.Lock()
        self._state = _Saved(
            kind="decision_monitor",
            policy_sha256=policy.sha256,
            window=window,
            decisions=0,
            block=SignalCounter().bound_to(policy),
            last=None,
            live=self._given is None,
            detector=deepcopy(self._given),
            risks=risk_monitors(policy, risk, delta, self._alarms.run_length, least_rate),
        )
        self._judged: tuple[SignalCounter, DriftReport] | None = None
        self._failures: Counter[type[Exception]] = Counter()
        self._registry = (registry or REGISTRY) if metrics else None
        if self._registry is not None:
            try:
                self._registry.register(self)
            except ValueError:
                raise InputError(
                    "this registry has the metrics of another monitor",
                    hint="close() that one, or give each monitor a registry=… of its own",
                ) from None

    def __call__(self, decision: Decision) -> None:
        """Observe one decision."""
        with self._lock:
            state = self._state
            state.decisions += 1
            state.block.add(decision)
            if state.detector is not None:
                state.detector.observe(decision.route is Route.ABSTAIN)
            if state.block.decisions == state.window:
                if state.detector is None:
                    state.detector = RateChangeDetector.from_counts(
                        state.block.abstained,
                        state.window,
                        run_length=self._alarms.run_length,
                    )
                state.last, state.block = state.block, SignalCounter().bound_to(self._policy)

    def feedback(self, route: Route | str, right: bool | None, *, rate: float = 1.0) -> None:
        """Take in a label of a reply that was let through.

        Args:
            route: of its decision: `follow_context` or `answer`.
            right: whether the reply is right; None where it was not picked for labelling,
                which is only to be told where sampling rates differ (see `RiskMonitor`).
            rate: probability with which it was picked.

        Raises:
            InputError: no risk of this route is watched, another route, or an impossible rate;
                no label at rate 1.
        """
        if route not in LET_THROUGH:
            raise InputError(
                f"feedback on route {str(route)!r}",
                hint=f"one of: {', '.join(LET_THROUGH)}; an abstention has no reply to be wrong",
            )
        if right is not None and not isinstance(right, bool):
            raise InputError("feedback is neither true, false nor None")
        with self._lock:
            risks = self._state.risks
            watched = [risks[name] for name in (ALL, Route(route).value) if name in risks]
            if not watched:
                raise InputError("no risk is watched", hint="pass risk=… to the monitor")
            for monitor in watched:
                monitor.observe(None if right is None else not right, rate=rate)

    def report(self) -> MonitorReport:
        """What is known now."""
        with self._lock:
            state, judged = self._state, self._judged
            last, decisions, risks = state.last, state.decisions, deepcopy(state.risks)
            block = last or deepcopy(state.block)  # a full one is left alone
            rate = Interval.wilson(block.abstained, block.decisions)
            abstention = AbstentionState.of(rate, state.detector, self._alarms.run_length)
        if judged is not None and judged[0] is last:
            drift = judged[1]
        else:
            # Outside the lock: this takes milliseconds, which no decision should wait for.
            drift = compare_counts(
                self._policy, block, alpha=self._alarms.drift_alpha, least=LEAST_VALUES, seed=0,
                judge=last is not None,
            )  # fmt: skip
            if last is not None:
                self._judged = (last, drift)
        return MonitorReport(decisions, state.window, last is not None, drift, abstention, risks)

    def reset(self, *, risk: bool = True, abstention: bool = True, drift: bool = True) -> None:
        """Reset alarms and detectors, after their cause was found and fixed.

        Args:
            risk: forget all feedback.
            abstention: reset the detector of the abstention rate, with the same baseline.
            drift: begin a new block, and forget the verdict on the last one.
        """
        with self._lock:
            state = self._state
            if risk:
                for monitor in state.risks.values():
                    monitor.reset()
            if abstention and state.detector is not None:
                state.detector.reset()
            if drift:
                state.block = SignalCounter().bound_to(self._policy)
                state.last = self._judged = None

    def close(self) -> None:
        """Take the metrics out of the registry, for another monitor to take their place."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The metrics without samples: nothing is computed on registration."""
        return metric_families().values()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The metrics of a report; without it, the number of failures alone.

        A failure must not cost the scrape what other metrics of the process say.
        """
        try:
            families = metric_families(self.report())
        except Exception as error:  # noqa: BLE001 - see above
            families, kind = metric_families(), type(error)
            self._failures[kind] += 1
            if self._failures[kind] == 1:
                _logger.warning("no report for the scrape: %s; logged once", kind.__name__)
        families["knowgate_monitor_failures"].add_metric([], self._failures.total())
        return families.values()

    def to_dict(self) -> dict[str, Any]:
        """Everything it knows, as JSON holds it, for `restore` after a restart."""
        with self._lock:
            return self._state.model_dump(mode="json")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `to_dict` left off; replaces all that was observed so far.

        Raises:
            InputError: the state is broken, or of a monitor with another policy, window, run
                length, baseline, or other risks.
        """
        found = check_model(_Saved, state, where="the saved state", hint=SAVED_HINT)
        if found.policy_sha256 != self._state.policy_sha256:
            raise InputError(
                "the saved state belongs to another policy",
                hint="start a new monitor after a recalibration; this state is of the old policy",
            )
        now = self._state
        same = found.risks.keys() == now.risks.keys() and all(
            _are_close(one.settings, now.risks[name].settings) for name, one in found.risks.items()
        )
        kept = (found.window, found.live) == (now.window, now.live)
        if not (same and kept and self._may_hold(found.detector)):
            raise InputError(
                "the saved state is of a monitor with other settings",
                hint="give window, risk, delta and alarms as then",
            )
        block, last = found.block.bound_to(self._policy), found.last
        full = None if last is None else last.bound_to(self._policy).decisions
        if block.decisions >= now.window or full not in (None, now.window):
            raise InputError("the saved state has a block of another length than its window")
        with self._lock:
            self._state, self._judged = found, None

    def _may_hold(self, detector: RateChangeDetector | None) -> bool:
        if self._given is None:
            # It is learned of the first block.
            return detector is None or math.isclose(detector.run_length, self._alarms.run_length)
        return detector is not None and _are_close(detector.settings, self._given.settings)


def _detector(policy: Policy, alarms: AlarmSettings) -> RateChangeDetector | None:
    kept, baseline = policy.histograms.get("abstained"), alarms.baseline
    if baseline is None and kept is not None and len(kept.counts) == 2 and any(kept.counts):
        baseline = kept.counts[1], sum(kept.counts)
    if baseline is None or baseline == "live":
        return None
    return RateChangeDetector.from_counts(*baseline, run_length=alarms.run_length)


def _are_close(found: tuple[float, ...], watched: tuple[float, ...]) -> bool:
    """Whether settings are the same; another version may derive rates that differ at 1e-12."""
    return len(found) == len(watched) and all(map(math.isclose, found, watched))
