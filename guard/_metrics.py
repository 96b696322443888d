"""Prometheus metrics with bounded labels; nothing leaves the process by itself."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Literal, ParamSpec
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from . import process
from .decision import Decision, Reason, Route, SignalName
from .errors import (
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    MissingDependencyError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    SignalWaitError,
)
from .files import table_beside

if TYPE_CHECKING:
    from .contracts import Confidence
    from .policy import Policy

_FAMILIES: dict[str, dict[str, Any]] = dict(table_beside(__file__, "metrics.toml"))
_BUCKETS = _FAMILIES.pop("buckets")


def _family(about: Mapping[str, Any]) -> Any:
    """Make a metric, to be registered with the others or not at all."""
    given = f"knowgate_{about['name']}", about["text"], about["labels"].split()
    if "gauge" in about:
        return Gauge(*given, registry=None, multiprocess_mode=about["gauge"])
    if "buckets" in about:
        return Histogram(*given, registry=None, buckets=_BUCKETS[about["buckets"]])
    return Counter(*given, registry=None)


_logger = logging.getLogger("knowgate.guard")


# Values that labels of one registry have: those of the package itself, and how many more, the
# first to come.
_VALUES: dict[str, tuple[Collection[str], int]] = {
    "guard": ((), 32),
    "policy": ((), 64),
    "reason": (tuple(Reason), 64),
    "signal": ((*SignalName, "support"), 64),
    "stage": ((), 64),
}
_FURTHER = "other"
# Hexadecimal digits of a policy's digest that tell policies apart in a label.
_FINGERPRINT_LENGTH = 12
_LABEL = re.compile(r"[\w.-]{1,64}", re.ASCII)
_TURNS = frozenset({"question", "follow_up", "rewriting_failed", "small_talk"})


_P = ParamSpec("_P")


class GuardMetrics:
    """Counters and histograms of one registry, labelled by guard.

    Guards that share a registry share its metrics: `GuardMetrics.on(registry)`
    gives the same object for the same registry. The label `guard` is the `name` in a
    guard's options; the first 32 names have a label of their own, further ones share
    `other`.

    Args:
        registry: where the metrics are registered.
    """

    _by_registry: ClassVar[WeakKeyDictionary[CollectorRegistry, GuardMetrics]] = WeakKeyDictionary()
    _lock = threading.Lock()

    def __init__(self, registry: CollectorRegistry) -> None:
        self.families = {name: _family(about) for name, about in _FAMILIES.items()}
        self._logged: dict[type[Exception], object] = {}
        self._values = {name: set(map(str, known)) for name, (known, _) in _VALUES.items()}
        self.shown: dict[str, tuple[str, ...]] = {}
        # Not the lock above, which is held while metrics are made.
        self.showing = threading.Lock()
        self._register(registry)
        for queue in process.QUEUES:
            self.show_process_count("queues", (queue,), 0)
        process.follow(self)

    def _register(self, registry: CollectorRegistry) -> None:
        registered: list[Any] = []
        try:
            for metric in self.families.values():
                registry.register(metric)
                registered.append(metric)
        except ValueError:
            for metric in registered:
                # All or none.
                registry.unregister(metric)
            raise InputError(
                "this registry has other metrics with names of knowgate's",
                where="metrics",
                hint="pass metrics=GuardMetrics.on(CollectorRegistry()) for one of their own, "
                "or metrics=False",
            ) from None

    def lost(self, error: Exception) -> None:
        """Log that something could not be counted, once by the type of the error."""
        own = object()
        if self._logged.setdefault(type(error), own) is own:
            _logger.warning(
                "metrics: counting raised %s; answers go on, and this is logged once",
                type(error).__name__,
            )

    def show_process_count(
        self, family: process.Family, labels: tuple[str, ...], amount: int
    ) -> None:
        """Show a number that is the same for all guards: add to a counter, or set a gauge."""
        try:
            metric = self.families[family].labels(*labels)
            metric.set(amount) if isinstance(metric, Gauge) else metric.inc(amount)
        except Exception as error:  # noqa: BLE001 - counting must not cost an answer
            self.lost(error)

    @classmethod
    def on(cls, registry: CollectorRegistry | None = None) -> GuardMetrics:
        """The metrics of `registry`, by default of prometheus-client's own.

        Raises:
            InputError: other metrics are registered there under the same names.
        """
        chosen = REGISTRY if registry is None else registry
        with cls._lock:
            found = cls._by_registry.get(chosen)
            if found is None:
                found = cls._by_registry[chosen] = cls(chosen)
            return found

    def of(
        self, name: str, *, vetoes: Mapping[str, str] | None = None, reasons: Iterable[str] = ()
    ) -> MetricsOfGuard:
        """The metrics of a new guard; its abstention rate starts at nothing.

        Args:
            name: of the guard.
            vetoes: name → reason of its abstentions; errors of any other count under `other`.
            reasons: that its vetoes give; decisions for any other count under `other`.
        """
        for label, given in (("reason", reasons), ("signal", vetoes or ())):
            for value in given:
                self.admit(label, value)
        self.admit("guard", name)
        return MetricsOfGuard(self, self.value("guard", name), vetoes or {})

    def admit(self, label: str, value: str) -> bool:
        """Return whether a label may have a value, which it may from now on if there is room."""
        values = self._values[label]
        if value not in values:
            known, further = _VALUES[label]
            with self.showing:
                if len(values) < len(known) + further and _LABEL.fullmatch(value):
                    values.add(value)
        return value in values

    def value(self, label: str, value: str) -> str:
        """The value itself where the label may have it, else `other`."""
        return value if value in self._values[label] else _FURTHER


def _quietly(
    count: Callable[Concatenate[MetricsOfGuard, _P], None],
) -> Callable[Concatenate[MetricsOfGuard, _P], None]:
    """Make a method that counts log its failure once in place of raising it.

    A full disk or a missing folder of the multi-process mode must not cost an answer.
    """

    @wraps(count)
    def counted(self: MetricsOfGuard, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            count(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see above
            self.lost(error)

    return counted


class MetricsOfGuard:
    """What one guard counts; counting never raises.

    Args:
        shared: the metrics of its registry.
        label: value of the label `guard`.
        vetoes: of the guard, name → reason of its abstentions.
    """

    def __init__(self, shared: GuardMetrics, label: str, vetoes: Mapping[str, str]) -> None:
        self._shared, self._label, self._vetoes = shared, label, dict(vetoes)
        self._lock = threading.Lock()
        self._decided = self._abstained = self._lost = 0
        self._found: dict[tuple[str, ...], Any] = {}

    @property
    def uncounted(self) -> int:
        """How often counting has failed, e.g. for a full disk; each kind is logged once."""
        return self._lost

    def lost(self, error: Exception) -> None:
        """Record that something could not be counted."""
        with self._lock:
            self._lost += 1
        self._shared.lost(error)

    @_quietly
    def count(
        self, family: Literal["guards", "mismatches", "observer_errors"], *labels: str
    ) -> None:
        """Add one to a counter of what happens seldom, under its further labels."""
        self._series(family, *labels).inc()

    @_quietly
    def show_policy(self, policy: Policy) -> None:
        """Show which policy the guards with this label serve by: the latest one's."""
        promise, bounds, shared = policy.guarantee, ("", ""), self._shared
        fingerprint = policy.sha256[:_FINGERPRINT_LENGTH]
        if promise is not None and promise.certified and not policy.changed:
            bounds = f"{promise.risk:g}", f"{promise.delta:g}"
        shared.admit("policy", fingerprint)
        shown = (self._label, shared.value("policy", fingerprint), policy.state, *bounds)
        with shared.showing:
            before = shared.shown.get(self._label, shown)
            shared.shown[self._label] = shown
        shared.families["policy"].labels(*before).set(0)
        shared.families["policy"].labels(*shown).set(1)

    @_quietly
    def show_policy_file(self, path: str | os.PathLike[str]) -> None:
        """Show when the file of the policy was written."""
        self._series("policy_written").set(os.stat(path).st_mtime)

    @_quietly
    def count_samples(self, confidence: Confidence) -> None:
        """Count the answers drawn for a confidence, and those that need not be drawn."""
        self._series("samples", "drawn").inc(confidence.samples_drawn)
        self._series("samples", "saved").inc(confidence.samples_saved)

    @_quietly
    def count_turn(self, turn: str) -> None:
        """Count one message of a conversation; small talk is no decision of the guard."""
        self._series("turns", turn if turn in _TURNS else _FURTHER).inc()

    @_quietly
    def count_decision(self, decision: Decision) -> None:
        """Count one decision and observe its signals and timings."""
        with self._lock:
            self._decided += 1
            self._abstained += decision.route is Route.ABSTAIN
        shared = self._shared
        self._series(
            "decisions",
            decision.route.value,
            "undetermined" if decision.scenario is None else decision.scenario.value,
            shared.value("reason", str(decision.reason)),
            decision.mode.value,
        ).inc()
        if decision.relevance is not None:
            self._series("relevance").observe(decision.relevance)
        if decision.relevance_stage is not None:
            self._series("relevance_stages", decision.relevance_stage).inc()
        if decision.confidence is not None:
            self._series("confidence").observe(decision.confidence)
        for stage, seconds in decision.timings.items():
            if shared.admit("stage", stage):
                self._series("seconds", stage).observe(seconds)
        if self._vetoes:
            self._count_vetoes(decision)

    def _series(self, *key: str) -> Any:
        """The time series of this guard by its family and further labels, looked up once."""
        found = self._found.get(key)
        if found is None:
            family, *labels = key
            found = self._found[key] = self._shared.families[family].labels(self._label, *labels)
        return found

    def _count_vetoes(self, decision: Decision) -> None:
        measured = [name for name in decision.timings if name in self._vetoes]
        for name in measured:
            outcome = "passed"
            if name in decision.failed_signals:
                outcome = "failed"
            elif name == measured[-1] and decision.reason == self._vetoes[name]:
                # The flow ends with the first veto that abstains.
                outcome = "abstained"
            self._series("vetoes", self._shared.value("signal", name), outcome).inc()

    @_quietly
    def count_support(self, support: float, action: str | None, seconds: float) -> None:
        """Count a checked reply.

        Args:
            support: of the least supported sentence.
            action: what became of it for lack of support; None where it has enough.
            seconds: that the check took.
        """
        self._series("support").observe(support)
        if action is not None:
            self._series("unsupported", action).inc()
        if self._shared.admit("stage", "support"):
            self._series("seconds", "support").observe(seconds)

    def abstention_rate(self) -> float | None:
        """Share of this guard's decisions so far that abstained; None before the first.

        In Prometheus, over the last five minutes:
        `sum(rate(knowgate_decisions_total{guard="default",route="abstain"}[5m]))
        / sum(rate(knowgate_decisions_total{guard="default"}[5m]))`.
        """
        with self._lock:
            return self._abstained / self._decided if self._decided else None

    @_quietly
    def count_error(self, signal: str, error: KnowgateError) -> None:
        """Count one failed measurement of the signal with this name."""
        name = self._shared.value("signal", signal)
        self._series("errors", name, error_kind(error)).inc()


# In the order in which they are tried: one that waited too long is an overload, too.
_KINDS: dict[str, tuple[type[KnowgateError], ...]] = {
    "timeout": (SignalTimeoutError, LanguageModelTimeoutError),
    "wait": (SignalWaitError,),
    "overload": (SignalOverloadError,),
    "value": (SignalValueError,),
    "language_model": (LanguageModelError,),
    "missing": (MissingDependencyError,),
}
ERROR_KINDS = (*_KINDS, "other")


def error_kind(error: KnowgateError) -> str:
    """One of `ERROR_KINDS`: a metric label with few values."""
    return next((kind for kind, types in _KINDS.items() if isinstance(error, types)), "other")
