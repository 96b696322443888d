"""Faults of the process around a guard: forks, files, clocks."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from knowgate.guard import Reason, Route
from knowgate.guard.testing import FakeScorer
from tests.guard.forked_workers import decide_with, fork_after_load
from tests.support.commands import Program
from tests.support.fakes import SlowScorer
from tests.support.guards import guard_with, policy_with

PATIENCE = 60.0


# -- other processes ------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_workers_forked_after_loading_the_default_guard_decide_as_their_parent() -> None:
    with Program(fork_after_load, 2) as program:
        assert program.wait() == 0, program.err
        lines = [line.split() for line in program.out.splitlines()]
    assert [line[1:] for line in lines] == [["ended", "0"], ["ended", "0"], ["True"]]


def test_a_spawned_process_loads_its_own_guard(tmp_path: Path) -> None:
    policy_with(confidence_threshold=None, allowed_routes=("follow_context", "abstain")).save(
        tmp_path / "policy.json"
    )
    context = multiprocessing.get_context("spawn")
    found: Any = context.Queue()
    child = context.Process(target=decide_with, args=(tmp_path / "policy.json", found))
    child.start()
    try:
        assert found.get(timeout=PATIENCE) == "follow_context"
    finally:
        child.join(PATIENCE)


# -- exporters ------------------------------------------------------------------------------------


class BrokenExporter(SpanExporter):
    """Reaches nobody."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError("the collector is down")

    def shutdown(self) -> None:
        raise ConnectionError("the collector is down")


class BrokenProcessor(SpanProcessor):
    """Raises where a span begins, or where it ends."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_start(self, span: object, parent_context: object = None) -> None:
        if self._at == "start":
            raise ConnectionError("the collector is down")

    def on_end(self, span: object) -> None:
        if self._at == "end":
            raise ConnectionError("the collector is down")


@pytest.mark.parametrize("broken", ["exporter", "start", "end"])
async def test_an_exporter_of_spans_that_fails_costs_no_decision(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    exporting = SimpleSpanProcessor(BrokenExporter())
    provider.add_span_processor(exporting if broken == "exporter" else BrokenProcessor(broken))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    guard = guard_with(scorer=FakeScorer(default=0.9))
    decisions = [
        guard.decide("q", ["p"]),
        await guard.adecide("q", ["p"]),
        *guard.decide_batch(["q"] * 2, [["p"]] * 2),
        *await guard.adecide_batch(["q"] * 2, [["p"]] * 2),
    ]
    assert {one.route for one in decisions} == {Route.FOLLOW_CONTEXT}


# -- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("years", [-1, 1])
async def test_a_clock_that_jumps_changes_no_deadline(
    years: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, jumped = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + jumped[0])

    class Jumping(FakeScorer):
        def score_pairs(self, pairs: Any) -> Any:
            jumped[0] += years * 365 * 86400
            return super().score_pairs(pairs)

    guard = guard_with(scorer=Jumping(default=0.9))
    decisions = [
        guard.decide("q", ["p"]),
        await guard.adecide("q", ["p"]),
        *guard.decide_batch(["q"] * 2, [["p"]] * 2),
        *await guard.adecide_batch(["q"] * 2, [["p"]] * 2),
    ]
    assert {one.route for one in decisions} == {Route.FOLLOW_CONTEXT}
    assert all(0 <= seconds < PATIENCE for one in decisions for seconds in one.timings.values())
    slow = guard_with(scorer=SlowScorer(0.1), deadlines={"relevance": 0.01})
    assert slow.decide("q", ["p"]).reason is Reason.RELEVANCE_FAILED
