"""One question takes a short way through the guard."""

from __future__ import annotations

from tools.trace_decision import trace_decision


def test_a_decision_by_relevance_alone_passes_few_files() -> None:
    trace = trace_decision()
    assert len(trace.files) <= 6, trace.files
    assert trace.switches <= 12
