"""Replies that are checked against their documents, in every way of calling a chain."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from prometheus_client import CollectorRegistry

from knowgate import GuardedRAG
from knowgate.adapters.langchain import AbstainedError, RagOptions
from knowgate.guard import DecisionLog, Guard, GuardMetrics, GuardOptions, Policy
from knowgate.guard.signals.support import Support, SupportCheck
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.policies import shadow_report
from tests.adapters.langchain.agents import agent, asking, call, streamed
from tests.adapters.langchain.fakes import run

PASSAGE = "Claims are paid within five days. The office is closed on Sunday."
GOOD = "Claims are paid within 5 days."
BAD = "The office is open on Monday until 8 pm."
REFUSAL = "I cannot answer this question reliably"


def chain(reply: str, *, rag: RagOptions | None = None, **options: Any) -> GuardedRAG:
    """A guarded chain whose model says `reply`, in pieces of seven characters."""

    def pieces(given: Any) -> Any:
        for _ in given:
            for start in range(0, len(reply), 7):
                yield reply[start : start + 7]

    async def apieces(given: Any) -> Any:
        async for _ in given:
            for start in range(0, len(reply), 7):
                yield reply[start : start + 7]

    scorer = FakeScorer(default=0.9)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    registry = CollectorRegistry()
    guard = Guard(
        policy, scorer=scorer, metrics=GuardMetrics.on(registry), options=GuardOptions(**options)
    )
    made = GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(lambda _: [Document("Nothing of it."), Document(PASSAGE)]),
        with_context=RunnableGenerator(pieces, apieces),
        options=rag,
    )
    made.registry = registry  # type: ignore[attr-defined]
    return made


def ways(made: GuardedRAG) -> dict[str, Any]:
    """The answer to one question in every way of asking."""
    question = "When are claims paid?"

    async def astreamed() -> Any:
        return [chunk async for chunk in made.astream(question)]

    return {
        "invoke": made.invoke(question),
        "ainvoke": asyncio.run(made.ainvoke(question)),
        "batch": made.batch([question, question])[1],
        "abatch": asyncio.run(made.abatch([question, question]))[0],
        "stream": reduce(add, made.stream(question)),
        "astream": reduce(add, asyncio.run(astreamed())),
    }


@pytest.mark.parametrize("action", ["flag", "abstain", "mark", "drop"])
@pytest.mark.parametrize("reply", [GOOD, f"{GOOD} {BAD}", BAD, f"Hello! {GOOD}\n- {BAD}\n{GOOD}"])
def test_all_ways_of_asking_agree(action: str, reply: str) -> None:
    found = ways(chain(reply, on_unsupported=action))
    verdicts = {way: one.supported for way, one in found.items()}
    assert set(verdicts.values()) == {BAD not in reply}
    if action == "abstain" and BAD in reply:
        # A stream has shown what stood before the sentence that is not borne out.
        assert all(one.answer.endswith(found["invoke"].answer) for one in found.values())
        assert found["invoke"].answer.startswith(REFUSAL)
        assert not any(BAD in one.answer for one in found.values())
        return
    texts = {" ".join(one.answer.split()) for one in found.values()}
    assert len(texts) == 1
    values = {one.support.value for one in found.values()}
    assert len(values) == 1
    cited = {
        tuple((one.sentence, one.quote, one.document.page_content) for one in answer.citations)
        for answer in found.values()
    }
    assert len(cited) == 1


def test_an_answer_cites_the_text_that_carries_it() -> None:
    answer = chain(f"{GOOD} {BAD}", on_unsupported="mark").invoke("When are claims paid?")
    assert answer.answer == f"{GOOD} {BAD} [not in the sources]"
    first = answer.citations[0]
    assert (first.sentence, first.quote) == (GOOD, "Claims are paid within five days.")
    assert first.document.page_content[first.start : first.end] == first.quote  # type: ignore[attr-defined]
    assert answer.output == answer.answer
    again = type(answer).model_validate(answer.model_dump())
    assert again.citations == answer.citations


def test_what_is_marked_keeps_a_message_a_message() -> None:
    made = chain(GOOD, on_unsupported="mark")
    message = AIMessage(
        BAD, usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    )
    made._parts[next(part for part in made._parts if part.value == "with_context")] = (
        RunnableLambda(lambda _: message)
    )
    found = made.invoke("When?")
    assert found.output.content == found.answer
    assert found.output.usage_metadata == message.usage_metadata


def test_a_chain_can_raise_on_what_is_withheld() -> None:
    made = chain(BAD, rag=RagOptions(raise_on_abstain=True), on_unsupported="abstain")
    with pytest.raises(AbstainedError, match="reply_unsupported"):
        made.invoke("When?")


def test_streams_release_a_sentence_before_the_next_is_whole() -> None:
    chunks = list(chain(f"{GOOD} {GOOD} {BAD}", on_unsupported="abstain").stream("When?"))
    texts = [chunk.answer for chunk in chunks if chunk.answer]
    assert len(texts) == 3
    assert texts[0].strip() == GOOD


class Hanging:
    """A check that does not end, or fails."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        from knowgate.guard.signals.support import SupportCheck

        self.fingerprint = SupportCheck().fingerprint

    def check(self, reply: str, passages: Any, question: str = "") -> Any:
        time.sleep(self._seconds)
        raise ValueError(reply)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
