"""Any client of OpenAI's API gets the guard by its base URL: `python examples/proxy.py`.

Starts a model and the guard in front of it, both on free ports of this machine, and asks with curl.
In production: `knowgate serve --policy policy.json --upstream URL`. Needs `knowgate[serve]`.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from knowgate import Guard
from knowgate.adapters.serve import ProxyOptions, Upstream, bound_socket, create_app

PAGES = ["The library opens at nine.", "A lost reader card costs four euros to replace."]
model = FastAPI()


@model.post("/v1/chat/completions")
async def complete(body: dict[str, Any]) -> dict[str, Any]:
    """Stand for a model: it always says the same."""
    message = {"role": "assistant", "content": "It opens at nine."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [choice]}  # fmt: skip


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve an application on a free port; yields its base URL."""
    listening = bound_socket("127.0.0.1", 0, has_token=False)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()


def curl(base_url: str, question: str) -> dict[str, Any]:
    """Ask like any client; the passages come in a field of their own."""
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": question}],
        "knowgate": {"passages": PAGES},
    }
    command = ["curl", "-sS", "--noproxy", "*", f"{base_url}/chat/completions",
               "-H", "content-type: application/json", "-d", json.dumps(body)]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    with running(model) as upstream:
        proxy = create_app(Guard.default(), proxy=ProxyOptions(Upstream(upstream)))
        with running(proxy) as base_url:
            for asked in ("When does the library open?", "Who painted the ceiling of the museum?"):
                reply = curl(base_url, asked)
                said = reply["choices"][0]["message"]["content"]
                print(f"{asked} [{reply['knowgate']['decision']['route']}] {said}")
