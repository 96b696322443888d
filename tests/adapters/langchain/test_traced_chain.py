"""The spans of a guard are children of the span that the caller of a chain is in."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with


async def test_every_form_of_a_chain_is_under_the_callers_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    chain = GuardedRAG(
        guard=guard_with(scorer=FakeScorer(default=0.9)),
        retriever=RunnableLambda(lambda question: [Document("It opens at nine.")]),
        with_context=RunnableLambda(lambda given: "At nine."),
        closed_book=RunnableLambda(lambda given: "At ten."),
    )
    with provider.get_tracer("caller").start_as_current_span("caller") as caller:
        chain.invoke("When?")
        list(chain.stream("When?"))
        chain.batch(["When?"] * 2)
        await chain.ainvoke("When?")
        assert [part async for part in chain.astream("When?")]
        await chain.abatch(["When?"] * 2)

    spans = {one.context.span_id: one for one in kept.get_finished_spans()}
    decided = [one for one in spans.values() if one.name == "knowgate.decide"]
    assert len(decided) == 8
    for one in decided:
        assert one.parent is not None
        above = spans[one.parent.span_id]
        if above.name == "knowgate.decide_batch":
            assert above.parent is not None
            above = spans[above.parent.span_id]
        assert above.context.span_id == caller.get_span_context().span_id