@pytest.mark.parametrize(("on_error", "delivered"), [("abstain", False), ("follow_context", True)])
def test_a_check_that_fails_ends_in_its_route(
    seconds: float, on_error: str, delivered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made = chain(
        GOOD,
        on_unsupported="mark",
        support=Hanging(seconds),
        on_error={"support": on_error},
        deadlines={"support": 0.05},
    )
    for way, found in ways(made).items():
        assert (found.answer == GOOD) is delivered, way
        assert found.support is found.supported is None
    assert GOOD not in caplog.text
    kinds = made.registry.get_sample_value(  # type: ignore[attr-defined]
        "knowgate_errors_total",
        {"guard": "default", "signal": "support", "kind": "timeout" if seconds else "value"},
    )
    assert kinds == 8


def test_replies_are_counted_once_each() -> None:
    made = chain(f"{GOOD} {BAD}", on_unsupported="mark")
    ways(made)
    registry = made.registry  # type: ignore[attr-defined]
    assert registry.get_sample_value("knowgate_support_count", {"guard": "default"}) == 8
    labels = {"guard": "default", "action": "mark"}
    assert registry.get_sample_value("knowgate_unsupported_total", labels) == 8


def test_in_shadow_mode_replies_are_only_counted() -> None:
    made = chain(BAD, on_unsupported="abstain", mode="shadow")
    assert made.invoke("When?").answer == BAD
    labels = {"guard": "default", "action": "flag"}
    registry = made.registry  # type: ignore[attr-defined]
    assert registry.get_sample_value("knowgate_unsupported_total", labels) == 1


def test_without_the_option_nothing_is_checked() -> None:
    found = chain(BAD).invoke("When?")
    assert (found.answer, found.support, found.citations) == (BAD, None, ())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("action", "shown"), [("flag", BAD), ("abstain", "Sorry.")])
async def test_the_reply_of_an_agent_is_checked(
    action: str, shown: str, asynchronous: bool
) -> None:
    def speak(messages: list[BaseMessage], names: list[str]) -> AIMessage:
        if not isinstance(messages[-1], ToolMessage):
            return AIMessage("", tool_calls=[call("search", query="a grounded one")])
        return AIMessage(BAD)

    scorer = FakeScorer({"grounded": 0.9}, default=0.1)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    options = GuardOptions(on_unsupported=action)  # type: ignore[arg-type]
    guard = Guard(policy, scorer=scorer, options=options, metrics=False)
    made, _ = agent(guard, speak=speak)
    state = await run(made, asking("a grounded one"), asynchronous)
    assert state["messages"][-1].text == shown
    assert state["guard_decision"]["supported"] is False
    assert 0 <= state["guard_decision"]["support"] < 0.5
    if action == "abstain":
        assert BAD not in "".join(await streamed(made, asking("a grounded one"), asynchronous))


@pytest.mark.parametrize("text", [False, True])
def test_checked_replies_are_logged_without_text_unless_asked(tmp_path: Path, text: bool) -> None:
    log = DecisionLog(tmp_path, text=text)
    scorer = FakeScorer(default=0.9)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    options = GuardOptions(on_unsupported="mark")
    guard = Guard(policy, scorer=scorer, options=options, metrics=False, observers=[log])
    made = chain(f"{GOOD} {BAD}").with_parts(guard=guard)
    made.invoke("When?")
    list(made.stream("When?"))
    lines = [json.loads(line) for line in next(tmp_path.glob("*.jsonl")).open()]
    replies = [line for line in lines if line.get("kind") == "reply"]
    assert len(replies) == 2
    assert [line["supported"] for line in replies] == [False, False]
    assert {line["question_id"] for line in lines} == {log.question_id("When?")}
    assert len(replies[0]["sentences"]) == 2
    assert (GOOD in json.dumps(replies)) is text
    assert shadow_report([tmp_path]).values["decisions"] == 2


class OneAtATime:
    """A check whose callers share one interpreter."""

    fingerprint = SupportCheck().fingerprint

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def check(self, *_: object) -> Support:
        with self.lock:
            time.sleep(0.15)
        return Support(1.0)


def test_a_dozen_checks_at_once_do_not_time_each_other_out() -> None:
    made = chain(GOOD, on_unsupported="flag", support=OneAtATime(), deadlines={"support": 1.0})
    answers = made.batch(["When are claims paid?"] * 12, {"max_concurrency": 12})
    assert [one.supported for one in answers] == [True] * 12
