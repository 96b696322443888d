"""invoke, ainvoke, batch, abatch, stream and astream agree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.utils import AddableDict

from knowgate.adapters.langchain import AbstainedError, GuardedAnswer, GuardedRAG
from knowgate.guard import InputError, Reason, Route, SignalError
from knowgate.guard.contracts import View
from tests.adapters.langchain.fakes import DOCUMENTS, WAYS, RunsHandler, Setting, batched, invoke

KINDS = ("grounded", "known", "who knows", "nothing", "nothing known", "broken")
QUESTIONS = (*(f"{KINDS[i % len(KINDS)]} {i}" for i in range(25)), "")


def essence(answer: GuardedAnswer) -> tuple[Any, ...]:
    decision = answer.decision.model_dump(exclude={"timings"})
    output = answer.output
    if isinstance(output, BaseMessage):
        # Ids are drawn anew, and chunks carry what is of no use once they are joined.
        output = (output.content, getattr(output, "tool_calls", None), output.response_metadata)
    return answer.answer, decision, answer.documents, answer.reply_abstained, output


VIEWS = {
    question: (View("nine", (0,)), View("ten", (1,)))
    for question in QUESTIONS
    if question.startswith("grounded") and int(question.split()[1]) % 4 == 0
}


async def test_every_way_to_call_gives_the_answers_of_invoke() -> None:
    expected = [essence(one) for one in await invoke(Setting(questions=QUESTIONS).chain, QUESTIONS)]
    for way in WAYS:
        setting = Setting(questions=QUESTIONS)

        answers = await way(setting.chain, QUESTIONS)

        assert [essence(answer) for answer in answers] == expected, way
        assert {answer.decision.route for answer in answers} == set(Route)
        assert setting.counted("retrieval_failed") == sum("broken" in q for q in QUESTIONS)


@pytest.mark.parametrize("on_conflict", ["follow_context", "show_both", "abstain"])
@pytest.mark.parametrize("mode", ["enforce", "shadow"])
async def test_every_way_treats_conflicts_and_refusals_as_invoke_does(
    mode: str, on_conflict: str
) -> None:
    questions = tuple(question for question in QUESTIONS if "broken" not in question)
    given: dict[str, Any] = {
        "questions": questions,
        "mode": mode,
        "views": VIEWS,
        "on_conflict": on_conflict,
        "check_reply": lambda question, reply: question.endswith("7"),
    }
    answers = await invoke(Setting(**given).chain, questions)

    expected = [essence(answer) for answer in answers]
    for way in WAYS[1:]:
        found = await way(Setting(**given).chain, questions)
        assert [essence(answer) for answer in found] == expected, way
    reason = {
        "follow_context": Reason.CONFLICT_FOLLOWS_CONTEXT,
        "show_both": Reason.CONFLICT_SHOWS_BOTH,
        "abstain": Reason.CONFLICT,
    }[on_conflict]
    contested = [answer for answer in answers if answer.decision.reason is reason]
    assert len(contested) == len(VIEWS) > 1
    assert all("According to" in answer.answer for answer in contested) is (
        (mode, on_conflict) == ("enforce", "show_both")
    )
    assert {answer.reply_abstained for answer in answers} == (
        {True, False} if mode == "shadow" else {True, False, None}
    )


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_input_of_none_abstains_in_every_way(way: Any) -> None:
    [answer] = await way(Setting().chain, (None,))
    assert answer.decision.reason is Reason.INVALID_INPUT


# -- batches ------------------------------------------------------------------------


class OneCall(RunnableLambda[Any, Any]):
    """Counts its batches."""

    batches: list[int]

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__(function)
        self.batches = []

    def batch(self, inputs: list[Any], *args: Any, **kwargs: Any) -> list[Any]:
        self.batches.append(len(inputs))
        return super().batch(inputs, *args, **kwargs)

    async def abatch(self, inputs: list[Any], *args: Any, **kwargs: Any) -> list[Any]:
        self.batches.append(len(inputs))
        return await super().abatch(inputs, *args, **kwargs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_is_one_call_to_each_part(asynchronous: bool) -> None:
    questions = ["grounded 1", "known 2", "grounded 3", "who knows", ""]
    setting = Setting(questions=tuple(questions))
    retriever = OneCall(lambda question: DOCUMENTS if "grounded" in question else ["Off."])
    with_context, closed_book = OneCall(lambda i: "c"), OneCall(lambda i: "m")
    chain = GuardedRAG(
        guard=setting.guard, retriever=retriever, with_context=with_context, closed_book=closed_book
    )

    answers = await chain.abatch(questions) if asynchronous else chain.batch(questions)

    assert [answer.answer for answer in answers][:3] == ["c", "m", "c"]
    assert (retriever.batches, with_context.batches, closed_book.batches) == ([4], [2], [1])
    assert setting.scorer.calls == 2  # the first question tells how long one takes


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failing_input_of_a_batch_fails_alone(asynchronous: bool) -> None:
    def fails(inputs: dict[str, Any]) -> str:
        if "2" in inputs["question"]:
            raise ConnectionError("gone")
        return "said"

    setting = Setting(with_context=RunnableLambda(fails))
    inputs: list[Any] = ["grounded 1", "grounded 2", {"query": "x"}, "who knows"]

    answers = await batched(setting.chain, inputs, asynchronous)

    assert answers[0].answer == "said"
    assert isinstance(answers[1], ConnectionError)
    assert isinstance(answers[2], InputError)
    assert answers[3].abstained
    with pytest.raises(ConnectionError):
        setting.chain.batch(inputs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_under_on_error_raise_only_the_failing_question_of_a_batch_raises(
    asynchronous: bool,
) -> None:
    setting = Setting(default_score=float("nan"), on_error="raise")
    questions: list[Any] = ["grounded", "off topic"]
    chain = GuardedRAG(
        guard=setting.guard,
        retriever=lambda question: DOCUMENTS[:1] if "grounded" in question else ["Off."],
        with_context=lambda inputs: "said",
        closed_book=lambda inputs: "said",
    )

    answers = await batched(chain, questions, asynchronous)

    assert answers[0].answer == "said"
    assert isinstance(answers[1], SignalError)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_batch_raises_abstentions_for_their_own_inputs(asynchronous: bool) -> None:
    chain = Setting(raise_on_abstain=True).chain
    questions: list[Any] = ["grounded", "who knows", "broken"]

    answers = await batched(chain, questions, asynchronous)

    assert [type(answer) for answer in answers] == [GuardedAnswer, AbstainedError, AbstainedError]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_configs_and_callbacks_of_a_batch_go_to_their_own_inputs(asynchronous: bool) -> None:
    handlers = [RunsHandler(), RunsHandler()]
    configs = [
        RunnableConfig(callbacks=[handler], run_name=f"run-{i}", max_concurrency=1)
        for i, handler in enumerate(handlers)
    ]
    setting = Setting()
    questions: list[Any] = ["grounded", "who knows"]

    if asynchronous:
        await setting.chain.abatch(questions, configs)
    else:
        setting.chain.batch(questions, configs)

    assert "run-0" in handlers[0].names()
    assert "run-1" in handlers[1].names()
    assert handlers[0].count("model") == 1
    assert handlers[1].count("model") == 0
    assert [event["reason"] for _, event in handlers[1].events] == ["neither_knows"]


def test_an_empty_batch_is_empty() -> None:
    assert Setting().chain.batch([]) == []


# -- streams ------------------------------------------------------------------------


def test_the_decision_streams_before_any_text_is_produced() -> None:
    setting = Setting()
    setting.context_model.speak = lambda prompt: "one two three four"

    stream = setting.chain.stream("grounded")
    first = next(stream)
    produced_at_first = setting.context_model.record.chunks
    second = next(stream)
    produced_at_second = setting.context_model.record.chunks
    rest = list(stream)

    assert (first.answer, first.documents) == ("", (DOCUMENTS[0], DOCUMENTS[2]))
    assert first.decision.route is Route.FOLLOW_CONTEXT
    assert (produced_at_first, produced_at_second) == (0, 1)
    assert (second.answer, second.documents) == ("one", ())
    # The last chunk is LangChain's own and has no text.
    assert setting.context_model.record.chunks == len(rest) == 7


async def test_an_async_stream_passes_text_on_as_it_is_produced() -> None:
    setting = Setting()
    setting.context_model.speak = lambda prompt: "one two three four"
    record = setting.context_model.record

    seen = [(chunk.answer, record.chunks) async for chunk in setting.chain.astream("grounded")]

    assert seen[:3] == [("", 0), ("one", 1), (" ", 2)]


async def test_a_question_that_comes_in_pieces_is_put_together() -> None:
    setting = Setting()

    async def pieces() -> AsyncIterator[str]:
        yield "ground"
        yield "ed"

    mapped = setting.chain.transform(
        iter([AddableDict(question="ground"), AddableDict(question="ed")])
    )

    texts: list[Any] = ["ground", None, "ed"]
    assert reduce(add, setting.chain.transform(iter(texts))).decision.kept == (0, 2)
    assert reduce(add, [c async for c in setting.chain.atransform(pieces())]).answer
    assert reduce(add, mapped).decision.kept == (0, 2)
    assert setting.asked == ["grounded"] * 3
    assert list(setting.chain.transform(iter([]))) == []
