"""Who is answered, how much is taken, and what happens when it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry

from knowgate.adapters.serve import ServeLimits
from knowgate.adapters.serve._access import http_metrics
from knowgate.guard.testing import FakeScorer
from tests.adapters.serve.service import GOOD, Call, client_of, make_app, make_guard

ASKED = {"question": "When?", "passages": [GOOD]}


class Held(FakeScorer):
    """A scorer that waits until it is let go."""

    def __init__(self) -> None:
        super().__init__({"nine": 0.9})
        self.go = threading.Event()

    def score_pairs(self, pairs):  # type: ignore[no-untyped-def]
        self.go.wait(60)
        return super().score_pairs(pairs)


async def until(condition) -> None:  # type: ignore[no-untyped-def]
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not within 30 s")


async def test_without_a_token_only_this_machine_is_answered() -> None:
    app = make_app()
    async with client_of(app, client=("10.0.0.7", 1)) as client:
        other = await client.get("/healthz")
    async with client_of(app, base_url="http://attacker.example") as client:
        rebound = await client.post("/v1/decide", json=ASKED)
    for host in ("http://localhost:8000", "http://[::1]:8000", "http://127.0.0.1:1"):
        async with client_of(app, base_url=host) as client:
            assert (await client.post("/v1/decide", json=ASKED)).status_code == 200
    assert (other.status_code, rebound.status_code) == (403, 403)
    assert rebound.json()["error"]["code"] == "not_local"


async def test_with_a_token_it_is_asked_for_everywhere_but_for_health() -> None:
    app = make_app(token="s3cret-é")
    async with client_of(app, client=("10.0.0.7", 1), base_url="http://guard") as client:
        for path in ("/v1/decide", "/metrics", "/openapi.json", "/nothing"):
            assert (await client.get(path)).status_code == 401
        for given in ("Bearer wrong", "Basic s3cret-é", "Bearer", "s3cret-é", "Bearer s3cret"):
            headers = {b"authorization": given.encode()}
            found = await client.post("/v1/decide", json=ASKED, headers=headers)
            assert found.status_code == 401
            assert found.headers["www-authenticate"] == "Bearer"
        right = {b"authorization": "bearer s3cret-é".encode()}
        assert (await client.post("/v1/decide", json=ASKED, headers=right)).status_code == 200
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
    async with client_of(app) as client:  # on this machine too
        assert (await client.post("/v1/decide", json=ASKED)).status_code == 401


async def test_large_bodies_are_rejected_before_they_are_read() -> None:
    app = make_app(limits=ServeLimits(body_bytes=1000))
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b" " * 100

    async with client_of(app) as client:
        declared = await client.post("/v1/decide", content=b" " * 1001)
        streamed = await client.post("/v1/decide", content=endless())
    assert (declared.status_code, streamed.status_code) == (413, 413)
    assert streamed.json()["error"]["code"] == "body_too_large"
    assert read <= 12


async def test_a_rejected_client_has_sent_its_body_before_the_reply() -> None:
    app = make_app()
    app.state.admission.draining = True
    sent: list[int] = []

    async def parts() -> AsyncIterator[bytes]:
        for number in range(3):
            sent.append(number)
            yield b" " * 100

    async def endless() -> AsyncIterator[bytes]:
        while True:
            sent.append(1 << 16)
            yield b" " * (1 << 16)

    async with client_of(app) as client:
        found = await client.post("/v1/decide", content=parts())
        assert (found.status_code, sent) == (503, [0, 1, 2])
        sent.clear()
        assert (await client.post("/v1/decide", content=endless())).status_code == 503
        assert sum(sent) < 1 << 20


async def test_bodies_are_bounded_together_and_their_bytes_are_free_afterwards() -> None:
    app = make_app(limits=ServeLimits(bodies_bytes=300_000))
    held, go = asyncio.Event(), asyncio.Event()

    async def halting() -> AsyncIterator[bytes]:
        yield b" " * 200_000
        held.set()
        await go.wait()
        yield b" "

    async with client_of(app) as client:
        first = asyncio.ensure_future(client.post("/v1/decide", content=halting()))
        await held.wait()
        second = await client.post("/v1/decide", content=b" " * 200_000)
        small = await client.post("/v1/decide", json=ASKED)
        go.set()
        assert (await first).status_code == 422
        third = await client.post("/v1/decide", content=b" " * 200_000)
    assert (second.status_code, second.json()["error"]["code"]) == (503, "bodies_too_large")
    assert second.headers["retry-after"] == "1"
    assert (small.status_code, third.status_code) == (200, 422)
    assert app.state.admission._held == 0


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    app = make_app(limits=ServeLimits(body_seconds=0.01))

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with client_of(app) as client:
        found = await client.post("/v1/decide", content=stuck())
    assert (found.status_code, found.json()["error"]["code"]) == (408, "body_too_late")


async def test_a_full_queue_is_429_with_the_time_to_wait() -> None:
    scorer, registry = Held(), CollectorRegistry()
    limits = ServeLimits(concurrency=1, queue=1)
    app = make_app(make_guard(scorer), limits=limits, registry=registry)
    async with client_of(app) as client:
        first = asyncio.create_task(client.post("/v1/decide", json=ASKED))
        second = asyncio.create_task(client.post("/v1/decide", json=ASKED))
        await until(lambda: app.state.admission.waiting == 1)
        states = [("running", 1.0), ("waiting", 1.0)]
        for state, value in states:
            assert registry.get_sample_value("knowgate_http_requests", {"state": state}) == value

        third = await client.post("/v1/decide", json=ASKED)

        assert (third.status_code, third.headers["retry-after"]) == (429, "1")
        assert third.json()["error"]["type"] == "rate_limit_error"
        assert (await client.get("/healthz")).status_code == 200
        scorer.go.set()
        assert [(await one).status_code for one in (first, second)] == [200, 200]
        assert app.state.admission.idle
        assert (await client.post("/v1/decide", json=ASKED)).status_code == 200
    name, labels = "knowgate_http_responses_total", {"endpoint": "/v1/decide"}
    assert registry.get_sample_value(name, labels | {"status": "429"}) == 1
    assert registry.get_sample_value(name, labels | {"status": "200"}) == 3


async def test_a_request_that_waits_too_long_is_429() -> None:
    scorer = Held()
    limits = ServeLimits(concurrency=1, queue=1, queue_seconds=0.01)
    app = make_app(make_guard(scorer), limits=limits)
    async with client_of(app) as client:
        first = asyncio.create_task(client.post("/v1/decide", json=ASKED))
        await until(lambda: app.state.admission.running == 1)
        assert (await client.post("/v1/decide", json=ASKED)).status_code == 429
        scorer.go.set()
        assert (await first).status_code == 200
        assert (await client.post("/v1/decide", json=ASKED)).status_code == 200


async def test_draining_lets_requests_under_way_end() -> None:
    scorer = Held()
    app = make_app(make_guard(scorer))
    async with client_of(app) as client:
        running = asyncio.create_task(client.post("/v1/decide", json=ASKED))
        await until(lambda: app.state.admission.running == 1)
        app.state.admission.draining = True

        ready, late = await client.get("/readyz"), await client.post("/v1/decide", json=ASKED)
        assert (ready.status_code, late.status_code) == (503, 503)
        assert late.json()["error"]["code"] == "draining"
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        scorer.go.set()
        assert (await running).json()["decision"]["route"] == "follow_context"
        assert app.state.admission.idle


async def test_a_client_that_has_gone_frees_its_place() -> None:
    scorer = Held()
    app = make_app(make_guard(scorer), limits=ServeLimits(concurrency=1, queue=4))
    call = Call(app, "/v1/decide", ASKED)
    waiting = Call(app, "/v1/decide", ASKED)
    await until(lambda: app.state.admission.waiting == 1)

    waiting.leave()
    call.leave()

    await until(lambda: app.state.admission.idle)
    await asyncio.gather(call.task, waiting.task)
    assert call.sent.empty()
    scorer.go.set()


async def test_an_unexpected_error_shows_no_text_anywhere(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    guard = make_guard()

    async def broken(question: str, passages: object) -> None:
        raise RuntimeError(question)

    monkeypatch.setattr(guard, "adecide", broken)
    secret = "my secret question"
    async with client_of(make_app(guard)) as client:
        found = await client.post("/v1/decide", json={"question": secret})
        wrong = await client.post(f"/v1/{secret}", json={"question": 1, secret: 2})
        await client.post("/v1/decide", json={secret: secret})
    assert (found.status_code, found.json()["error"]["code"]) == (500, "internal_error")
    assert secret not in found.text + wrong.text
    ours = [record.getMessage() for record in caplog.records if "knowgate" in record.name]
    assert "RuntimeError" in " ".join(ours)
    assert secret not in " ".join(ours)


async def test_labels_stay_few_whatever_is_asked() -> None:
    registry = CollectorRegistry()
    guard = make_guard(registry=registry)
    async with client_of(make_app(guard, registry=registry)) as client:
        for number in range(50):
            await client.get(f"/v1/{number}")
            await client.post("/v1/decide", json={"question": f"q{number}", "passages": [GOOD]})
        await client.post("/v1/chat/completions", json={})
        text = (await client.get("/metrics")).text
    assert len([line for line in text.splitlines() if "http_responses_total{" in line]) == 3
    assert '{endpoint="/v1/chat/completions",status="404"} 1.0' in text
    assert 'knowgate_decisions_total{guard="default"' in text
    assert "q7" not in text


def test_threads_share_the_metrics_of_a_registry_which_is_not_kept_alive() -> None:
    registry = CollectorRegistry()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(http_metrics, [registry] * 8))
    kept = weakref.ref(registry)
    responses, _ = made[0]
    responses.labels("other", "200").inc()
    assert registry.get_sample_value(
        "knowgate_http_responses_total", {"endpoint": "other", "status": "200"}
    )
    del registry, made, responses
    gc.collect()
    assert kept() is None
