"""Messages of OpenAI's chat completions, as far as they are read or written here.

Requests keep the fields that are not listed (`model_extra`), so that a proxy can pass them on;
what is written has only the fields below. Errors of every endpoint have the shape of OpenAI's.

A stream is a sequence of server-sent events: `data: {chunk}`, one blank line after each, and
`data: [DONE]` at the end.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

EVENT_STREAM = "text/event-stream"
MOST_MESSAGES = 10_000
DONE = b"data: [DONE]\n\n"

FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "function_call"]


def new_id() -> str:
    """Make an id for a chat completion."""
    return f"chatcmpl-{uuid.uuid4().hex}"


def now() -> int:
    """Return the Unix time in whole seconds."""
    return int(time.time())


# -- requests ----------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError("a number is needed")
    return value


# JSON has one kind of number: 2.0 is a whole one too, and "2" is none.
_Whole = Annotated[int, Field(strict=False), BeforeValidator(_number)]
_Count = Annotated[int, Field(strict=False, ge=1), BeforeValidator(_number)]
_Replies = Annotated[int, Field(strict=False, ge=1, le=128), BeforeValidator(_number)]
_Likeliest = Annotated[int, Field(strict=False, ge=0, le=20), BeforeValidator(_number)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class ChatMessage(_Request):
    """One message of a conversation; `content` is text or a list of parts."""

    role: str = Field(max_length=64)
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text, or the text parts joined by line breaks."""
        if isinstance(self.content, str):
            return self.content
        parts = [part.get("text") for part in self.content or () if part.get("type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))


class ChatRequest(_Request):
    """The body of `POST /v1/chat/completions`.

    Fields that the guard does not read are kept as extra fields.
    """

    model: str = Field(max_length=256)
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool | None = None
    n: _Replies | None = None

    @property
    def question(self) -> str | None:
        """The text of the last message of the user; None without one."""
        asked = [message for message in self.messages if message.role == "user"]
        return asked[-1].text if asked else None


class SamplingRequest(ChatRequest):
    """A request as a server over a language model reads it: sampling and log-probabilities."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    seed: _Whole | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: _Likeliest | None = None
    stream_options: dict[str, Any] | None = None


# -- replies -----------------------------------------------------------------------------------


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TopLogprob(_Reply):
    """A token that might have stood there, with its natural-log probability."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class TokenLogprob(TopLogprob):
    """A token of a reply, with its natural-log probability and the likeliest tokens."""

    top_logprobs: list[TopLogprob] = Field(default_factory=list)


class Logprobs(_Reply):
    """Log-probabilities of the tokens of one choice."""

    content: list[TokenLogprob] | None = None
    refusal: None = None


class AssistantMessage(_Reply):
    """The message of a whole reply."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    refusal: None = None


class Choice(_Reply):
    """One of `n` replies."""

    index: int = 0
    message: AssistantMessage
    logprobs: Logprobs | None = None
    finish_reason: FinishReason = "stop"


class Usage(_Reply):
    """Numbers of tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class ChatCompletion(_Reply):
    """A whole reply; `knowgate` is the field that the guard adds."""

    id: str = Field(default_factory=new_id)
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(default_factory=now)
    model: str
    choices: list[Choice]
    usage: Usage | None = None
    system_fingerprint: str | None = None
    knowgate: dict[str, Any] | None = None


class Delta(_Reply):
    """What a chunk adds to the message of one choice."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(_Reply):
    """What a chunk adds to one of `n` replies; the last one has a `finish_reason`."""

    index: int = 0
    delta: Delta = Field(default_factory=Delta)
    logprobs: Logprobs | None = None
    finish_reason: FinishReason | None = None


class ChatCompletionChunk(_Reply):
    """One event of a stream; all of one stream have the same `id` and `created`."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str | None = None
    knowgate: dict[str, Any] | None = None


class ErrorDetail(_Reply):
    """What went wrong; never with text of a question, a passage or a reply.

    Attributes:
        message: one sentence.
        type: `invalid_request_error`, `authentication_error`, `rate_limit_error`,
            `upstream_error` or `server_error`.
        code: what a program tells errors apart by.
        param: the field of the request; None where it is not about one.
    """

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorBody(_Reply):
    """The body of every error."""

    error: ErrorDetail


# -- bytes -------------------------------------------------------------------------------------

# What OpenAI leaves out where it has no value; `finish_reason` and the like are null instead.
_LEFT_OUT = ("usage", "system_fingerprint", "knowgate")


def plain(message: BaseModel) -> dict[str, Any]:
    """`message` as it is sent: a delta has only what it adds, unset extensions are left out."""
    found: dict[str, Any] = message.model_dump(mode="json")
    for name in _LEFT_OUT:
        if name in found and found[name] is None:
            del found[name]
    if isinstance(message, ChatCompletionChunk):
        for choice in found["choices"]:
            choice["delta"] = {k: v for k, v in choice["delta"].items() if v is not None}
    return found


def as_json(value: BaseModel | dict[str, Any]) -> bytes:
    """`value` as JSON in ASCII, which holds any text, lone surrogates included.

    Raises:
        ValueError: it holds NaN or infinity.
    """
    found = plain(value) if isinstance(value, BaseModel) else value
    return json.dumps(found, allow_nan=False, separators=(",", ":")).encode("ascii")


def event(value: BaseModel | dict[str, Any]) -> bytes:
    """One server-sent event with `value` as its data."""
    return b"data: " + as_json(value) + b"\n\n"
