"""Spans for OpenTelemetry: one per decision, with a child for each signal that was measured.

    knowgate.decide                  knowgate.decide_batch
    ├─ knowgate.relevance            ├─ knowgate.decide
    └─ knowgate.confidence           │  └─ knowgate.relevance
                                     └─ knowgate.decide …

A span holds no text of a question, passage or answer, and of an error its type alone. This module
is only imported where the application has set a provider of spans.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from .._version import __version__
from ._measuring import level_of
from ._metrics import error_kind
from ._signal import Signal
from .contracts import Confidence
from .errors import KnowgateError
from .text import Request

if TYPE_CHECKING:
    from .decision import Decision

_logger = logging.getLogger("knowgate.guard")
_DECISION = "knowgate.decide"


@contextmanager
def decision_span(attributes: Mapping[str, str]) -> Iterator[DecisionSpan]:
    """The span of one decision, the current one inside.

    Args:
        attributes: of the guard.
    """
    with _current_span(_DECISION, attributes=attributes) as span:
        yield DecisionSpan(span)


@contextmanager
def batch_span(
    attributes: Mapping[str, str],
) -> Iterator[Callable[[int], Sequence[DecisionSpan]]]:
    """The span of a batch, the current one inside.

    Yields:
        What begins the spans of so many decisions, none of them the current one.
    """
    with _current_span("knowgate.decide_batch") as span, ExitStack() as ends:

        def begin(count: int) -> Sequence[DecisionSpan]:
            span.set_attribute("knowgate.questions", count)
            spans = [_start(_DECISION, attributes=attributes) for _ in range(count)]
            for one in reversed(spans):
                ends.callback(_end, one)
            return [*map(DecisionSpan, spans)]

        yield begin


class DecisionSpan:
    """The span of one decision, which began with it."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._context = trace.set_span_in_context(span)

    def current(self) -> AbstractContextManager[Span]:
        """Make it the current span."""
        return _current(self._span)

    @contextmanager
    def signal(self, signal: Signal[Any]) -> Iterator[Callable[[object], None]]:
        """The span of a signal that is measured now, the current one inside.

        Yields:
            What records a checked value, or a failure.
        """
        with _current_span(f"knowgate.{signal.name}", context=self._context) as span:
            yield partial(_record, span, signal)

    def measured_jointly(self, signal: Signal[Any], begun: int, value: object) -> None:
        """Record a signal that was measured for several questions at once.

        Args:
            signal: what was measured.
            begun: when, in nanoseconds since 1970; it ends now.
            value: a checked value or a failure.
        """
        span = _start(f"knowgate.{signal.name}", context=self._context, start_time=begun)
        _record(span, signal, value)
        _end(span)

    def decided(self, decision: Decision, request: Request | None) -> None:
        """Record what was decided."""
        span = self._span
        if not span.is_recording():
            return
        found: dict[str, Any] = {
            "route": decision.route.value,
            "reason": str(decision.reason),
            "mode": decision.mode.value,
            "scenario": None if decision.scenario is None else decision.scenario.value,
            "relevance": decision.relevance,
            "confidence": decision.confidence,
            "conflict": decision.conflict,
            "passages.given": None if request is None else request.given,
            "passages.kept": len(decision.kept),
            "failed_signals": decision.failed_signals or None,
        }
        known = {f"knowgate.{name}": one for name, one in found.items() if one is not None}
        span.set_attributes(known)

    def fail(self, error: BaseException) -> None:
        """Record that there is no decision."""
        _mark_failed(self._span, error)


def _record(span: Span, signal: Signal[Any], value: object) -> None:
    """Record a value or a failure of a signal, as an evaluation in the terms of OpenTelemetry."""
    if not span.is_recording():
        return
    span.set_attribute("gen_ai.evaluation.name", signal.name)
    if isinstance(value, KnowgateError):
        _mark_failed(span, value)
        return
    if isinstance(value, Confidence):
        span.set_attribute("knowgate.samples.drawn", value.samples_drawn)
        span.set_attribute("knowgate.samples.saved", value.samples_saved)
    try:
        level = level_of(signal, value)
    except Exception:  # noqa: BLE001 - of a user's veto, which fails again where it decides
        return
    if isinstance(level, bool):
        span.set_attribute("gen_ai.evaluation.score.label", str(level).lower())
    span.set_attribute("gen_ai.evaluation.score.value", float(level))


def _mark_failed(span: Span, error: BaseException) -> None:
    # The message may quote a user.
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", type(error).__name__)
    if isinstance(error, KnowgateError):
        span.set_attribute("knowgate.error.kind", error_kind(error))


# -- the application's processors of spans, whose errors cost no decision -------------------------


def _start(name: str, **options: Any) -> Span:
    """Begin a span; one that records nothing where that fails."""
    found: Span = trace.INVALID_SPAN
    with _failing_quietly():
        found = _tracer_of(trace.get_tracer_provider()).start_span(name, **options)
    return found


def _end(span: Span) -> None:
    with _failing_quietly():
        span.end()


@contextmanager
def _failing_quietly() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - of any processor
        _tell_failed(type(error).__name__)


def _current(span: Span) -> AbstractContextManager[Span]:
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


@contextmanager
def _current_span(name: str, **options: Any) -> Iterator[Span]:
    """A span that is the current one inside."""
    span = _start(name, **options)
    try:
        with _current(span):
            yield span
    except BaseException as error:
        _mark_failed(span, error)
        raise
    finally:
        _end(span)


@cache
def _tell_failed(kind: str) -> None:
    """Log each kind of error once; its message may quote a user."""
    _logger.warning("a span could not be begun or ended: %s", kind)


@lru_cache(maxsize=1)
def _tracer_of(provider: trace.TracerProvider) -> trace.Tracer:
    return provider.get_tracer("knowgate", __version__)
