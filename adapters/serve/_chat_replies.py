"""Responses to chat requests: abstentions, and streams of the upstream with the decision."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...guard.text import clean_text
from ._errors import JSONReply, ServeError
from ._openai import (
    DONE,
    EVENT_STREAM,
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChunk,
    ChatRequest,
    Choice,
    ChunkChoice,
    Delta,
    Usage,
    event,
    new_id,
    now,
)

_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
_MOST_HELD = 2**20
# Proxies that would otherwise wait for the end.
_UNBUFFERED = {"X-Accel-Buffering": "no"}


def abstention(
    asked: ChatRequest, reply: str, extension: dict[str, Any], headers: Mapping[str, str]
) -> Response:
    """The reply of the guard itself, whole or as a stream."""
    model = clean_text(asked.model)
    if asked.stream:
        events = _said(asked, model, reply, extension)
        return Response(b"".join(events), media_type=EVENT_STREAM, headers=headers)
    message = AssistantMessage(content=reply)
    completion = ChatCompletion(
        model=model,
        choices=[Choice(index=index, message=message) for index in range(asked.n or 1)],
        usage=Usage(),
        knowgate=extension,
    )
    return JSONReply(completion, headers=headers)


def _said(asked: ChatRequest, model: str, reply: str, extension: dict[str, Any]) -> Iterator[bytes]:
    """The events of a stream that says `reply`, as OpenAI sends them."""
    start, created = new_id(), now()

    def chunk(choices: list[ChunkChoice], **more: Any) -> bytes:
        sent = ChatCompletionChunk(id=start, created=created, model=model, choices=choices, **more)
        return event(sent)

    indices = range(asked.n or 1)
    opening = Delta(role="assistant", content="")
    yield chunk([ChunkChoice(index=i, delta=opening) for i in indices], knowgate=extension)
    yield chunk([ChunkChoice(index=i, delta=Delta(content=reply)) for i in indices])
    yield chunk([ChunkChoice(index=i, finish_reason="stop") for i in indices])
    options = (asked.model_extra or {}).get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield chunk([], usage=Usage())
    yield DONE


class EventStream(StreamingResponse):
    """The stream of an upstream, sent on as it arrives.

    Its first event gets the field `knowgate`; everything else passes unchanged. A failure
    after the beginning is an event with an `error`, after which the stream ends without
    `[DONE]`.
    """

    _upstream: AsyncExitStack

    @classmethod
    async def opened(
        cls,
        stream: AbstractAsyncContextManager[AsyncIterator[bytes]],
        extension: dict[str, Any],
        headers: Mapping[str, str],
    ) -> EventStream:
        """The response to a request whose stream has begun.

        Raises:
            ServeError: it does not begin.
        """
        upstream = AsyncExitStack()
        pieces = marked(await upstream.enter_async_context(stream), extension)
        response = cls(pieces, media_type=EVENT_STREAM, headers={**_UNBUFFERED, **headers})
        response._upstream = upstream
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and end the upstream's part of it whatever happens."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with self._upstream:
            await send(start)
            try:
                async for piece in self.body_iterator:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except ServeError as error:
                last = b"\n\n" + event(error.body)
                await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def marked(pieces: AsyncIterator[bytes], extension: dict[str, Any]) -> AsyncIterator[bytes]:
    """The pieces of a stream, with the field `knowgate` in its first JSON object."""
    held: bytes | None = b""
    async for piece in pieces:
        if held is None:
            yield piece
            continue
        held += piece
        while held is not None and (found := _END_OF_EVENT.search(held)):
            one, rest = held[: found.end()], held[found.end() :]
            with_field = _with_field(one, extension)
            yield with_field or one
            held = rest
            if with_field is not None:
                if rest:
                    yield rest
                held = None
        if held is not None and len(held) > _MOST_HELD:
            yield held
            held = None
    if held:
        yield held


def _with_field(one: bytes, extension: dict[str, Any]) -> bytes | None:
    """An event with the field in its data; None where that is no JSON object."""
    lines = [line.removeprefix(b"data:") for line in one.splitlines() if line.startswith(b"data:")]
    try:
        found = json.loads(b"\n".join(lines))
        return event(found | {"knowgate": extension}) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None
