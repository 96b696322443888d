"""Real clients of OpenAI's interface against a real server over the embedded language model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import httpx
import openai
import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate

from knowgate.adapters.langchain import ChatLimits, ChatModelLM, GuardedRAG
from knowgate.adapters.serve import create_lm_app
from knowgate.guard import Reason, Route
from knowgate.guard.signals.confidence import SampledConsistency, Sampling, load_estimator
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.testbed import World
from tests.adapters.serve.lm_server import CLOSED_BOOK, LMServer, lm_server, taught_questions
from tests.support.guards import guard_with, policy_with

pytestmark = pytest.mark.enable_socket


@pytest.fixture(scope="module")
def server() -> Iterator[LMServer]:
    with lm_server() as running:
        yield running


@pytest.fixture(scope="module")
def question() -> str:
    return taught_questions(1)[0]


def by_probability(lm: Any, **options: Any) -> Any:
    return load_estimator("token_probability", lm, prompt=CLOSED_BOOK)


def by_three_samples(lm: Any) -> Any:
    return SampledConsistency(lm, prompt=CLOSED_BOOK, sampling=Sampling(n=3), shortcut=None)


def asked(question: str) -> list[Any]:
    return [{"role": "user", "content": CLOSED_BOOK.fill(question=question)}]


# -- the interface --------------------------------------------------------------------------------


def test_samples_and_log_probabilities_are_those_of_the_model(
    server: LMServer, question: str
) -> None:
    [direct] = server.lm.generate(
        [CLOSED_BOOK.fill(question=question)], n=3, temperature=0.7, seed=5, max_new_tokens=6
    )

    found = server.client().chat.completions.create(
        model="embedded", messages=asked(question), n=3, temperature=0.7, seed=5, max_tokens=6,
        logprobs=True, top_logprobs=2,
    )  # fmt: skip

    assert [one.message.content for one in found.choices] == [one.text for one in direct]
    logprobs = [one.logprobs.content for one in found.choices if one.logprobs]
    assert [tuple(token.logprob for token in row or ()) for row in logprobs] == [
        one.token_logprobs for one in direct
    ]
    for row in logprobs:
        for token in row or ():
            first, second = token.top_logprobs
            assert first.logprob >= second.logprob
            assert token.logprob <= first.logprob + 1e-4
    assert found.usage is not None
    assert found.usage.completion_tokens == sum(len(row or ()) for row in logprobs)


async def test_a_stream_is_the_reply_in_pieces(server: LMServer, question: str) -> None:
    options: Any = {
        "model": "embedded", "messages": asked(question), "n": 2, "seed": 3, "temperature": 0.9,
        "logprobs": True,
    }  # fmt: skip
    client = server.async_client()
    whole = await client.chat.completions.create(**options)
    texts, logprobs, ends = ["", ""], [list[float](), list[float]()], {}

    stream = await client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    )
    usage = None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            content = choice.logprobs.content if choice.logprobs else None
            logprobs[choice.index] += [token.logprob for token in content or ()]
            ends[choice.index] = choice.finish_reason
    await client.close()

    assert texts == [one.message.content for one in whole.choices]
    for index, one in enumerate(whole.choices):
        assert one.logprobs is not None
        direct = [token.logprob for token in one.logprobs.content or ()]
        assert logprobs[index] == pytest.approx(direct, abs=1e-4)  # alone and in a batch
    assert ends == {0: "stop", 1: "stop"}
    assert usage == whole.usage


def test_stop_strings_and_models(server: LMServer, question: str) -> None:
    client = server.client()
    whole = client.chat.completions.create(
        model="embedded", messages=asked(question), temperature=0
    )
    text = whole.choices[0].message.content or ""

    cut = client.chat.completions.create(
        model="embedded", messages=asked(question), temperature=0, stop=text[2]
    )

    assert cut.choices[0].message.content == text[: text.index(text[2])]
    assert [one.id for one in client.models.list()] == ["embedded"]


REJECTED: dict[str, tuple[dict[str, Any], int, str]] = {
    "another model": ({"model": "gpt-4o"}, 404, "model"),
    "top_p": ({"top_p": 0.5}, 400, "top_p"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "tools"),
    "an empty stop": ({"stop": [""]}, 400, "stop"),
    "top_logprobs alone": ({"top_logprobs": 2}, 400, "top_logprobs"),
    "a long prompt": (
        {"messages": [{"role": "user", "content": "word " * 5000}]}, 400, "messages",
    ),
    "a temperature of three": ({"temperature": 3}, 422, "temperature"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_what_the_model_cannot_do_is_rejected_by_name(server: LMServer, case: str) -> None:
    changes, status, param = REJECTED[case]
    with pytest.raises(openai.APIStatusError) as raised:
        server.client().chat.completions.create(
            **{"model": "embedded", "messages": asked("Who?"), **changes}
        )
    assert (raised.value.status_code, raised.value.param) == (status, param)


ODD: dict[str, tuple[dict[str, Any], int]] = {
    "a lone surrogate": ({"messages": [{"role": "user", "content": "a\ud800b"}]}, 400),
    "no content": ({"messages": [{"role": "user", "content": None}]}, 200),
    "another role": ({"messages": [{"role": "weird", "content": "y"}]}, 200),
    "a huge seed": ({"seed": -(10**40)}, 200),
    "a tiny temperature": ({"temperature": 1e-300}, 200),
    "many choices": ({"n": 128}, 200),
    "defaults": ({"response_format": {"type": "text"}, "presence_penalty": 0, "tools": []}, 200),
}


@pytest.mark.parametrize("case", ODD)
async def test_odd_requests_are_answered_or_rejected(server: LMServer, case: str) -> None:
    changes, status = ODD[case]
    body = {"model": "embedded", "messages": asked("Who?"), "max_tokens": 1, **changes}
    headers = {"Content-Type": "application/json"}
    transport = httpx.ASGITransport(app=create_lm_app(server.lm, name="embedded"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        found = await client.post("/v1/chat/completions", content=json.dumps(body), headers=headers)
    assert found.status_code == status, found.text


async def test_faults_need_a_server_that_allows_them(server: LMServer) -> None:
    app = create_lm_app(server.lm, name="embedded")
    transport = httpx.ASGITransport(app=app)
    body = {"model": "embedded", "messages": asked("Who?")}
    headers = {"X-Knowgate-Fault": "500"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        found = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert (found.status_code, found.json()["error"]["code"]) == (400, "faults_not_allowed")
    with pytest.raises(openai.BadRequestError, match="Use one of"):
        server.client("nothing").chat.completions.create(**body)


# -- the guard ------------------------------------------------------------------------------------


async def test_confidence_is_that_of_the_same_model_asked_directly(
    server: LMServer, question: str
) -> None:
    over_http = ChatModelLM(server.chat_model(), seed_option="seed")
    for build in (by_probability, by_three_samples):
        direct = build(server.lm).estimate(question)
        found = build(over_http)
        assert found.estimate(question) == direct
        assert await found.aestimate(question) == direct


def chain_over(server: LMServer, fault: str = "", **options: Any) -> GuardedRAG:
    """A chain whose confidence and answers come from the served model; `fault` in the former."""
    model = server.chat_model() | StrOutputParser()
    estimator = options.pop("estimator", SampledConsistency)
    lm = ChatModelLM(server.chat_model(fault), limits=ChatLimits(**options), seed_option="seed")
    guard = guard_with(
        policy_with(),
        scorer=FakeScorer({"sits": 0.9}, default=0.1),
        estimator=estimator(lm, prompt=CLOSED_BOOK),
    )
    return GuardedRAG(
        guard=guard,
        retriever=lambda question: [Document("Nobody sits here.")] if "sits" in question else [],
        with_context=PromptTemplate.from_template(World.prompt("with_context")) | model,
        closed_book=PromptTemplate.from_template(World.prompt("closed_book")) | model,
    )


async def test_the_guarded_chain_answers_alike_in_every_way(
    server: LMServer, question: str
) -> None:
    chain = chain_over(server)
    prompts = {
        question: (Route.ANSWER, CLOSED_BOOK.fill(question=question)),
        "Who sits here?": (
            Route.FOLLOW_CONTEXT,
            World.prompt("with_context").format(
                context="Nobody sits here.", question="Who sits here?"
            ),
        ),
        "Who is the king of a land that is not there?": (Route.ABSTAIN, ""),
    }
    for asked, (route, prompt) in prompts.items():
        answers = [
            chain.invoke(asked),
            reduce(add, chain.stream(asked)),
            await chain.ainvoke(asked),
            reduce(add, [chunk async for chunk in chain.astream(asked)]),
        ]
        assert {one.decision.route for one in answers} == {route}
        assert len({one.answer for one in answers}) == 1
        if prompt:
            assert answers[0].answer == server.lm.generate([prompt])[0][0].text


# -- faults ---------------------------------------------------------------------------------------

# Name → what is logged of it.
FAULTS = {
    "429; seconds=0": "RateLimitError",
    "500": "APIError",
    "timeout": "LanguageModelTimeoutError",
    "hang": "LanguageModelTimeoutError",
    "cut": "ConnectionError",
    "empty": "JSONDecodeError",
    "not_json": "ValueError",
    "wrong_n": "IndexError",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_no_fault_of_the_language_model_lets_an_answer_out(
    server: LMServer,
    question: str,
    fault: str,
    asynchronous: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = 0.3 if fault in ("timeout", "hang") else 60
    chain = chain_over(server, fault, timeout=seconds, max_attempts=1)

    answer = await chain.ainvoke(question) if asynchronous else chain.invoke(question)

    assert answer.decision.route is Route.ABSTAIN
    assert answer.decision.reason is Reason.CONFIDENCE_FAILED
    assert FAULTS[fault] in caplog.messages[-1]


async def test_an_empty_reply_is_no_knowledge(server: LMServer, question: str) -> None:
    chain = chain_over(server, "blank")
    for answer in (chain.invoke(question), await chain.ainvoke(question)):
        assert (answer.decision.route, answer.decision.confidence) == (Route.ABSTAIN, 0.0)


def test_without_log_probabilities_samples_decide_or_the_signal_fails(
    server: LMServer, question: str
) -> None:
    sampled = chain_over(server, "no_logprobs").invoke(question)
    probability = by_probability(server.lm).estimate(question).value
    assert sampled.decision.failed_signals == ()
    assert sampled.decision.confidence not in (None, probability)

    failing = chain_over(server, "no_logprobs", estimator=by_probability)
    assert failing.invoke(question).decision.reason == "confidence_failed"


@pytest.mark.parametrize("fault", ["500", "timeout", "hang", "cut", "not_json"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_model_that_fails_while_it_answers_raises_after_what_it_said(
    server: LMServer, fault: str, asynchronous: bool
) -> None:
    model = server.chat_model(fault, timeout=0.3) | StrOutputParser()
    guard = guard_with(scorer=FakeScorer(default=0.9))
    chain = GuardedRAG(
        guard=guard,
        retriever=lambda question: [Document("Nobody sits here.")],
        with_context=PromptTemplate.from_template(World.prompt("with_context")) | model,
        closed_book=lambda given: "never asked",
    )
    seen = []

    async def read() -> None:
        if asynchronous:
            async for chunk in chain.astream("Who sits here?"):
                seen.append(chunk)  # noqa: PERF401 - kept as far as it got
        else:
            seen.extend(chain.stream("Who sits here?"))

    with pytest.raises(Exception):  # noqa: B017, PT011 - the client's own, one of many
        await asyncio.wait_for(read(), 60)

    assert seen[0].decision.route is Route.FOLLOW_CONTEXT
    assert "never asked" not in "".join(one.answer for one in seen)
    with pytest.raises(Exception):  # noqa: B017, PT011
        await chain.ainvoke("Who sits here?")
