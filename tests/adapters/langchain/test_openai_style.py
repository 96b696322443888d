"""Chat models of OpenAI-compatible servers, through a real server on the loopback interface."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.log_stream import LogStreamCallbackHandler

from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.adapters.langchain._calls import retry_after
from knowgate.guard import LanguageModelError
from knowgate.guard.signals.confidence import SampledConsistency, Sampling
from tests.adapters.langchain.fakes import TalkingModel
from tests.support.openai_style import Server, busy, chat_model, rejecting, serving

pytestmark = pytest.mark.enable_socket
WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server(say=lambda body, k: f"answer {k}")) as running:
        yield running


async def draw(lm: ChatModelLM, asynchronous: bool, *prompts: str, **options: Any) -> Any:
    if asynchronous:
        return await lm.agenerate(prompts, **options)
    return lm.generate(prompts, **options)


# -- several replies to one request ------------------------------------------------------------


@WAYS
async def test_ten_samples_are_one_request(server: Server, asynchronous: bool) -> None:
    lm = ChatModelLM(chat_model(server))

    [found] = await draw(lm, asynchronous, "q", n=10, temperature=0.7)

    assert [one.text for one in found] == [f"answer {k}" for k in range(10)]
    [body] = server.bodies
    assert (body["n"], body["temperature"]) == (10, 0.7)
    assert not body.get("stream")
    assert (lm.usage.calls, lm.usage.input_tokens, lm.usage.output_tokens) == (1, 12, 30)


@WAYS
async def test_each_prompt_is_one_request(server: Server, asynchronous: bool) -> None:
    server.say = lambda body, k: f"{body['messages'][-1]['content']}{k}"
    lm = ChatModelLM(chat_model(server))

    rows = await draw(lm, asynchronous, "a", "b", "c", n=3, temperature=1.0)

    assert [[one.text for one in row] for row in rows] == [
        ["a0", "a1", "a2"], ["b0", "b1", "b2"], ["c0", "c1", "c2"]
    ]  # fmt: skip
    assert [body["n"] for body in server.bodies] == [3, 3, 3]


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({}, [None]),
        ({"shortcut": None}, [None, 4, 3]),
        ({"shortcut": None, "stopping": "none"}, [None, 10]),
    ],
    ids=["probability of the greedy answer", "curtailed", "all samples"],
)
def test_consistency_takes_few_requests(
    server: Server, options: dict[str, Any], requests: list[int | None]
) -> None:
    server.say = lambda body, k: "Paris"
    lm = ChatModelLM(chat_model(server))
    estimator = SampledConsistency(lm, sampling=Sampling(n=10), **options)

    assert estimator.estimate("What is the capital of France?").value >= 0.7
    assert [body.get("n") for body in server.bodies] == requests


@WAYS
async def test_a_server_that_ignores_n_is_asked_once_per_sample(
    server: Server, asynchronous: bool
) -> None:
    server.most_replies = 1
    lm = ChatModelLM(chat_model(server))

    [found] = await draw(lm, asynchronous, "q", n=4, temperature=0.7)
    before = len(server.bodies)
    [again] = await draw(lm, asynchronous, "q", n=4, temperature=0.7)

    assert [one.text for one in [*found, *again]] == ["answer 0"] * 8
    assert (before, len(server.bodies)) == (4, 8)
    assert [body.get("n") for body in server.bodies] == [4] + [None] * 7


@WAYS
@pytest.mark.parametrize("named", [True, False])
async def test_a_server_that_rejects_n_is_not_asked_for_it_again(
    server: Server, asynchronous: bool, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server.fault = rejecting("n", named=named)
    lm = ChatModelLM(chat_model(server), limits=ChatLimits(max_concurrency=1))

    with caplog.at_level(logging.WARNING):
        [found] = await draw(lm, asynchronous, "q", n=3, temperature=0.7)
        server.bodies.clear()
        [again] = await draw(lm, asynchronous, "q", n=3, temperature=0.7)

    assert (len(found), len(again)) == (3, 3)
    assert [(body.get("n"), body["temperature"]) for body in server.bodies] == [(None, 0.7)] * 3
    assert caplog.text.count("rejects n: calls are made without") == 1


def test_bound_options_go_along_with_n(server: Server) -> None:
    lm = ChatModelLM(chat_model(server).bind(stop=["\n"], top_p=0.5))

    lm.generate(["q"], n=2, temperature=0.7)

    [body] = server.bodies
    assert (body["n"], body["stop"], body["top_p"]) == (2, ["\n"], 0.5)


@pytest.mark.parametrize("kind", ["sequence", "seeds", "streaming"])
def test_where_one_request_cannot_do_there_are_several(server: Server, kind: str) -> None:
    model = chat_model(server)
    lm = {
        "sequence": lambda: ChatModelLM(model | RunnableLambda(lambda said: said)),
        "seeds": lambda: ChatModelLM(model, seed_option="seed"),
        "streaming": lambda: ChatModelLM(chat_model(server, streaming=True).with_retry()),
    }[kind]()
    if kind == "streaming":
        assert not lm._capabilities.several
        return

    [found] = lm.generate(["q"], n=3, temperature=0.7, seed=5)

    assert len(found) == len(server.bodies) == 3
    assert all("n" not in body for body in server.bodies)
    if kind == "seeds":
        assert sorted(body["seed"] for body in server.bodies) == [5, 6, 7]


async def test_a_trace_that_streams_does_not_mix_the_replies(server: Server) -> None:
    lm = ChatModelLM(chat_model(server))
    handler = LogStreamCallbackHandler()

    asking: RunnableLambda[str, Any] = RunnableLambda(
        lambda question: lm.generate([question], n=3, temperature=0.7)
    )
    found = asking.invoke("q", {"callbacks": [handler]})

    assert [one.text for one in found[0]] == ["answer 0", "answer 1", "answer 2"]


class OtherModel(TalkingModel):
    """A class that has options of these names and means something else by them."""

    n: int = 1
    logprobs: int | None = None


def test_other_classes_are_not_asked_for_what_they_mean_otherwise() -> None:
    model = OtherModel(speak=lambda prompt: "said")

    ChatModelLM(model).generate(["q"], n=2, temperature=0.7)

    assert model.record.options == [{"temperature": 0.7}] * 2


# -- log-probabilities -----------------------------------------------------------------------


@WAYS
async def test_log_probabilities_are_asked_for(server: Server, asynchronous: bool) -> None:
    lm = ChatModelLM(chat_model(server))

    [[greedy]] = await draw(lm, asynchronous, "q")
    [samples] = await draw(lm, asynchronous, "q", n=2, temperature=0.7)

    assert greedy.token_logprobs == (-0.1,)
    assert [one.token_logprobs for one in samples] == [(-0.1,), (-0.2,)]
    assert all(body["logprobs"] for body in server.bodies)


@pytest.mark.parametrize("named", [True, False])
def test_a_model_without_log_probabilities_answers_without(server: Server, named: bool) -> None:
    server.fault = rejecting("logprobs", named=named)
    lm = ChatModelLM(chat_model(server))

    [[first]] = lm.generate(["q"])
    server.bodies.clear()
    [[second]] = lm.generate(["q"])

    assert (first.token_logprobs, second.text) == (None, "answer 0")
    assert [(body.get("logprobs"), body["temperature"]) for body in server.bodies] == [(None, 0)]


def test_what_the_caller_says_of_log_probabilities_counts(server: Server) -> None:
    ChatModelLM(chat_model(server, logprobs=False)).generate(["q"])
    ChatModelLM(chat_model(server).bind(logprobs=False)).generate(["q"])

    assert [bool(body.get("logprobs")) for body in server.bodies] == [False, False]


# -- temperature -----------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("status", [400, 422])
async def test_a_model_with_one_temperature_only_is_asked_without(
    server: Server, asynchronous: bool, named: bool, status: int
) -> None:
    server.fault = rejecting("temperature", named=named, status=status)
    lm = ChatModelLM(chat_model(server))

    [[found]] = await draw(lm, asynchronous, "q")
    server.bodies.clear()
    [samples] = await draw(lm, asynchronous, "q", n=2, temperature=0.7)

    assert (found.text, len(samples)) == ("answer 0", 2)
    assert [(body.get("temperature"), body.get("n")) for body in server.bodies] == [(None, 2)]
    assert all(body["logprobs"] for body in server.bodies)


@pytest.mark.parametrize("named", [True, False])
def test_a_reasoning_model_may_reject_several_options(server: Server, named: bool) -> None:
    def fault(one: Server, body: Any) -> Any:
        for param in ("temperature", "logprobs"):
            if (found := rejecting(param, named=named)(one, body)) is not None:
                return found
        return None

    server.fault = fault
    lm = ChatModelLM(chat_model(server))

    assert lm.generate(["q"])[0][0].text == "answer 0"
    assert not {"temperature", "logprobs"} & set(server.bodies[-1])
    assert len(server.bodies) == (3 if named else 4)


def test_a_request_that_is_rejected_whatever_its_options_fails_once(server: Server) -> None:
    server.fault = lambda one, body: (400, {}, {"message": "content filter", "param": "messages"})
    lm = ChatModelLM(chat_model(server))

    with pytest.raises(LanguageModelError):
        lm.generate(["q"])
    first = len(server.bodies)
    server.fault = lambda one, body: None
    lm.generate(["q"])
    server.fault = lambda one, body: (400, {}, {"message": "content filter", "param": "messages"})
    server.bodies.clear()
    with pytest.raises(LanguageModelError):
        lm.generate(["q"])

    assert first <= 4
    assert len(server.bodies) == 1  # the options were accepted before


# -- retries ---------------------------------------------------------------------------------


@WAYS
async def test_attempts_of_client_and_guard_do_not_multiply(
    server: Server, asynchronous: bool
) -> None:
    server.fault = busy(100)
    model = chat_model(server)
    lm = ChatModelLM(model, limits=ChatLimits(first_wait=0.001))

    with pytest.raises(LanguageModelError):
        await draw(lm, asynchronous, "q")

    assert len(server.bodies) == lm.usage.calls == 3


def test_the_callers_own_client_still_repeats(server: Server) -> None:
    model = chat_model(server)
    ChatModelLM(model).generate(["q"])
    server.bodies.clear()
    server.fault = busy(2, retry_after_ms="1")

    assert model.invoke("q").text == "answer 0"
    assert len(server.bodies) == 3


def test_a_client_that_makes_one_attempt_is_left_as_it_is(server: Server) -> None:
    server.fault = busy(1)
    model = chat_model(server, max_retries=0)

    assert ChatModelLM(model, limits=ChatLimits(first_wait=0)).generate(["q"])
    assert len(server.bodies) == 2


def test_a_client_that_cannot_be_told_leaves_one_attempt_to_the_guard(server: Server) -> None:
    server.fault = busy(100)
    model = chat_model(server, max_retries=1)
    model.root_client = None  # type: ignore[attr-defined]

    with pytest.raises(LanguageModelError):
        ChatModelLM(model).generate(["q"])

    assert len(server.bodies) == 2


def test_fallbacks_do_not_multiply_attempts_either(server: Server) -> None:
    server.fault = busy(100)
    model = chat_model(server).with_fallbacks([chat_model(server, model="gpt-other")])

    with pytest.raises(LanguageModelError):
        ChatModelLM(model, limits=ChatLimits(first_wait=0)).generate(["q"])

    assert [body["model"] for body in server.bodies] == ["gpt-4o-mini", "gpt-other"] * 3


@WAYS
@pytest.mark.parametrize("header", ["retry_after", "retry_after_ms"])
async def test_a_server_is_given_the_time_that_it_asks_for(
    server: Server, asynchronous: bool, header: str
) -> None:
    server.fault = busy(1, **{header: "0.4" if header == "retry_after" else "400"})
    lm = ChatModelLM(chat_model(server), limits=ChatLimits(first_wait=0.001))

    await draw(lm, asynchronous, "q")

    first, second = server.started
    assert second - first >= 0.39


def test_a_server_that_asks_for_too_long_is_not_asked_again(server: Server) -> None:
    server.fault = busy(1, retry_after="3600")
    started = time.monotonic()

    with pytest.raises(LanguageModelError):
        ChatModelLM(chat_model(server)).generate(["q"])

    assert time.monotonic() - started < 60
    assert len(server.bodies) == 1


class _Response:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after": "in an hour"}, 3600.0),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_forms_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    in_an_hour = formatdate(time.time() + 3600, usegmt=True)  # now, not when tests are collected
    headers = {name: value.replace("in an hour", in_an_hour) for name, value in headers.items()}
    cause = ConnectionError()
    cause.response = _Response(headers)  # type: ignore[attr-defined]
    error = RuntimeError()
    error.__cause__ = cause

    assert retry_after(error) == (None if seconds is None else pytest.approx(seconds, abs=120))
    assert retry_after(None) is None


# -- identity --------------------------------------------------------------------------------


def test_only_what_changes_answers_changes_the_fingerprint(server: Server) -> None:
    def fingerprint(**settings: Any) -> str:
        return ChatModelLM(chat_model(server, **settings)).fingerprint

    same = fingerprint()

    assert {
        fingerprint(streaming=True), fingerprint(timeout=3), fingerprint(api_key="sk-other"),
        fingerprint(max_retries=7), fingerprint(logprobs=True), fingerprint(n=2),
        fingerprint(callbacks=[LogStreamCallbackHandler()]), fingerprint(base_url="http://other/v1"),
        fingerprint(verbose=True), fingerprint(cache=False), fingerprint(tags=["x"]),
    } == {same}  # fmt: skip
    assert same != fingerprint(temperature=0.3)
    assert same != fingerprint(logprobs=False)  # estimators then sample
    assert same != fingerprint(model="gpt-4o")
    lm = ChatModelLM(chat_model(server))
    lm.generate(["q"], n=2, temperature=0.5)
    assert lm.fingerprint == same
