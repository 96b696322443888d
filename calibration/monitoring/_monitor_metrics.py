"""A monitor's report as Prometheus metrics: computed when scraped, labels few and fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ...guard import InputError
from .._intervals import Interval
from ._distance import Distance
from ._drift import SIGNALS
from ._monitor_report import MonitorReport

_BOUNDS = ("low", "estimate", "high")
ALARMS = (*(f"{signal}_drift" for signal in SIGNALS), "abstention", "risk", "risk_rise")
_FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "knowgate_drift_psi": (
        "Population stability index of live signals against calibration.",
        ("signal", "bound"),
    ),
    "knowgate_drift_psi_without_drift": (
        "Mean of the index where nothing has changed, at these sample sizes.",
        ("signal",),
    ),
    "knowgate_drift_ks": (
        "Kolmogorov-Smirnov distance of live signals from calibration, at bin edges.",
        ("signal", "bound"),
    ),
    "knowgate_drift_p_value": ("Of both distances together, one look.", ("signal",)),
    "knowgate_drift_values": ("Live values compared.", ("signal",)),
    "knowgate_abstention_rate": (
        "Share of abstentions in the block of decisions looked at.",
        ("bound",),
    ),
    "knowgate_abstention_change_evidence_log10": (
        "Evidence of a changed abstention rate.",
        ("direction",),
    ),
    "knowgate_risk": ("Share of wrong replies, bounds valid at all times.", ("route", "bound")),
    "knowgate_risk_target": ("The promised bound of the risk.", ("route",)),
    "knowgate_risk_labels": ("Labelled replies.", ("route",)),
    "knowgate_risk_evidence_log10": ("Evidence that the risk exceeds its bound.", ("route",)),
    "knowgate_risk_alarm": ("1 where that evidence has ever reached 1/delta.", ("route",)),
    "knowgate_alarm": ("1 where there is an alarm.", ("kind",)),
}


class MonitorCollector(Collector):
    """Turns reports into gauges; what is undefined has no sample.

    Args:
        report: gives the report of now.
    """

    def __init__(self, report: Callable[[], MonitorReport]) -> None:
        self._report = report
        self._registry: CollectorRegistry | None = None

    def register(self, registry: CollectorRegistry | None) -> None:
        """Register with `registry`, by default prometheus-client's own.

        Raises:
            InputError: another monitor is registered there.
        """
        chosen = REGISTRY if registry is None else registry
        try:
            chosen.register(self)
        except ValueError:
            raise InputError(
                "this registry has the metrics of another monitor",
                mend="close() that one, or give each monitor a registry=… of its own",
            ) from None
        self._registry = chosen

    def unregister(self) -> None:
        """Leave the registry; a second time does nothing."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without samples: nothing is computed on registration."""
        return _families().values()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The families of one report."""
        report = self._report()
        families = _families()
        for signal in report.drift.signals:
            _add_distance(families["knowgate_drift_psi"], signal.signal, signal.psi)
            _add_distance(families["knowgate_drift_ks"], signal.signal, signal.ks)
            without = None if signal.psi is None else signal.psi.without_drift
            _add(families["knowgate_drift_psi_without_drift"], [signal.signal], without)
            _add(families["knowgate_drift_p_value"], [signal.signal], signal.p_value)
            _add(families["knowgate_drift_values"], [signal.signal], signal.n)
        _add_interval(families["knowgate_abstention_rate"], [], report.abstention.rate)
        for direction, evidence in report.abstention.log10_evidence.items():
            _add(families["knowgate_abstention_change_evidence_log10"], [direction], evidence)
        for route, state in report.risks.items():
            _add_interval(families["knowgate_risk"], [route], state.estimate)
            _add(families["knowgate_risk_target"], [route], state.risk)
            _add(families["knowgate_risk_labels"], [route], state.labels)
            _add(families["knowgate_risk_evidence_log10"], [route], state.log10_evidence)
            _add(families["knowgate_risk_alarm"], [route], float(state.alarm))
        for kind in ALARMS:
            _add(families["knowgate_alarm"], [kind], float(kind in report.alarms))
        return families.values()


def _families() -> dict[str, GaugeMetricFamily]:
    return {
        name: GaugeMetricFamily(name, words, labels=labels)
        for name, (words, labels) in _FAMILIES.items()
    }


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _add_interval(family: GaugeMetricFamily, labels: list[str], interval: Interval) -> None:
    for bound, value in zip(_BOUNDS, (interval.low, interval.value, interval.high), strict=True):
        _add(family, [*labels, bound], value)


def _add_distance(family: GaugeMetricFamily, signal: str, distance: Distance | None) -> None:
    if distance is not None:
        for bound, value in zip(
            _BOUNDS, (distance.low, distance.value, distance.high), strict=True
        ):
            _add(family, [signal, bound], value)
