"""The guard in a real agent loop with a scripted model that calls tools."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from knowgate.adapters.langchain import ChatModelLM
from knowgate.guard import Confidence, Guard, Policy, Route
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.agents import (
    agent,
    asking,
    call,
    search,
    searching,
    streamed,
    tool_messages,
)
from tests.adapters.langchain.fakes import Setting, TalkingModel, run
from tests.support.fakes import FakeEstimator

BOTH = pytest.mark.parametrize("asynchronous", [False, True])
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
KEPT = "A grounded passage, kept secret-123.\n\nAnother passage."


def known(**options: Any) -> Setting:
    return Setting(questions=("a known one", "direct and known"), **options)


CASES = {
    "a grounded one": ("follow_context", f"from context: {KEPT}"),
    "a known one": ("answer", "from memory: a known one"),
    "an unknown": ("abstain", "Sorry."),
    "nothing": ("abstain", "Sorry."),
    "direct and known": ("answer", "from memory: direct and known"),
    "direct": ("abstain", "Sorry."),
}


@BOTH
@pytest.mark.parametrize("question", CASES)
async def test_an_agent_follows_the_context_answers_or_abstains(
    question: str, asynchronous: bool
) -> None:
    route, answer = CASES[question]
    setting = known()
    made, _ = agent(setting)

    state = await run(made, asking(question), asynchronous)

    assert state["messages"][-1].text == answer
    assert state["guard_decision"]["route"] == route
    assert state["guard_decision"]["question_id"] == state["messages"][0].id
    assert setting.decisions() == 1


@BOTH
@pytest.mark.parametrize("question", CASES)
async def test_the_user_sees_nothing_but_the_final_answer(
    question: str, asynchronous: bool
) -> None:
    made, _ = agent(known())

    pieces = await streamed(made, asking(question), asynchronous)

    assert "".join(pieces) == CASES[question][1]
    if question == "a grounded one":
        assert len(pieces) > 3


@BOTH
async def test_an_answer_from_memory_sees_neither_search_nor_passages(asynchronous: bool) -> None:
    names: list[list[str]] = []

    def speak(messages: list[BaseMessage], tools: list[str]) -> AIMessage:
        names.append(tools)
        return searching(messages, tools)

    made, model = agent(known(), speak=speak)

    state = await run(made, asking("a known one"), asynchronous)

    assert [one.type for one in model.seen[-1]] == ["human"]
    assert names == [["search"], []]
    assert [(one.text, one.artifact) for one in tool_messages(state)] == [
        ("No passage bears on the question.", [])
    ]


@BOTH
async def test_one_decision_holds_for_all_steps_of_a_question(asynchronous: bool) -> None:
    """After the decision the model asks for another tool and for another search."""
    searched, added = [], []

    @tool
    def search(query: str) -> str:
        """Search the pages."""
        searched.append(query)
        return "A grounded passage."

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        added.append(a + b)
        return a + b

    steps = iter(
        [
            AIMessage("", tool_calls=[call("search", 1, query="q")]),
            AIMessage("", tool_calls=[call("add", 2, a=1, b=2), call("search", 3, query="r")]),
            AIMessage("done"),
        ]
    )
    setting = Setting()
    made, _ = agent(setting, speak=lambda *_: next(steps), tools=[search, add])

    state = await run(made, asking("a question"), asynchronous)

    assert state["messages"][-1].text == "done"
    assert (searched, added) == (["q"], [3])
    assert [one.text for one in tool_messages(state)] == [
        "A grounded passage.", "3", "The search is over: answer from the passages that were found."
    ]  # fmt: skip
    assert setting.decisions() == 1


@BOTH
async def test_from_memory_other_tools_can_still_be_used(asynchronous: bool) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    steps = iter(
        [
            AIMessage(
                [
                    {"type": "text", "text": "Both."},
                    {"type": "tool_use", "id": "search-1", "name": "search", "input": {}},
                    {"type": "tool_use", "id": "add-1", "name": "add", "input": {}},
                ],
                tool_calls=[call("search", query="a known one"), call("add", a=1, b=2)],
            ),
            AIMessage("", tool_calls=[call("add", 2, a=3, b=4)]),
            AIMessage("done"),
        ]
    )
    setting = known()
    made, model = agent(setting, speak=lambda *_: next(steps), tools=[search, add])

    state = await run(made, asking("a known one"), asynchronous)

    assert state["messages"][-1].text == "done"
    for seen in model.seen[1:]:
        assert "search-1" not in str(seen)
        assert "Off topic" not in str(seen)
    assert [one.text for one in model.seen[-1] if isinstance(one, ToolMessage)] == ["3", "7"]
    assert setting.decisions() == 1


@BOTH
async def test_each_question_of_a_thread_is_decided_anew(asynchronous: bool) -> None:
    setting = known()
    made, model = agent(setting, checkpointer=InMemorySaver())
    said = []

    for question in ("an unknown", "a grounded one", "a known one"):
        state = await run(made, asking(question), asynchronous, THREAD)
        said.append((state["guard_decision"]["route"], state["messages"][-1].text))

    assert [route for route, _ in said] == ["abstain", "follow_context", "answer"]
    assert said[0][1] == "Sorry."
    assert said[2][1] == "from memory: a known one"
    # What was rejected for the first question is not shown with the second one.
    assert "Off topic" not in str(model.seen)
    assert not any(isinstance(one, ToolMessage) for one in model.seen[-1])
    assert setting.decisions() == 3


@BOTH
@pytest.mark.parametrize(
    ("question", "stops"),
    [
        ("a grounded one", {"interrupt_after": ["tools"]}),
        ("a known one", {"interrupt_after": ["tools"]}),
        ("an unknown", {"interrupt_before": ["model"]}),
        ("direct and known", {"interrupt_before": ["model"]}),
    ],
)
async def test_a_run_that_is_stopped_between_any_two_steps_ends_as_others_do(
    question: str, stops: dict[str, list[str]], asynchronous: bool
) -> None:
    setting = known()
    made, _ = agent(setting, checkpointer=InMemorySaver())

    given: Any = asking(question)
    for _ in range(4):
        if asynchronous:
            await made.ainvoke(given, THREAD, **stops)
        else:
            made.invoke(given, THREAD, **stops)
        given = None
        if not made.get_state(THREAD).next:
            break

    state = made.get_state(THREAD).values
    route, answer = CASES[question]
    assert (state["guard_decision"]["route"], state["messages"][-1].text) == (route, answer)
    assert setting.decisions() == 1


class AskingEstimator(FakeEstimator):
    """Asks a model of LangChain by itself, which knows nothing of streams."""

    def __init__(self, model: TalkingModel) -> None:
        super().__init__({"an odd one": 0.95})
        self._model = model

    def estimate(self, question: str) -> Confidence:
        self._model.invoke("a probe")
        return super().estimate(question)

    async def aestimate(self, question: str) -> Confidence:
        await self._model.ainvoke("a probe")
        return await super().aestimate(question)


@BOTH
@pytest.mark.parametrize("kind", ["sampled", "own"])
async def test_probes_of_the_closed_book_answer_are_not_streamed(
    kind: str, asynchronous: bool
) -> None:
    probed = TalkingModel(speak=lambda prompt: "a probed secret")
    scorer = FakeScorer(default=0.1)
    estimator: Any = AskingEstimator(probed)
    if kind == "sampled":
        estimator = SampledConsistency(ChatModelLM(probed))
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.5,
        confidence_threshold=0.7,
        allowed_routes=tuple(Route),
    )
    guard = Guard(policy, scorer=scorer, estimator=estimator, metrics=False)
    made, _ = agent(guard)

    pieces = await streamed(made, asking("an odd one"), asynchronous)

    assert probed.record.prompts
    assert "".join(pieces) == "from memory: an odd one"


async def test_questions_asked_at_once_are_not_mixed_up() -> None:
    setting = known()
    made, _ = agent(setting)
    questions = [*CASES] * 4

    states = await asyncio.gather(*(made.ainvoke(asking(question)) for question in questions))

    assert [(state["guard_decision"]["route"], state["messages"][-1].text) for state in states] == [
        CASES[question] for question in questions
    ]
    assert setting.decisions() == len(questions)


@BOTH
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("an unknown", "from context: as the tool writes it: Off topic."),
        ("direct", "from memory: direct"),
    ],
)
async def test_in_shadow_mode_the_agent_is_as_without_a_guard(
    question: str, answer: str, asynchronous: bool
) -> None:
    decided = Event()
    setting = Setting(mode="shadow", observers=[lambda _: decided.set()])
    made, _ = agent(setting)

    pieces = await streamed(made, asking(question), asynchronous)
    assert decided.wait(30)
    state = await run(made, asking(question), asynchronous)

    assert "".join(pieces) == state["messages"][-1].text == answer
    assert len(pieces) > 1
    assert state["guard_decision"] == {"question_id": state["messages"][0].id, "mode": "shadow"}
    assert all("as the tool writes it" in one.text for one in tool_messages(state))
