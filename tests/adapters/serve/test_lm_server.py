"""Real clients of OpenAI's interface against a real server over the embedded language model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate

from knowgate.adapters.langchain import ChatLimits, ChatModelLM, GuardedRAG
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


def test_samples_and_log_probabilities_are_those_of_the_model(
    server: LMServer, question: str
) -> None:
    prompt = CLOSED_BOOK.fill(question=question)
    [direct] = server.lm.generate([prompt], n=3, temperature=0.7, seed=5, max_new_tokens=6)

    found = server.client().chat.completions.create(
        model="embedded", messages=[{"role": "user", "content": prompt}],
        n=3, temperature=0.7, seed=5, max_tokens=6, logprobs=True,
    )  # fmt: skip

    assert [one.message.content for one in found.choices] == [one.text for one in direct]
    logprobs = [one.logprobs.content for one in found.choices if one.logprobs]
    assert [tuple(token.logprob for token in row or ()) for row in logprobs] == [
        one.token_logprobs for one in direct
    ]


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
