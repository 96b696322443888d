"""One span per decision, a child for each signal, and no word of a user."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from knowgate.guard import Decision, Guard, Route
from knowgate.guard.errors import SignalError
from knowgate.guard.testing import FakeScorer
from tests.support.deadlines import with_enough_time
from tests.support.fakes import FakeEstimator
from tests.support.guards import guard_with, policy_with

MARKER = "Xylophone-4711"
QUESTION, PASSAGE = f"Where is {MARKER}?", f"{MARKER} is here."


class Traced:
    """A provider that keeps its spans."""

    def __init__(self, **options: Any) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The spans of knowgate that ended, those of one name if given."""
        found = self._kept.get_finished_spans()
        return [one for one in found if one.name == f"knowgate.{name}" or not name]

    def tree(self) -> set[tuple[str, str | None]]:
        """Each span's name with that of its parent."""
        names = {one.context.span_id: one.name for one in self.spans()}
        return {
            (one.name, None if one.parent is None else names[one.parent.span_id])
            for one in self.spans()
        }


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    """A provider of spans that is set for one test; the real one can only be set once."""
    found = Traced()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found.provider)
    yield found
    found.provider.shutdown()


class Nested(FakeScorer):
    """Traces its own work, as an instrumented client does; scores on a worker thread."""

    def score_pairs(self, pairs: Any) -> Any:
        with trace.get_tracer_provider().get_tracer("own").start_as_current_span("knowgate.own"):
            return super().score_pairs(pairs)


class NestedEstimator(FakeEstimator):
    """Likewise."""

    def estimate(self, question: str) -> Any:
        with trace.get_tracer_provider().get_tracer("own").start_as_current_span("knowgate.asked"):
            return super().estimate(question)

    async def aestimate(self, question: str) -> Any:
        with trace.get_tracer_provider().get_tracer("own").start_as_current_span("knowgate.asked"):
            await asyncio.sleep(0)
            return FakeEstimator.estimate(self, question)


def nested_guard(**changes: Any) -> Guard:
    parts: dict[str, Any] = {
        "scorer": Nested({"good": 0.9}),
        "estimator": NestedEstimator(default=0.8),
    }
    return guard_with(**(parts | changes))


SINGLE = {
    ("knowgate.decide", None),
    ("knowgate.relevance", "knowgate.decide"),
    ("knowgate.own", "knowgate.relevance"),
    ("knowgate.confidence", "knowgate.decide"),
    ("knowgate.asked", "knowgate.confidence"),
}
BATCH = {
    ("knowgate.decide_batch", None),
    ("knowgate.decide", "knowgate.decide_batch"),
    ("knowgate.relevance", "knowgate.decide"),
    ("knowgate.own", "knowgate.decide_batch"),  # of several questions at once
    ("knowgate.confidence", "knowgate.decide"),
    ("knowgate.asked", "knowgate.confidence"),
}


@pytest.mark.parametrize("deadline", [None, 30.0])
async def test_every_form_gives_the_same_spans(traced: Traced, deadline: float | None) -> None:
    guard = nested_guard(deadlines=dict.fromkeys(("relevance", "confidence"), deadline))
    for decided in (
        lambda: guard.decide(QUESTION, [PASSAGE]),
        lambda: guard.adecide(QUESTION, [PASSAGE]),
        lambda: guard.decide_batch([QUESTION] * 3, [[PASSAGE]] * 3),
        lambda: guard.adecide_batch([QUESTION] * 3, [[PASSAGE]] * 3),
    ):
        traced._kept.clear()
        found: Any = decided()
        if asyncio.iscoroutine(found):
            found = await found
        many = isinstance(found, list)
        # The first question of a batch with a deadline is measured by itself.
        by_itself = set() if deadline is None else {("knowgate.own", "knowgate.relevance")}
        assert traced.tree() == (BATCH | by_itself if many else SINGLE)
        assert len(traced.spans("confidence")) == len(traced.spans("decide")) == (3 if many else 1)
        assert not trace.get_current_span().get_span_context().is_valid
        if not many:
            assert len({one.context.trace_id for one in traced.spans()}) == 1


