"""An OpenAI-compatible server on the loopback interface, and its usual client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from langchain_openai import ChatOpenAI

# A request's body → None to answer it, or status, headers and error of a rejection.
Fault = Callable[["Server", Mapping[str, Any]], "tuple[int, dict[str, str], dict[str, Any]] | None"]


@dataclass
class Server:
    """One server and what it was asked.

    Attributes:
        say: text of the k-th reply to a request (from 0), by its body.
        fault: decides which requests are rejected.
        bodies, started: of every request, in order; times are monotonic.
    """

    say: Callable[[Mapping[str, Any], int], str] = lambda body, k: "Paris"
    fault: Fault = lambda server, body: None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    url: str = ""

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A chat completion as OpenAI writes it."""
        count = body.get("n") or 1
        choices = []
        for index in range(count):
            text = self.say(body, index)
            choice: dict[str, Any] = {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
            if body.get("logprobs"):
                token = {"token": text, "logprob": -0.1 * (index + 1), "top_logprobs": []}
                choice["logprobs"] = {"content": [token], "refusal": None}
            choices.append(choice)
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": choices,
            "usage": {
                "prompt_tokens": 12,
                "completion_tokens": 3 * count,
                "total_tokens": 12 + 3 * count,
            },
            "system_fingerprint": "fp_1",
        }


def busy(times: int, **headers: str) -> Fault:
    """A server that is over its rate limit for the first requests."""

    def fault(server: Server, body: Mapping[str, Any]) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        error = {"message": "slow down", "type": "rate_limit", "param": None, "code": None}
        return (429, given, error) if len(server.bodies) <= times else None

    return fault


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Run the server; its `url` is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.started.append(time.monotonic())
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            fault = server.fault(server, body)
            status, headers, answer = fault or (200, {}, server.answer(body))
            text = json.dumps(answer if fault is None else {"error": answer}).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: Any) -> None:
            """Nothing is logged."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{web.server_port}/v1"
    try:
        yield server
    finally:
        web.shutdown()
        web.server_close()
        thread.join()


def chat_model(server: Server, **settings: Any) -> ChatOpenAI:
    """A chat model of the server, by the class that users have."""
    given = {"model": "gpt-4o-mini", "api_key": "sk-secret", "base_url": server.url, **settings}
    return ChatOpenAI(**given)
