"""An OpenAI-compatible server on the loopback interface, and a chat model like its usual client.

`ChatOpenAI` is that of `langchain_openai` where it is installed, else a small class with the
same fields, clients and errors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Any

import httpx
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, model_validator

# A request's body → None to answer it, or status, headers and error of a rejection.
Fault = Callable[["Server", Mapping[str, Any]], "tuple[int, dict[str, str], dict[str, Any]] | None"]


@dataclass
class Server:
    """One server and what it was asked.

    Attributes:
        say: text of the k-th reply to a request (from 0), by its body.
        fault: decides which requests are rejected.
        most_replies: of one request, whatever its `n`.
        bodies, started: of every request, in order; times are monotonic.
    """

    say: Callable[[Mapping[str, Any], int], str] = lambda body, k: "Paris"
    fault: Fault = lambda server, body: None
    most_replies: int = 128
    bodies: list[dict[str, Any]] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    url: str = ""

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A chat completion as OpenAI writes it."""
        count = min(body.get("n") or 1, self.most_replies)
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


def rejecting(param: str, *, named: bool = True, status: int = 400) -> Fault:
    """A server that rejects an option, and names it or not."""

    def fault(server: Server, body: Mapping[str, Any]) -> Any:
        if param not in body:
            return None
        error = {"message": "not with this model", "type": "invalid_request_error"}
        return status, {}, {**error, "param": param if named else None, "code": None}

    return fault


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


# -- the client, where langchain_openai is not installed --------------------------------------


class APIStatusError(Exception):
    """As the `openai` package raises it."""

    def __init__(self, response: httpx.Response) -> None:
        error = response.json().get("error", {})
        self.response, self.status_code = response, response.status_code
        self.param = error.get("param")
        super().__init__(f"Error code: {response.status_code} - {error}")


@dataclass
class _Client:
    url: str
    max_retries: int = 2

    @property
    def chat(self) -> _Client:
        return self

    @property
    def completions(self) -> _Client:
        return self

    def with_options(self, *, max_retries: int) -> _Client:
        return _Client(self.url, max_retries)

    def create(self, **body: Any) -> dict[str, Any]:
        for left in range(self.max_retries, -1, -1):
            response = httpx.post(f"{self.url}/chat/completions", json=body)
            if response.status_code == 200:
                found: dict[str, Any] = response.json()
                return found
            if response.status_code != 429 or not left:
                raise APIStatusError(response)
            time.sleep(0.01)
        raise AssertionError


class FakeChatOpenAI(BaseChatModel):
    """A chat model with the fields of `langchain_openai.ChatOpenAI` that matter here."""

    client: Any = Field(default=None, exclude=True)
    root_client: Any = Field(default=None, exclude=True)
    model_name: str = Field(default="gpt", alias="model")
    temperature: float | None = None
    openai_api_key: str = Field(default="", alias="api_key")
    openai_api_base: str = Field(default="", alias="base_url")
    request_timeout: float | None = Field(default=None, alias="timeout")
    max_retries: int | None = None
    logprobs: bool | None = None
    streaming: bool = False
    n: int | None = None

    @model_validator(mode="after")
    def _connect(self) -> FakeChatOpenAI:
        retries = 2 if self.max_retries is None else self.max_retries
        self.root_client = self.client = _Client(self.openai_api_base, retries)
        return self

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, **self._default_params}

    @property
    def _default_params(self) -> dict[str, Any]:
        optional = {"temperature": self.temperature, "logprobs": self.logprobs, "n": self.n}
        given = {name: value for name, value in optional.items() if value is not None}
        return {"model": self.model_name, "stream": self.streaming, **given}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = [{"role": "user", "content": message.text} for message in messages]
        body = {**self._default_params, **kwargs, **({} if stop is None else {"stop": stop})}
        found = self.client.create(messages=said, **body)
        usage = found["usage"]
        generations = [
            ChatGeneration(
                message=AIMessage(
                    choice["message"]["content"],
                    usage_metadata={
                        "input_tokens": usage["prompt_tokens"],
                        "output_tokens": usage["completion_tokens"],
                        "total_tokens": usage["total_tokens"],
                    },
                ),
                generation_info={"logprobs": choice["logprobs"]},
            )
            for choice in found["choices"]
        ]
        return ChatResult(generations=generations)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        import asyncio

        return await asyncio.to_thread(self._generate, messages, stop, None, **kwargs)


def chat_model(server: Server, **settings: Any) -> BaseChatModel:
    """A chat model of the server, by the class that users have."""
    made: Any = FakeChatOpenAI
    if find_spec("langchain_openai") is not None:
        made = import_module("langchain_openai").ChatOpenAI
    given = {"model": "gpt-4o-mini", "api_key": "sk-secret", "base_url": server.url, **settings}
    model: BaseChatModel = made(**given)
    return model
