"""The guard as a node of a real graph, with conditional edges."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from knowgate.adapters.langchain import guard_node
from knowgate.guard.contracts import View
from tests.adapters.langchain.fakes import Setting, retrieve


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    route: str
    reply: str | None
    decision: dict[str, Any]
    answer: str


def graph(setting: Setting, **compiled: Any) -> Any:
    def search(state: State) -> State:
        return {"documents": retrieve(state["question"])}

    def follow(state: State) -> State:
        return {"answer": " | ".join(one.page_content for one in state["documents"])}

    def remember(state: State) -> State:
        return {"answer": f"from memory, {len(state['documents'])} documents"}

    def abstain(state: State) -> State:
        return {"answer": state["reply"] or ""}

    built = StateGraph(State)
    built.add_node("search", search)
    built.add_node("guard", guard_node(setting.guard, replies="Sorry."))
    built.add_node("follow_context", follow)
    built.add_node("answer", remember)
    built.add_node("abstain", abstain)
    built.add_edge(START, "search")
    built.add_edge("search", "guard")
    built.add_conditional_edges(
        "guard", lambda state: state["route"], ["follow_context", "answer", "abstain"]
    )
    for end in ("follow_context", "answer", "abstain"):
        built.add_edge(end, END)
    return built.compile(**compiled)


CASES = {
    "a grounded one": ("follow_context", "A grounded passage, kept secret-123. | Another passage."),
    "a known one": ("answer", "from memory, 0 documents"),
    "an unknown": ("abstain", "Sorry."),
    "nothing": ("abstain", "Sorry."),
}


@pytest.mark.parametrize("question", CASES)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_conditional_edges_follow_the_route(question: str, asynchronous: bool) -> None:
    route, answer = CASES[question]
    setting = Setting(questions=("a known one",))
    app = graph(setting)

    given = {"question": question}
    state = await app.ainvoke(given) if asynchronous else app.invoke(given)

    assert (state["route"], state["answer"]) == (route, answer)
    assert state["decision"]["route"] == route
    if route != "follow_context":
        assert state["documents"] == []


def test_the_decision_survives_a_checkpointer_and_an_interrupt() -> None:
    setting = Setting()
    app = graph(setting, checkpointer=InMemorySaver(), interrupt_after=["guard"])
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}

    app.invoke({"question": "a grounded one"}, config)
    held = app.get_state(config).values
    state = app.invoke(None, config)

    assert held["decision"]["route"] == "follow_context"
    assert held["documents"][0].metadata["relevance_score"] == 0.9
    assert state["answer"].startswith("A grounded passage")
    assert setting.counted("sufficient_context") == 1


def test_in_shadow_mode_the_context_is_followed_whatever_the_decision_says() -> None:
    state = graph(Setting(mode="shadow")).invoke({"question": "an unknown"})

    assert (state["route"], state["answer"]) == ("follow_context", "Off topic.")
    assert state["decision"]["route"] == "abstain"


def test_a_reply_that_shows_all_views_stands() -> None:
    views = {"a grounded one": (View("nine", (0,)), View("ten", (1,)))}

    state = graph(Setting(views=views)).invoke({"question": "a grounded one"})

    assert (state["route"], state["decision"]["route"]) == ("abstain", "follow_context")
    assert "According to passage 3: ten" in state["answer"]
