"""The guard as a step of a chain and a node of a graph, copied and bound."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableConfig,
    RunnableLambda,
    RunnablePassthrough,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from knowgate.adapters.langchain import GuardedRAG, GuardedRetriever, GuardRunnable, guard_node
from knowgate.guard import Guard, InputError, Policy, Reason, Route
from knowgate.guard.contracts import View
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.fakes import DOCUMENTS, RunsHandler, Setting, batched, retrieve, run


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_guard_is_assigned_and_branched_on_in_a_chain(asynchronous: bool) -> None:
    guard = Setting().guard
    chain = RunnablePassthrough.assign(guard=GuardRunnable(guard)) | RunnableBranch(
        (lambda s: s["guard"].route is Route.FOLLOW_CONTEXT, lambda s: "from the context"),
        lambda s: "sorry",
    )
    followed: dict[str, Any] = {"question": "q", "documents": list(DOCUMENTS)}
    abstained: dict[str, Any] = {"question": "q", "context": "Off topic."}

    answers = [await run(chain, given, asynchronous) for given in (followed, abstained)]

    assert GuardRunnable(guard).invoke(followed, stop=["what other steps take"]).kept == (0, 2)
    assert answers == ["from the context", "sorry"]


def test_documents_come_before_context() -> None:
    runnable = GuardRunnable(Setting().guard)

    decision = runnable.invoke(
        {"question": "q", "documents": list(DOCUMENTS), "context": "Off topic."}
    )

    assert decision.kept == (0, 2)


def test_none_documents_mean_nothing_retrieved() -> None:
    decision = GuardRunnable(Setting().guard).invoke({"question": "q", "documents": None})

    assert decision.reason is Reason.NOTHING_RETRIEVED


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_scores_together_and_keeps_a_bad_input_to_itself(asynchronous: bool) -> None:
    setting = Setting()
    runnable = GuardRunnable(setting.guard)
    inputs: list[Any] = [
        {"question": "q", "documents": list(DOCUMENTS)},
        {"question": "q"},
        {"question": "q", "context": "Off topic."},
        {"documents": []},
    ]

    results = await batched(runnable, inputs, asynchronous)

    assert [getattr(result, "route", None) for result in results] == [
        Route.FOLLOW_CONTEXT, None, Route.ABSTAIN, None,
    ]  # fmt: skip
    assert isinstance(results[1], InputError)
    assert isinstance(results[3], InputError)
    assert setting.scorer.calls == 2  # the first question tells how long one takes


def test_the_guard_is_a_run_of_its_own_in_traces() -> None:
    handler = RunsHandler()
    chain: Runnable[Any, Any] = RunnableLambda(
        lambda q: {"question": q, "documents": []}
    ) | GuardRunnable(Setting().guard)

    chain.invoke("q", {"callbacks": [handler]})

    assert "guard" in handler.names()


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
    state = await run(app, given, asynchronous)

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


PAGES = ["We open at nine.", "We close at six."]
QUESTION = "When do you open?"


class _Pages(BaseRetriever):
    """The first pages."""

    k: int = 1

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(text) for text in PAGES[: self.k]]


def guard_of() -> Guard:
    scorer = FakeScorer({"nine": 0.9, "six": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    return Guard(policy, scorer=scorer, metrics=False)


def chain_of(retriever: Any) -> GuardedRAG:
    quote = RunnableLambda(lambda given: given["context"])
    return GuardedRAG(guard=guard_of(), retriever=retriever, with_context=quote)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_decide_as_what_they_were_copied_from(copied: Callable[[Any], Any]) -> None:
    chain = chain_of(_Pages())
    filtered = GuardedRetriever(guard=guard_of(), retriever=_Pages())

    assert copied(chain).invoke(QUESTION).answer == PAGES[0]
    assert copied(chain.with_config(tags=["one"])).invoke(QUESTION).answer == PAGES[0]
    assert [one.page_content for one in copied(filtered).invoke(QUESTION)] == PAGES[:1]
    guard = guard_of()
    assert copied(guard) is guard


def test_a_guard_that_is_pickled_says_what_to_do() -> None:
    for one in (guard_of(), chain_of(_Pages())):
        with pytest.raises(InputError, match=r"cannot be pickled — .* Guard\.load\(path\)"):
            pickle.dumps(one)
