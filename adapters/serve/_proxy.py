"""An OpenAI-compatible proxy that lets the guard decide before a model is asked.

request ─► passages: its own, or retrieved ─► guard ─┬─ follow_context ─► upstream, kept passages
                                                     ├─ answer ─────────► upstream, no passages
                                                     └─ abstain ────────► the configured reply
"""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from fastapi import APIRouter, Request
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...guard import Decision, Guard, InputLimits, Mode, Reason, Route
from ...guard.deadlines import DeadlineRunner
from ...guard.errors import (
    NO_JSON,
    InputError,
    InputTooLargeError,
)
from ...guard.prompts import Prompt
from ...guard.text import clean_text, passage_text
from ..langchain import Replies
from ..shadow import ShadowDecider, counted_abstention
from ._bodies import (
    REJECTED,
    ChatExtension,
    ServeError,
    as_given,
    as_json,
    documented,
    fields_of,
    json_reply,
)
from ._support import ReplyGate, event_of, events_of, marked, text_of
from ._upstream import EVENT_STREAM, UpstreamClient

_MAX_MESSAGES = 10_000
# In a conversation they would show what the guard did not let out.
_WITHHELD = {"closed_book_answer", "views"}
_MAX_THREADS = 16
# Proxies that would otherwise wait for the end.
_UNBUFFERED = {"X-Accel-Buffering": "no"}
_READ = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)
_OF_USER: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"role": {"const": "user"}},
    "required": ["role"],
}


