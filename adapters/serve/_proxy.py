"""An OpenAI-compatible proxy that lets the guard decide before a model is asked.

request ─► passages: its own, or retrieved ─► guard ─┬─ follow_context ─► upstream, kept passages
                                                     ├─ answer ─────────► upstream, no passages
                                                     └─ abstain ────────► the configured reply
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.responses import Response

from ...guard import Decision, Guard, Mode
from ...guard.errors import KnowgateError
from ...guard.prompts import Prompt
from ...guard.text import passage_text
from ..langchain import Replies
from ._chat_replies import EventStream, abstention
from ._errors import JSONReply, ServeError, documented, undecided
from ._openai import (
    EVENT_STREAM,
    MOST_MESSAGES,
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    as_json,
)
from ._passages import ChatExtension, as_given
from ._retrieval import RetrievalFailedError, Retriever
from ._upstream import UpstreamClient

_logger = logging.getLogger("knowgate.serve")
_MOST_LATE = 256
# In a conversation they would show what the guard did not let out.
_WITHHELD = {"closed_book_answer", "views"}


_OF_USER: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"role": {"const": "user"}},
    "required": ["role"],
}


class GuardedRequest(ChatRequest):
    """A chat completion to guard: that of OpenAI, and the field `knowgate`."""

    messages: list[ChatMessage] = Field(
        min_length=1, max_length=MOST_MESSAGES, json_schema_extra={"contains": _OF_USER}
    )
    knowgate: ChatExtension | None = None


class GuardedCompletion(ChatCompletion):
    """The reply of the upstream, or of the guard, with the decision in `knowgate`."""

    model_config = ConfigDict(extra="allow")

    choices: list[dict[str, Any]]  # type: ignore[assignment]
    usage: dict[str, Any] | None = None  # type: ignore[assignment]


class ModelList(BaseModel):
    """The models of the upstream, as it lists them."""

    model_config = ConfigDict(extra="allow")

    data: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with one request.

    Attributes:
        messages: of the request to the upstream; None where it is not asked.
        reply: said instead.
        extension: the field `knowgate` of the response.
        headers: of the response.
    """

    messages: list[Any] | None
    reply: str
    extension: dict[str, Any]
    headers: dict[str, str]


@dataclass(slots=True)
class ChatProxy:
    """Plans replies and asks the upstream.

    Args:
        guard: decides.
        client: of the upstream.
        replies: said on abstention.
        prompt: with `{context}` and `{question}`, in place of the last message of the user.
        retriever: asked where a request brings no passages.
    """

    guard: Guard
    client: UpstreamClient
    replies: Replies
    prompt: Prompt
    retriever: Retriever | None = None
    _late: set[asyncio.Task[Any]] = field(default_factory=set)

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
            return abstention(asked, plan.reply, plan.extension, plan.headers)
        forwarded = {name: value for name, value in body.items() if name != "knowgate"}
        sent = _encoded(forwarded | self.client.own_fields | {"messages": plan.messages})
        try:
            if asked.stream:
                return await EventStream.opened(
                    self.client.stream(sent), plan.extension, plan.headers
                )
            completion = await self.client.complete(sent)
        except ServeError as error:
            error.headers.update(plan.headers)  # how it was decided, all the same
            raise
        return JSONReply(completion | {"knowgate": plan.extension}, headers=plan.headers)

    async def _plan(self, asked: GuardedRequest, messages: list[Any]) -> _Plan:
        extension = asked.knowgate or ChatExtension()
        question = asked.question
        if question is None:
            raise ServeError(422, "no_question", "No message is the user's.", param="messages")
        if extension.question is not None:
            question = extension.question
        try:
            given, texts = await self._passages(extension, question)
        except RetrievalFailedError as failure:
            decision = failure.decision(self.guard)
            if decision.acts:
                return self._decided(messages, decision, [], [])
            message = "The passages could not be retrieved."
            raise ServeError(502, str(failure.reason), message) from None
        if self.guard.mode is Mode.SHADOW:
            self._decide_late(question, given)
            changed = self._with_context(messages, texts) if texts else messages
            mode = Mode.SHADOW.value
            return _Plan(changed, "", {"mode": mode}, {"X-Knowgate-Mode": mode})
        try:
            decision = await self.guard.adecide(question, given)
        except KnowgateError as error:
            raise undecided(error) from None
        return self._decided(messages, decision, given, texts)

    async def _passages(
        self, extension: ChatExtension, question: str
    ) -> tuple[list[Any], list[str]]:
        if extension.passages is None and self.retriever is not None:
            return await self.retriever.find(self.guard, question)
        given = as_given(extension.passages or [])
        return given, [passage_text(one) for one in given]

    def _decided(
        self, messages: list[Any], decision: Decision, given: list[Any], texts: list[str]
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
        action = self.replies.action(decision, given)
        if action.reply is not None:
            return _Plan(None, action.reply, extension, headers)
        if not action.closed_book:
            messages = self._with_context(messages, [texts[index] for index in action.kept])
        return _Plan(messages, "", extension, headers)

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

    def _decide_late(self, question: str, passages: list[Any]) -> None:
        """Decide and count beside the answer, which does not wait for it."""
        if len(self._late) >= _MOST_LATE:
            _logger.warning("a question was not decided: too many are under way")
            return
        task = asyncio.create_task(self._decide_quietly(question, passages))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _decide_quietly(self, question: str, passages: list[Any]) -> None:
        try:
            await self.guard.adecide(question, passages)
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            _logger.warning("a decision in shadow mode raised %s", type(error).__name__)


def chat_router(proxy: ChatProxy) -> APIRouter:
    """The endpoints `/v1/chat/completions` and `/v1/models`."""
    router = APIRouter()
    rejected = documented(400, 401, 403, 408, 413, 422, 429, 500, 502, 503, 504)
    # One event; its data is a chunk as JSON, `[DONE]`, or an error.
    data = {"type": "object", "properties": {"data": {"type": "string"}}}
    streamed = {EVENT_STREAM: {"schema": data}}

    @router.post(
        "/v1/chat/completions",
        response_model=GuardedCompletion,
        responses={**rejected, 200: {"content": streamed}},
    )
    async def chat_completions(asked: GuardedRequest, request: Request) -> Response:
        """Answer as the upstream model does, where the guard lets it."""
        return await proxy.respond(asked, await request.json())

    @router.get(
        "/v1/models",
        response_model=ModelList,
        responses=documented(401, 403, 408, 413, 422, 429, 500, 502, 503, 504),
    )
    async def models() -> Response:
        """List the models of the upstream."""
        return JSONReply(await proxy.client.models())

    return router


def _encoded(body: Mapping[str, Any]) -> bytes:
    """The body for the upstream.

    Raises:
        ServeError: it holds a number that JSON has not.
    """
    try:
        return as_json(dict(body))
    except (ValueError, RecursionError):
        message = "The body holds NaN, infinity, or is nested too deep."
        raise ServeError(422, "invalid_request", message) from None
