"""Prometheus metrics of the HTTP service; labels have few values, whatever is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

_lock = Lock()


class HTTPMetrics:
    """What the service has answered, and how much is under way.

    Args:
        registry: of the metrics, and of those that `/metrics` shows.
        endpoints: paths that have a label of their own; all others share `other`.
    """

    def __init__(self, registry: CollectorRegistry | None, endpoints: Iterable[str]) -> None:
        self._registry = REGISTRY if registry is None else registry
        self._endpoints = frozenset(endpoints)
        self._responses, self._requests = _metrics(self._registry)

    def endpoint(self, path: str) -> str:
        """The label of a path."""
        return path if path in self._endpoints else "other"

    def count(self, path: str, status: int) -> None:
        """Count a response."""
        self._responses.labels(self.endpoint(path), str(status)).inc()

    def show(self, *, running: int, waiting: int) -> None:
        """Set how many requests there are."""
        self._requests.labels("running").set(running)
        self._requests.labels("waiting").set(waiting)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics of the registry, of all processes in multi-process mode, and their type."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type


_by_registry: WeakKeyDictionary[CollectorRegistry, tuple[Counter, Gauge]] = WeakKeyDictionary()


def _metrics(registry: CollectorRegistry) -> tuple[Counter, Gauge]:
    """The metrics of a registry, made once."""
    with _lock:
        if registry not in _by_registry:
            responses = Counter(
                "knowgate_http_responses_total",
                "Responses of the HTTP service, by endpoint and status.",
                ("endpoint", "status"),
                registry=registry,
            )
            requests = Gauge(
                "knowgate_http_requests",
                "Requests that the HTTP service works on, and that wait.",
                ("state",),
                registry=registry,
                multiprocess_mode="livesum",
            )
            _by_registry[registry] = responses, requests
        return _by_registry[registry]