def _number(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError("is no number")
    return value


# From a question to what was retrieved for it, and the text of each passage, read once.
Search = Callable[[str], Awaitable[tuple[list[Any], list[str]]]]

# JSON has one kind of number: 2.0 is a whole one too, and "2" is none.
_Count = Annotated[int, Field(strict=False, ge=1, le=128), BeforeValidator(_number)]


class ChatMessage(BaseModel):
    """One message of a conversation; `content` is text or a list of parts."""

    model_config = _READ

    role: str = Field(max_length=64)
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text, or the text parts joined by line breaks."""
        if isinstance(self.content, list):
            return text_of([part for part in self.content if part.get("type") == "text"])
        return text_of(self.content)


class GuardedRequest(BaseModel):
    """A chat completion to guard: that of OpenAI, and the field `knowgate`.

    Fields that the guard does not read are kept as extra fields, so that they are passed on.
    """

    model_config = _READ

    model: str = Field(max_length=256)
    messages: list[ChatMessage] = Field(
        min_length=1, max_length=_MAX_MESSAGES, json_schema_extra={"contains": _OF_USER}
    )
    stream: bool | None = None
    n: _Count | None = None
    knowgate: ChatExtension | None = None

    @property
    def question(self) -> str | None:
        """The text of the last message of the user; None without one."""
        asked = [message for message in self.messages if message.role == "user"]
        return asked[-1].text if asked else None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with one request.

    Attributes:
        messages: of the request to the upstream; None where it is not asked.
        reply: said instead.
        extension: the field `knowgate` of the response.
        headers: of the response.
        gate: checks the reply of the upstream; None where it is not checked.
    """

    messages: list[Any] | None
    reply: str
    extension: dict[str, Any]
    headers: dict[str, str]
    gate: ReplyGate | None = None


@dataclass
class ChatProxy:
    """Plans replies and asks the upstream.

    Args:
        guard: decides.
        client: of the upstream.
        replies: said on abstention.
        prompt: with `{context}` and `{question}`, in place of the last message of the user.
        search: asked where a request brings no passages.
    """

    guard: Guard
    client: UpstreamClient
    replies: Replies
    prompt: Prompt
    search: Search | None = None

    @cached_property
    def _shadow(self) -> ShadowDecider:
        return ShadowDecider(self.guard)

    async def respond(self, asked: GuardedRequest, body: Mapping[str, Any]) -> Response:
        """Answer one request.

        Args:
            asked: as it was read.
            body: the same, as it came.

        Raises:
            ServeError: there is no answer.
        """
        plan = await self._plan(asked, body["messages"])
        if plan.messages is None:
            return _reply(asked, _abstention(asked, plan), plan)
        forwarded = {name: value for name, value in body.items() if name != "knowgate"}
        held = asked.stream and plan.gate is not None and plan.gate.checker.holds_back
        if held:
            # What may be withheld is asked for as a whole, and told once it is checked.
            forwarded = {k: v for k, v in forwarded.items() if k != "stream_options"}
            forwarded["stream"] = False
        sent = _encoded(forwarded | self.client.own_fields | {"messages": plan.messages})
        try:
            if asked.stream and not held:
                return await EventStream.opened(self.client.stream(sent), plan)
            completion = await self.client.complete(sent)
            if plan.gate is not None:
                completion, verdicts = await plan.gate.completion(completion)
                plan.extension["support"] = verdicts
        except ServeError as error:
            # How it was decided, all the same.
            error.headers.update(plan.headers)
            raise
        return _reply(asked, completion, plan)

    async def _plan(self, asked: GuardedRequest, messages: list[Any]) -> _Plan:
        extension = asked.knowgate or ChatExtension()
        question = asked.question
        if question is None:
            raise ServeError("no_question", param="messages")
        if extension.question is not None:
            question = extension.question
        try:
            given, texts = await self._passages(extension, question)
        except ServeError as failure:
            decision = counted_abstention(self.guard, Reason(failure.code))
            if not decision.acts:
                raise
            return self._decided(messages, question, decision, [], [])
        if self.guard.mode is Mode.SHADOW:
            self._shadow.decide([(question, given)], lambda _: None)
            changed = self._with_context(messages, texts) if texts else messages
            mode = Mode.SHADOW.value
            return _Plan(changed, "", {"mode": mode}, {"X-Knowgate-Mode": mode})
        decision = await self.guard.adecide(question, given)
        return self._decided(messages, question, decision, given, texts)

    async def _passages(
        self, extension: ChatExtension, question: str
    ) -> tuple[list[Any], list[str]]:
        if extension.passages is None and self.search is not None:
            return await self.search(question)
        given = as_given(extension.passages or [])
        return given, [passage_text(one) for one in given]

    def _decided(
        self,
        messages: list[Any],
        question: str,
        decision: Decision,
        given: list[Any],
        texts: list[str],
    ) -> _Plan:
        headers = {
            "X-Knowgate-Route": decision.route.value,
            "X-Knowgate-Reason": str(decision.reason),
            "X-Knowgate-Mode": decision.mode.value,
        }
        extension = {
            "decision": decision.model_dump(mode="json", exclude=_WITHHELD),
            "calibrated": self.guard.policy.state,
        }
        reply = self.replies.standing(decision, given)
        if reply is not None:
            return _Plan(None, reply, extension, headers)
        gate = None
        if decision.route is not Route.ANSWER:
            kept = [texts[index] for index in decision.kept]
            messages = self._with_context(messages, kept)
            if (checker := self.guard.reply_checker) is not None:
                gate = ReplyGate(checker, self.replies, kept, decision.kept, question)
        return _Plan(messages, "", extension, headers, gate)

    def _with_context(self, messages: list[Any], passages: Sequence[str]) -> list[Any]:
        """The messages with passages in the last one of the user; other parts of it stay."""
        index = max(i for i, one in enumerate(messages) if one["role"] == "user")
        message = ChatMessage.model_validate(messages[index])
        text = self.prompt.fill(context="\n\n".join(passages), question=message.text)
        content: Any = text
        if isinstance(message.content, list):
            others = [part for part in message.content if part.get("type") != "text"]
            content = [{"type": "text", "text": text}, *others]
        return [*messages[:index], {**messages[index], "content": content}, *messages[index + 1 :]]


def chat_router(proxy: ChatProxy) -> APIRouter:
    """The endpoints `/v1/chat/completions` and `/v1/models`."""
    router = APIRouter()
    # One event; its data is a chunk as JSON, `[DONE]`, or an error.
    data = {"type": "object", "properties": {"data": {"type": "string"}}}
    streamed = {EVENT_STREAM: {"schema": data}}

    @router.post(
        "/v1/chat/completions",
        response_model=dict[str, Any],
        responses={**REJECTED, 200: {"content": streamed}},
    )
    async def chat_completions(asked: GuardedRequest, request: Request) -> Response:
        """Answer as the upstream model does, where the guard lets it."""
        return await proxy.respond(asked, await request.json())

    @router.get(
        "/v1/models",
        response_model=dict[str, Any],
        responses=documented(401, 403, 408, 413, 422, 429, 500, 502, 503, 504),
    )
    async def models() -> Response:
        """List the models of the upstream."""
        return json_reply(await proxy.client.models())

    return router


def _encoded(body: Mapping[str, Any]) -> bytes:
    """The body for the upstream.

    Raises:
        ServeError: it holds a number that JSON has not.
    """
    try:
        return as_json(dict(body))
    except NO_JSON:
        message = "The body holds NaN, infinity, or is nested too deep."
        raise ServeError("invalid_request", message) from None


# -- retrieval ----------------------------------------------------------------------------------


def search_by(found: Any, seconds: float, limits: InputLimits) -> Search:
    """Make the search of the service.

    Args:
        found: a retriever or runnable of LangChain, or a function (async or not) from a
            question to documents, texts, or mappings with `text`.
        seconds: until a retrieval counts as failed.
        limits: of what is read.

    Raises:
        InputError: it is none of these.
        ServeError: by a search, where it raised, took too long, or returned what is no passages.
    """
    only_async = isinstance(found, RunnableLambda) and not hasattr(found, "func")
    invoke = getattr(found, "ainvoke" if only_async else "invoke", None)
    ask: Callable[[str], Any] = invoke if callable(invoke) else found
    if not callable(ask):
        what = f"a {type(found).__name__} is no retriever"
        hint = "name a LangChain retriever, or a function from a question to documents"
        raise InputError(what, hint=hint)
    if not seconds > 0:
        # Not NaN either.
        raise InputError("must be positive seconds", where="retriever_seconds")
    is_async = any(map(inspect.iscoroutinefunction, (ask, type(ask).__call__)))
    threads = DeadlineRunner(_MAX_THREADS)

    async def search(question: str) -> tuple[list[Any], list[str]]:
        try:
            if is_async:
                passages = await asyncio.wait_for(ask(question), seconds)
            else:
                passages = await threads.acall(lambda: ask(question), seconds)
        except Exception as error:
            raise ServeError(Reason.RETRIEVAL_FAILED.value) from error
        try:
            return await threads.acall(lambda: limits.read_passages(passages), seconds)
        except Exception as error:
            # A lazy document may raise anything.
            too_large = isinstance(error, InputTooLargeError)
            reason = Reason.INPUT_TOO_LARGE if too_large else Reason.INVALID_PASSAGES
            raise ServeError(reason.value) from error

    return search


# -- replies ------------------------------------------------------------------------------------


_NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _abstention(asked: GuardedRequest, plan: _Plan) -> dict[str, Any]:
    """The reply of the guard itself as a completion in OpenAI's shape."""
    rest = {"logprobs": None, "finish_reason": "stop"}
    message = {"role": "assistant", "content": plan.reply, "refusal": None}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": clean_text(asked.model),
        "choices": [{"index": i, "message": message, **rest} for i in range(asked.n or 1)],
        "usage": _NO_TOKENS,
    }


