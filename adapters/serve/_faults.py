"""Faults that a server over a language model shows on request, to test its clients with.

The header `X-Knowgate-Fault: NAME` of a request asks for one, `NAME; seconds=2` for one that
takes so long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from starlette.responses import Response, StreamingResponse

from ._errors import ServeError, reply_to
from ._openai import (
    DONE,
    EVENT_STREAM,
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    Delta,
    as_json,
    event,
)

FAULT_HEADER = "x-knowgate-fault"

# Name → what a client sees.
FAULTS = MappingProxyType(
    {
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
)
_HOUR = 3600.0
_PAGE = b"<html><body>Bad gateway</body></html>"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one reply.

    Attributes:
        name: a key of `FAULTS`.
        seconds: how long the server is silent, or asks its client to wait.
    """

    name: str
    seconds: float

    @classmethod
    def read(cls, header: str) -> Fault:
        """The fault that a header asks for.

        Raises:
            ServeError: there is none of that name, or the seconds are no number.
        """
        name, _, rest = (part.strip() for part in header.partition(";"))
        seconds = 1.0 if name == "429" else _HOUR
        try:
            if rest:
                seconds = float(rest.removeprefix("seconds="))
        except ValueError:
            seconds = math.nan
        if name not in FAULTS or not 0 <= seconds <= _HOUR:
            message = f"Use one of: {', '.join(FAULTS)}; or NAME; seconds=0 to 3600."
            raise ServeError(400, "unknown_fault", message, param=FAULT_HEADER)
        return cls(name, seconds)

    async def instead(self) -> Response | None:
        """The response where the model is not asked at all; None where it is."""
        if self.name == "429":
            wait = {"Retry-After": f"{self.seconds:g}"}
            message = "Too many requests, as was asked for."
            return reply_to(ServeError(429, "rate_limited", message, headers=wait))
        if self.name == "500":
            return reply_to(ServeError(500, "internal_error", "An error, as was asked for."))
        if self.name == "timeout":
            await asyncio.sleep(self.seconds)
            return reply_to(ServeError(504, "timeout", "Silence, as was asked for."))
        if self.name == "empty":
            return Response(b"", media_type="application/json")
        return Response(_PAGE, media_type="text/html") if self.name == "not_json" else None

    def reply(self, completion: ChatCompletion) -> Response:
        """The response with this fault in place of `completion`."""
        choices = completion.choices
        if self.name == "wrong_n":
            choices = choices[:-1]
        if self.name == "blank":
            choices = [_blank(choice) for choice in choices]
        if self.name in ("blank", "no_logprobs"):
            choices = [choice.model_copy(update={"logprobs": None}) for choice in choices]
        body = as_json(completion.model_copy(update={"choices": choices}))
        if self.name not in ("hang", "cut"):
            return Response(body, media_type="application/json")
        headers = {"Content-Length": str(len(body))}
        return StreamingResponse(
            self._half([body[: len(body) // 2]]), media_type="application/json", headers=headers
        )

    def stream(self, completion: ChatCompletion) -> Response:
        """As `reply`, as events."""
        chunk = partial(
            ChatCompletionChunk,
            id=completion.id,
            created=completion.created,
            model=completion.model,
        )
        events = []
        for choice in completion.choices:
            text = "" if self.name == "blank" else choice.message.content or ""
            middle = (len(text) + 1) // 2
            first, last = (
                Delta(role="assistant", content=text[:middle]),
                Delta(content=text[middle:]),
            )
            events += [
                event(chunk(choices=[ChunkChoice(index=choice.index, delta=first)])),
                event(
                    chunk(
                        choices=[ChunkChoice(index=choice.index, delta=last, finish_reason="stop")]
                    )
                ),
            ]
        if self.name == "wrong_n":
            events = events[:-2]
        if self.name in ("hang", "cut"):
            parts = self._half(events[: len(events) // 2])
            return StreamingResponse(parts, media_type=EVENT_STREAM)
        return Response(b"".join([*events, DONE]), media_type=EVENT_STREAM)

    async def _half(self, parts: list[bytes]) -> AsyncIterator[bytes]:
        for part in parts:
            yield part
        if self.name == "hang":
            await asyncio.sleep(self.seconds)
        # With the rest unsent the server closes the connection.
        raise ConnectionResetError


def _blank(choice: Choice) -> Choice:
    return choice.model_copy(update={"message": AssistantMessage(content="")})
