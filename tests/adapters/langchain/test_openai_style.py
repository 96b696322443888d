"""Chat models of OpenAI-compatible servers, through a real server on the loopback interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.adapters.langchain._calls import retry_after
from knowgate.guard import LanguageModelError
from knowgate.guard.signals.confidence import SampledConsistency
from tests.adapters.langchain.fakes import draw
from tests.support.openai_style import Server, busy, chat_model, serving

pytestmark = pytest.mark.enable_socket
WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server(say=lambda body, k: f"answer {k}")) as running:
        yield running


@pytest.mark.parametrize("seeded", [False, True])
def test_each_sample_is_a_request(server: Server, seeded: bool) -> None:
    options: dict[str, Any] = {"seed_option": "seed"} if seeded else {}
    ChatModelLM(chat_model(server), **options).generate(["q"], n=3, temperature=0.7, seed=1)

    assert len(server.bodies) == 3
    assert {body.get("seed") for body in server.bodies} == ({1, 2, 3} if seeded else {None})


def test_the_probability_of_the_greedy_answer_settles_a_question(server: Server) -> None:
    server.say = lambda body, k: "Paris"
    estimator = SampledConsistency(ChatModelLM(chat_model(server, logprobs=True)))

    assert estimator.estimate("What is the capital of France?").value >= 0.7
    assert len(server.bodies) == 1


# -- retries ---------------------------------------------------------------------------------


@WAYS
async def test_attempts_of_client_and_guard_do_not_multiply(
    server: Server, asynchronous: bool
) -> None:
    server.fault = busy(100)
    model = chat_model(server, max_retries=1)

    with pytest.raises(LanguageModelError):
        await draw(ChatModelLM(model), asynchronous, "q")

    assert len(server.bodies) == 2


def test_a_client_that_makes_one_attempt_leaves_three_to_the_guard(server: Server) -> None:
    server.fault = busy(1)
    model = chat_model(server, max_retries=0)

    assert ChatModelLM(model, limits=ChatLimits(first_wait=0)).generate(["q"])
    assert len(server.bodies) == 2


def test_fallbacks_are_tried_within_each_attempt(server: Server) -> None:
    server.fault = busy(100)
    model = chat_model(server, max_retries=0).with_fallbacks(
        [chat_model(server, model="gpt-other", max_retries=0)]
    )

    with pytest.raises(LanguageModelError):
        ChatModelLM(model, limits=ChatLimits(first_wait=0)).generate(["q"])

    assert [body["model"] for body in server.bodies] == ["gpt-4o-mini", "gpt-other"] * 3


@WAYS
@pytest.mark.parametrize("header", ["retry_after", "retry_after_ms"])
async def test_a_server_is_given_the_time_that_it_asks_for(
    server: Server, asynchronous: bool, header: str
) -> None:
    server.fault = busy(1, **{header: "0.4" if header == "retry_after" else "400"})
    lm = ChatModelLM(chat_model(server, max_retries=0), limits=ChatLimits(first_wait=0.001))

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