def _reply(asked: GuardedRequest, completion: dict[str, Any], plan: _Plan) -> Response:
    """A completion that is there: whole, or as the events of a stream, as the request asks."""
    if not asked.stream:
        return json_reply(completion | {"knowgate": plan.extension}, headers=plan.headers)
    options = fields_of(fields_of(asked.model_extra).get("stream_options"))
    with_usage = bool(options.get("include_usage"))
    events = b"".join(events_of(completion, plan.extension, with_usage=with_usage))
    return Response(events, media_type=EVENT_STREAM, headers=plan.headers)


class EventStream(StreamingResponse):
    """The stream of an upstream, sent on as it arrives.

    Its first event gets the field `knowgate`; all others pass unchanged. A failure
    after the beginning is an event with an `error`, after which the stream ends without
    `[DONE]`.
    """

    _upstream: AsyncExitStack

    @classmethod
    async def opened(
        cls,
        stream: AbstractAsyncContextManager[AsyncIterator[bytes]],
        plan: _Plan,
    ) -> EventStream:
        """The response to a request whose stream has begun.

        Raises:
            ServeError: it does not begin.
        """
        upstream = AsyncExitStack()
        events = marked(await upstream.enter_async_context(stream), plan.extension)
        if plan.gate is not None:
            events = plan.gate.streamed(events)
        headers = {**_UNBUFFERED, **plan.headers}
        response = cls(_with_failure(events), media_type=EVENT_STREAM, headers=headers)
        response._upstream = upstream
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and end the upstream's part of it whatever happens."""
        async with self._upstream:
            await self.stream_response(send)


async def _with_failure(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events; a failure of the upstream is the last one."""
    try:
        async for event in events:
            yield event
    except ServeError as error:
        yield b"\n\n" + event_of(error.body)
