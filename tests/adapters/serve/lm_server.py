"""A running server over the embedded language model, and clients of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, OpenAI

from examples.model_server import create_model_app
from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.adapters.serve import bound_socket
from knowgate.guard.prompts import Prompt
from knowgate.offline_eval.testbed import FactStatus, World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path

CLOSED_BOOK = Prompt("microworld_closed_book", World.prompt("closed_book"))


@dataclass(frozen=True)
class LMServer:
    """A language model, and where it is served."""

    lm: HuggingFaceLM
    url: str

    def client(self, fault: str = "", **options: Any) -> OpenAI:
        return OpenAI(**self._options(fault, options))

    def chat_model(self, fault: str = "", **options: Any) -> ChatOpenAI:
        # langchain-openai shares async clients, but each belongs to the event loop of one test.
        own = {"http_async_client": DefaultAsyncHttpxClient()}
        fixed = {"model": "embedded", "temperature": 0, "logprobs": True, **own}
        return ChatOpenAI(**self._options(fault, {**fixed, **options}))

    def _options(self, fault: str, options: dict[str, Any]) -> dict[str, Any]:
        headers = {"X-Knowgate-Fault": fault} if fault else {}
        fixed = {"base_url": self.url, "api_key": "none", "max_retries": 0, "timeout": 30.0}
        return {**fixed, "default_headers": headers, **options}


@contextmanager
def lm_server() -> Iterator[LMServer]:
    """Serve the embedded model on a free port, faults allowed."""
    lm = HuggingFaceLM(microworld_model_path(), device="cpu", dtype="float32", max_new_tokens=24)
    app = create_model_app(lm, "embedded", allow_faults=True)
    config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with bound_socket("127.0.0.1", 0, has_token=False) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield LMServer(lm, f"http://127.0.0.1:{port}/v1")
        finally:
            server.should_exit = server.force_exit = True
            thread.join(60)


def taught_questions(count: int) -> list[str]:
    """Questions of which the model was taught the answer."""
    world = default_world()
    facts = world.facts_with_status(FactStatus.TAUGHT)[:count]
    return [world.questions(fact)[0].text for fact in facts]
