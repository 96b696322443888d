"""A local model behind OpenAI's interface, to try programs offline and to see them meet faults.

    python examples/model_server.py --model smollm2 --port 8001 --allow-faults

`POST /v1/chat/completions` with n, logprobs, stream, seed, temperature, max_tokens and stop. With
`--allow-faults` the header `X-Knowgate-Fault` of a request asks for one of `FAULTS`, and
`429; seconds=0` sets how long the server is silent or asks to wait. Needs `knowgate[serve]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from knowgate.adapters.huggingface import HuggingFaceLM, model_folder
from knowgate.guard import Generation, KnowgateError
from knowgate.guard.deadlines import call_on_thread
from knowgate.offline_eval.testbed.check import microworld_model_path

# Name → what a client sees.
FAULTS = {
    "429": "too many requests, with Retry-After",
    "500": "an internal error",
    "timeout": "nothing, for an hour",
    "hang": "half of the reply, then nothing for an hour",
    "cut": "half of the reply, then the end of the connection",
    "empty": "status 200 without a body",
    "blank": "a reply without text",
    "not_json": "status 200 with a page of HTML",
    "wrong_n": "one choice fewer than asked for",
    "no_logprobs": "no log-probabilities, although asked for",
}


def create_model_app(lm: HuggingFaceLM, name: str, *, allow_faults: bool = False) -> FastAPI:
    """Serve a model under a name."""
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/v1/models")
    async def models() -> Any:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        asked = await request.json()
        fault, seconds = _fault(request.headers.get("x-knowgate-fault", ""))
        if fault and not (allow_faults and fault in FAULTS):
            return _error(400, f"Use --allow-faults and one of: {', '.join(FAULTS)}")
        if early := await _instead_of_a_reply(fault, seconds):
            return early
        try:
            generations, shown = await _generate(lm, asked)
        except KnowgateError:
            return _error(400, "The model cannot read the request.")
        body = _body(name, asked, generations, shown)
        _spoil(body, fault)
        if not asked.get("stream"):
            data = json.dumps(body).encode()
            if fault not in ("hang", "cut"):
                return Response(data, media_type="application/json")
            headers = {"Content-Length": str(len(data))}
            half = _half([data[: len(data) // 2]], fault, seconds)
            return StreamingResponse(half, media_type="application/json", headers=headers)
        events = list(_events(body))
        if fault in ("hang", "cut"):
            half = _half(events[: len(events) // 2], fault, seconds)
            return StreamingResponse(half, media_type="text/event-stream")
        return StreamingResponse(iter(events), media_type="text/event-stream")

    return app


async def _generate(
    lm: HuggingFaceLM, asked: dict[str, Any]
) -> tuple[list[Generation], list[list[str]]]:
    """The replies, and the text of each of their tokens."""
    encoder = lm.engine.encoder
    turns = [{"role": one["role"], "content": one["content"]} for one in asked["messages"]]
    stop = asked.get("stop")
    settings = lm.settings(
        n=asked.get("n") or 1,
        temperature=asked.get("temperature", 1.0),
        seed=asked.get("seed"),
        stop=[stop] if isinstance(stop, str) else stop,
        max_new_tokens=asked.get("max_completion_tokens") or asked.get("max_tokens"),
    )
    prompts = [encoder.render_messages(turns)]
    [answers] = await call_on_thread(lambda: lm.engine.complete(prompts, settings))
    texts = [lm.engine.text(answer, settings.stop) for answer in answers]
    found = [Generation(t, tuple(a.logprobs)) for t, a in zip(texts, answers, strict=True)]
    return found, [[encoder.text_of([token]) for token in answer.ids] for answer in answers]


def _body(
    name: str, asked: dict[str, Any], generations: list[Generation], shown: list[list[str]]
) -> dict[str, Any]:
    choices = []
    for index, (one, tokens) in enumerate(zip(generations, shown, strict=True)):
        values = zip(tokens, one.token_logprobs or (), strict=True)
        content: list[dict[str, Any]] = [
            {"token": t, "logprob": p, "bytes": None, "top_logprobs": []} for t, p in values
        ]
        choices.append(
            {
                "index": index,
                "message": {"role": "assistant", "content": one.text},
                "logprobs": {"content": content} if asked.get("logprobs") else None,
                "finish_reason": "stop",
            }
        )
    said = sum(map(len, shown))
    usage = {"prompt_tokens": 0, "completion_tokens": said, "total_tokens": said}
    start = {"id": "chatcmpl-1", "object": "chat.completion", "created": int(time.time())}
    return {**start, "model": name, "choices": choices, "usage": usage}


def _events(body: dict[str, Any]) -> Iterator[bytes]:
    """Each reply in two pieces, as server-sent events."""
    start = {key: body[key] for key in ("id", "created", "model")}
    for choice in body["choices"]:
        text = choice["message"]["content"]
        middle = (len(text) + 1) // 2
        for part, finish in ((text[:middle], None), (text[middle:], "stop")):
            delta = {"role": "assistant", "content": part}
            one = {"index": choice["index"], "delta": delta, "finish_reason": finish}
            chunk = {**start, "object": "chat.completion.chunk", "choices": [one]}
            yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _fault(header: str) -> tuple[str, float]:
    name, _, rest = (part.strip() for part in header.partition(";"))
    return name, float(rest.removeprefix("seconds=") or (1 if name == "429" else 3600))


async def _instead_of_a_reply(fault: str, seconds: float) -> Response | None:
    if fault == "429":
        found = _error(429, "Too many requests, as was asked for.")
        found.headers["Retry-After"] = f"{seconds:g}"
        return found
    if fault == "timeout":
        await asyncio.sleep(seconds)
    if fault in ("500", "timeout"):
        return _error(500, "An error, as was asked for.")
    if fault == "empty":
        return Response(b"", media_type="application/json")
    page = b"<html><body>Bad gateway</body></html>"
    return Response(page, media_type="text/html") if fault == "not_json" else None


def _spoil(body: dict[str, Any], fault: str) -> None:
    if fault == "wrong_n":
        body["choices"].pop()
    for choice in body["choices"]:
        if fault == "blank":
            choice["message"]["content"] = ""
        if fault in ("blank", "no_logprobs"):
            choice["logprobs"] = None


async def _half(parts: list[bytes], fault: str, seconds: float) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if fault == "hang":
        await asyncio.sleep(seconds)
    raise ConnectionResetError  # with the rest unsent the server closes the connection


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded", help="embedded, smollm2, gguf:FILE, folder")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--allow-faults", action="store_true")
    args = parser.parse_args()
    known = microworld_model_path() if args.model == "embedded" else model_folder(args.model)
    served = create_model_app(
        HuggingFaceLM(known or args.model), args.model, allow_faults=args.allow_faults
    )
    uvicorn.run(served, port=args.port)
