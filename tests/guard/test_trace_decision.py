"""One question takes a short way through the guard."""

from __future__ import annotations

from tools.trace_decision import trace_decision


def test_a_decision_by_relevance_alone_passes_at_most_nine_files() -> None:
    trace = trace_decision()

    assert len(trace.files) <= 9, trace.files
    assert trace.files[0] == "_guard.py"
    assert "_metrics.py" in trace.files
    assert trace.switches <= 19
