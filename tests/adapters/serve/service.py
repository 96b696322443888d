"""A served guard over fakes, and an upstream without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from knowgate.adapters.serve import ProxyOptions, Upstream, create_app
from knowgate.guard import Decision, Guard, GuardMetrics, GuardOptions, Policy, Route
from knowgate.guard.contracts import RelevanceScorer
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeEstimator

GOOD = "We open at nine."
BAD = "The lake is deep."
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "context": 8192}]}


def make_guard(
    scorer: RelevanceScorer | None = None,
    *,
    confidence: float | None = None,
    registry: CollectorRegistry | None = None,
    observers: Sequence[Callable[[Decision], object]] = (),
    kept_margin: float | None = None,
    **options: Any,
) -> Guard:
    """A guard that follows passages with `nine`; with `confidence` it may answer too."""
    scorer = scorer or FakeScorer({"nine": 0.9}, default=0.1)
    estimator = None if confidence is None else FakeEstimator(default=confidence)
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.5,
        kept_margin=kept_margin,
        allowed_routes=tuple(Route),
        confidence_threshold=None if estimator is None else 0.5,
        estimator=None if estimator is None else estimator.fingerprint,
    )
    return Guard(
        policy,
        scorer=scorer,
        estimator=estimator,
        options=GuardOptions(**options),
        observers=observers,
        metrics=False if registry is None else GuardMetrics.on(registry),
    )


class Model:
    """An upstream that says `text`, one word a chunk, and records what it was asked.

    Attributes:
        bodies: of the requests.
        headers: of the requests.
        fault: response in place of an answer, by the number of the request.
    """

    def __init__(self, text: str = "At nine.") -> None:
        self.text = text
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self.fault: Callable[[int], httpx.Response | None] = lambda number: None

    @property
    def prompts(self) -> list[Any]:
        """Content of the last message of each request."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body = (
            {"path": request.url.path} if request.method == "GET" else json.loads(request.content)
        )
        self.bodies.append(body)
        self.headers.append(request.headers)
        if (failure := self.fault(len(self.bodies))) is not None:
            return failure
        if request.method == "GET":
            return httpx.Response(200, json=MODELS)
        if body.get("stream"):
            return httpx.Response(
                200, headers={"content-type": "text/event-stream"}, content=self._chunks(body)
            )
        return httpx.Response(200, content=json.dumps(completion(self.text, body)).encode())

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        for word in self.text.split(" "):
            yield chunk(word, body)
        yield b"data: [DONE]\n\n"


def completion(text: str, body: dict[str, Any]) -> dict[str, Any]:
    """A chat completion with fields that the proxy does not know."""
    message = {"role": "assistant", "content": text, "reasoning": "none"}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


def chunk(word: str, body: dict[str, Any]) -> bytes:
    """One event of a stream."""
    found = completion(word, body) | {"object": "chat.completion.chunk"}
    found["choices"] = [{"index": 0, "delta": {"content": word}, "finish_reason": None}]
    return b"data: " + json.dumps(found).encode() + b"\n\n"


def make_app(guard: Guard | None = None, model: Any = None, **options: Any) -> FastAPI:
    """An application; with `model` it is a proxy. `upstream_*` options are the upstream's."""
    own = {
        name.removeprefix("upstream_"): options.pop(name)
        for name in list(options)
        if name.startswith("upstream_")
    }
    proxied = {
        name: options.pop(name)
        for name in ("retriever", "retriever_seconds", "prompt")
        if name in options
    }
    proxy = None
    if model is not None:
        upstream = Upstream("http://model/v1", transport=httpx.MockTransport(model), **own)
        proxy = ProxyOptions(upstream, **proxied)
    options.setdefault("registry", CollectorRegistry())
    return create_app(guard or make_guard(), proxy=proxy, **options)


def client_of(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """A client on this machine, whose requests end in the application."""
    transport = httpx.ASGITransport(app, client=options.pop("client", ("127.0.0.1", 1)))
    return httpx.AsyncClient(
        transport=transport, base_url=options.pop("base_url", "http://127.0.0.1"), **options
    )


def chat(question: str = "When?", *passages: str, **fields: Any) -> dict[str, Any]:
    """A chat request with passages."""
    body = {"model": "m", "messages": [{"role": "user", "content": question}], **fields}
    if passages:
        body["knowgate"] = {"passages": list(passages)}
    return body


class Call:
    """One request to an application by hand, to see what is sent and when.

    Args:
        app: what is asked.
        path: of the request.
        body: sent as JSON.
    """

    def __init__(self, app: FastAPI, path: str, body: dict[str, Any]) -> None:
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._left = asyncio.Event()
        self._body: bytes | None = json.dumps(body).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self.sent.put))

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def next(self) -> MutableMapping[str, Any]:
        """The next message that is sent."""
        return await asyncio.wait_for(self.sent.get(), 30)

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()
