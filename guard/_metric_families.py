"""The metrics that guards export: names, labels and buckets."""

from __future__ import annotations

from functools import partial

from prometheus_client import Counter, Gauge, Histogram

_PROBABILITY_BUCKETS = tuple(i / 20 for i in range(1, 21))
_SECONDS_BUCKETS = (
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
)  # fmt: skip
# Registered together later, or not at all.
_counter, _histogram = partial(Counter, registry=None), partial(Histogram, registry=None)
_gauge = partial(Gauge, registry=None)
Metric = Counter | Gauge | Histogram


class MetricFamilies:
    """The metrics of one registry, not registered yet."""

    def __init__(self) -> None:
        self._define_decisions()
        self._define_signals()
        self._define_process()

    @property
    def families(self) -> list[Metric]:
        """All of them."""
        return [metric for metric in vars(self).values() if isinstance(metric, Metric)]

    def _define_decisions(self) -> None:
        """Of decisions and the policy behind them."""
        self.decisions = _counter(
            "knowgate_decisions_total",
            "Decisions by route, scenario, reason and mode.",
            ("guard", "route", "scenario", "reason", "mode"),
        )
        self.guards = _counter(
            "knowgate_guards_total",
            "Guards made, by whether their policy was calibrated, or changed since.",
            ("guard", "calibrated"),
        )
        # Of several workers that serve by one policy, one sample is enough.
        self.policy = _gauge(
            "knowgate_policy_info",
            "1 for the policy that a guard serves by.",
            ("guard", "fingerprint", "calibrated", "alpha", "delta"),
            multiprocess_mode="livemax",
        )
        self.policy_written = _gauge(
            "knowgate_policy_written_timestamp_seconds",
            "When the file of the policy was written.",
            ("guard",),
            multiprocess_mode="livemin",
        )
        self.mismatches = _counter(
            "knowgate_retrieval_mismatches_total",
            "Questions whose passages are not like those of the calibration, or not read whole.",
            ("guard", "what"),
        )
        self.turns = _counter(
            "knowgate_conversation_turns_total",
            "Messages of conversations, by what was done with them.",
            ("guard", "turn"),
        )

    def _define_signals(self) -> None:
        """Of signals and vetoes."""
        self.relevance = _histogram(
            "knowgate_relevance",
            "Calibrated probability that the passages suffice.",
            ("guard",),
            buckets=_PROBABILITY_BUCKETS,
        )
        self.confidence = _histogram(
            "knowgate_confidence",
            "Calibrated probability that the closed-book answer is right.",
            ("guard",),
            buckets=_PROBABILITY_BUCKETS,
        )
        self.stages_of_relevance = _counter(
            "knowgate_relevance_stages_total",
            "Decisions by the stage of a cascade of scorers that gave their relevance: cheap, "
            "costly, or fallback where the costly one failed.",
            ("guard", "stage"),
        )
        self.seconds = _histogram(
            "knowgate_stage_seconds",
            "Seconds spent per stage of a decision.",
            ("guard", "stage"),
            buckets=_SECONDS_BUCKETS,
        )
        self.errors = _counter(
            "knowgate_errors_total",
            "Signals that failed, by kind of failure.",
            ("guard", "signal", "kind"),
        )
        self.observer_errors = _counter(
            "knowgate_observer_errors_total", "Calls of observers that raised.", ("guard",)
        )
        self.samples = _counter(
            "knowgate_samples_total",
            "Answers sampled for confidence, and samples that stopping early saved.",
            ("guard", "outcome"),
        )
        self.vetoes = _counter(
            "knowgate_vetoes_total",
            "Vetoes measured, by what they led to.",
            ("guard", "veto", "outcome"),
        )

    def _define_process(self) -> None:
        """Of the process, whatever the guard."""
        self.devices = _counter(
            "knowgate_device_events_total",
            "What devices and the queue in front of them did, in this process.",
            ("event",),
        )
        self.caches = _counter(
            "knowgate_cache_lookups_total",
            "Texts and verdicts looked up in the caches of scorers, in this process.",
            ("cache", "result"),
        )
        self.queues = _gauge(
            "knowgate_queue_depth",
            "Rows and calls that wait, and calls that nobody waits for, in this process.",
            ("queue",),
            multiprocess_mode="livesum",
        )