def test_a_span_has_what_was_decided_and_measured(traced: Traced) -> None:
    guard = nested_guard(name="faq")
    decision = guard.decide(QUESTION, [PASSAGE])
    [decided], [measured] = traced.spans("decide"), traced.spans("confidence")

    assert dict(decided.attributes or {}) == {
        "knowgate.guard": "faq",
        "knowgate.policy.fingerprint": policy_with().sha256[:12],
        "knowgate.policy.calibrated": "false",
        "knowgate.route": "answer",
        "knowgate.reason": "confident_memory",
        "knowgate.mode": "enforce",
        "knowgate.scenario": "parametric_only",
        "knowgate.relevance": decision.relevance,
        "knowgate.confidence": 0.8,
        "knowgate.passages.given": 1,
        "knowgate.passages.kept": 0,
    }
    attributes = dict(measured.attributes or {})
    assert attributes.pop("knowgate.samples.drawn") is not None
    assert attributes.pop("knowgate.samples.saved") is not None
    assert attributes == {
        "gen_ai.evaluation.name": "confidence",
        "gen_ai.evaluation.score.value": 0.8,
    }
    assert measured.start_time is not None
    assert measured.end_time is not None
    assert decided.start_time <= measured.start_time <= measured.end_time <= decided.end_time  # type: ignore[operator]


def everything(traced: Traced) -> str:
    return "".join(one.to_json() for one in traced.spans())


@pytest.mark.parametrize("on_error", ["abstain", "raise"])
def test_a_failure_is_told_by_its_type_without_a_word_of_the_user(
    traced: Traced, on_error: str
) -> None:
    class Quoting(FakeScorer):
        def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
            raise ValueError(pairs[0][0])

    guard = guard_with(scorer=Quoting(), on_error=on_error)
    if on_error == "raise":
        with pytest.raises(SignalError):
            guard.decide(QUESTION, [PASSAGE])
    else:
        guard.decide(QUESTION, [PASSAGE])
    guard.decide_each([QUESTION] * 2, [[PASSAGE]] * 2)

    for failed in traced.spans("relevance"):
        assert failed.status.status_code is trace.StatusCode.ERROR
        assert (failed.attributes or {})["error.type"] == "SignalError"
        assert (failed.attributes or {})["knowgate.error.kind"] == "other"
    assert len(traced.spans("relevance")) == len(traced.spans("decide")) == 3
    raised = {one.status.status_code for one in traced.spans("decide")}
    assert raised == {trace.StatusCode.ERROR if on_error == "raise" else trace.StatusCode.UNSET}
    assert MARKER not in everything(traced)
    assert not any(one.events for one in traced.spans())


def test_no_text_is_traced(traced: Traced) -> None:
    estimator = FakeEstimator(default=0.8, answers={QUESTION: MARKER})
    guard_with(estimator=estimator).decide(QUESTION, [PASSAGE])
    assert MARKER not in everything(traced)


def test_a_hanging_signal_leaves_no_span_open(traced: Traced) -> None:
    import time

    class Hanging(FakeScorer):
        def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
            time.sleep(0.05)
            return super().score_pairs(pairs)

    def check(seconds: float) -> None:
        guard = guard_with(scorer=Hanging(), deadlines={"relevance": 0.001})
        assert guard.decide(QUESTION, [PASSAGE]).route is Route.ABSTAIN

    with_enough_time(check)
    [measured] = traced.spans("relevance")[-1:]
    assert (measured.attributes or {})["knowgate.error.kind"] == "timeout"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_cancelled_decision_ends_its_spans_and_leaves_the_context_as_it_was(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    class Waiting(FakeEstimator):
        async def aestimate(self, question: str) -> Any:
            begun.set()
            await asyncio.sleep(60)

    guard = guard_with(estimator=Waiting())

    left: list[bool] = []

    async def asked() -> None:
        try:
            await guard.adecide(QUESTION, [PASSAGE])
        finally:
            left.append(trace.get_current_span().get_span_context().is_valid)

    task = asyncio.create_task(asked())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert left == [False]
    assert caplog.records == []
    [decided] = traced.spans("decide")
    assert (decided.attributes or {})["error.type"] == "CancelledError"
    assert len(traced.spans("confidence")) == 1


def test_observers_see_the_span_of_the_decision(traced: Traced) -> None:
    seen: list[int] = []

    def observer(decision: Decision) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    guard = nested_guard(observers=[observer])
    guard.decide(QUESTION, ["good"])
    [decided] = traced.spans("decide")
    assert seen == [decided.context.trace_id]

    guard.decide_batch([QUESTION] * 2, [["good"]] * 2)
    assert len(set(seen[1:])) == 1


def test_without_a_provider_nothing_is_traced_nor_imported() -> None:
    program = (
        "import sys\n"
        "from tests.support.guards import guard_with\n"
        "guard = guard_with()\n"
        "guard.decide('q', ['p'])\n"
        "assert 'opentelemetry' not in sys.modules\n"
        "import opentelemetry.trace\n"
        "guard.decide('q', ['p'])\n"
        "assert 'knowgate.guard._tracing' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
