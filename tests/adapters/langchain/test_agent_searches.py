"""What the tools of an agent retrieve, how it is read, and what becomes of failures."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from knowgate.guard import InputLimits
from knowgate.guard.contracts import View
from tests.adapters.langchain.agents import (
    agent,
    asking,
    call,
    streamed,
    tool_messages,
)
from tests.adapters.langchain.fakes import Setting, run

BOTH = pytest.mark.parametrize("asynchronous", [False, True])
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
KEPT = "A grounded passage, kept secret-123.\n\nAnother passage."


@BOTH
async def test_only_passages_that_bear_on_the_question_are_shown_and_stay(
    asynchronous: bool,
) -> None:
    made, model = agent(Setting(kept_margin=0.1))

    state = await run(made, asking("a grounded one"), asynchronous)

    [message] = tool_messages(state)
    assert message.text == "A grounded passage, kept secret-123."
    assert [one.metadata["relevance_score"] for one in message.artifact] == [0.9]
    assert "as the tool writes it" not in str(model.seen)
    assert "Another passage" not in str(model.seen)


@BOTH
async def test_parallel_searches_are_decided_together_and_once(asynchronous: bool) -> None:
    setting = Setting()
    made, _ = agent(setting)

    state = await run(made, asking("a grounded one twice"), asynchronous)

    assert state["messages"][-1].text == f"from context: {KEPT} + {KEPT}"
    assert setting.decisions() == 1
    assert len(state["guard_decision"]["kept"]) == 4


@BOTH
async def test_an_agent_may_search_several_times_before_the_decision(asynchronous: bool) -> None:
    def speak(messages: list[BaseMessage], tools: list[str]) -> AIMessage:
        found = [one for one in messages if isinstance(one, ToolMessage)]
        if not found:
            return AIMessage("", tool_calls=[call("search", 1, query="off")])
        if len(found) == 1 and "Off topic" in found[0].text:
            return AIMessage("", tool_calls=[call("search", 2, query="grounded")])
        return AIMessage("hidden or shown " + str(len(found)))

    setting = Setting(kept_margin=0.1)
    made, model = agent(setting, speak=speak, searches=3)
    given = asking("a question")

    pieces = await streamed(made, given, asynchronous)

    assert "".join(pieces) == "hidden or shown 2"
    assert len(model.said) == 4
    assert "Off topic" in str(model.seen[1])
    assert "Off topic" not in str(model.seen[3])
    assert setting.decisions() == 1


@BOTH
async def test_a_search_can_interrupt(asynchronous: bool) -> None:
    @tool
    def search(query: str) -> str:
        """Search where the user says."""
        return "A grounded passage of " + str(interrupt("where?"))

    setting = Setting()
    made, _ = agent(setting, tools=[search], checkpointer=InMemorySaver())

    stopped = await run(made, asking("a question"), asynchronous, THREAD)
    state = await run(made, Command(resume="Paris"), asynchronous, THREAD)

    assert "__interrupt__" in stopped
    assert state["messages"][-1].text == "from context: A grounded passage of Paris"
    assert setting.decisions() == 1


class Unreadable(Document):
    """A document whose text cannot be computed."""

    def __getattribute__(self, name: str) -> Any:
        if name == "page_content":
            raise OSError("no route")
        return super().__getattribute__(name)


@BOTH
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (OSError("no route for this question"), "retrieval_failed"),
        ("x" * 100, "input_too_large"),
        (("", [Unreadable(page_content="text")]), "invalid_passages"),
    ],
)
async def test_a_search_that_fails_leads_to_an_abstention(
    found: Any, reason: str, asynchronous: bool
) -> None:
    @tool(response_format="content" if isinstance(found, str) else "content_and_artifact")
    def search(query: str) -> Any:
        """Search the pages."""
        if isinstance(found, Exception):
            raise found
        return found

    setting = Setting(limits=InputLimits(passage_bytes=50))
    made, model = agent(setting, tools=[search])

    state = await run(made, asking("a question"), asynchronous)

    assert state["messages"][-1].text == "Sorry."
    assert state["guard_decision"]["reason"] == reason
    assert setting.counted(reason) == setting.decisions() == 1
    assert len(model.said) == 1


@BOTH
@pytest.mark.parametrize("kind", ["content", "content_and_artifact"])
async def test_a_retriever_tool_of_langchain_is_judged(
    kind: Literal["content", "content_and_artifact"], asynchronous: bool
) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(["A grounded passage.", "Off topic."])
    retriever = store.as_retriever()
    made, _ = agent(
        Setting(kept_margin=0.1),
        tools=[create_retriever_tool(retriever, "search", "Search.", response_format=kind)],
    )

    state = await run(made, asking("a question"), asynchronous)

    said = state["messages"][-1].text
    assert "A grounded passage." in said
    assert ("Off topic." in said) == (kind == "content")


@BOTH
async def test_a_conflict_is_shown_with_all_views(asynchronous: bool) -> None:
    views = {"a grounded one": (View("nine", (0,)), View("ten", (1,)))}
    made, model = agent(Setting(views=views))

    state = await run(made, asking("a grounded one"), asynchronous)

    assert "According to passage 3: ten" in state["messages"][-1].text
    assert state["guard_decision"]["reason"] == "conflict_shows_both"
    assert len(model.said) == 1
