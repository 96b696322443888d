"""The guard as middleware of a LangChain agent.

    question ─► model ─► search ─► guard ─┬─ follow_context ─► model, with the kept passages
                                          ├─ answer ─────────► model, without any passage
                                          └─ abstain ────────► reply

The decision on a question is a coroutine that is given what calls the model and the guard: the
sync and async hooks of the middleware only differ in that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import ensure_config, set_config_context
from langchain_core.tools import BaseTool

from ...guard.decision import Decision, Mode, Reason, Route
from ...guard.errors import InputError, InputTooLargeError, MissingDependencyError, require_known
from ...guard.routing import at_once
from ..shadow import ShadowDecider, counted_abstention
from ._answer import RetrievalError, document_again, told_values
from ._documents import kept_documents, read_documents, readers, shown_text
from ._planning import OnRetrieverError, logger
from ._replies import Replies

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
    )
    from langchain.agents.middleware.types import OmitFromInput, ToolCallRequest
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command
except ImportError as error:
    raise MissingDependencyError(
        "GuardMiddleware needs `pip install 'knowgate[agents]'`"
    ) from error

if TYPE_CHECKING:
    from ...guard import Guard
    from ...guard.signals.support.contracts import ReplyVerdict

_CLOSED = "The search is over: answer from the passages that were found."
_STATE = "guard_decision"
# Held by the artifact of a message in place of a search that failed.
_FAILURES = (
    Reason.RETRIEVAL_FAILED.value,
    Reason.INVALID_PASSAGES.value,
    Reason.INPUT_TOO_LARGE.value,
)
_NOTHING = "No passage bears on the question."

_Request = ModelRequest[Any]
_Response = ModelResponse[Any]
_Result = _Response | ExtendedModelResponse[Any]
_ToolResult = ToolMessage | Command[Any]


class GuardState(AgentState[Any]):
    """The state of a guarded agent.

    Attributes:
        guard_decision: the decision on the last question that was decided, as a JSON object,
            with `question_id`, the id of the user's message, and for a reply that was checked
            `support` and `supported`. In shadow mode it has no more than the id and `mode`.
    """

    guard_decision: NotRequired[Annotated[dict[str, Any] | None, OmitFromInput]]


_Parts = Mapping[str, Callable[..., Any]]
# Has "model", "guard" or "check" called; unless `shown`, the user sees no token of it.
_Call = Callable[..., Awaitable[Any]]


class GuardMiddleware(AgentMiddleware[GuardState, Any, Any]):
    """Let an agent answer from what its tools retrieve, from memory, or not at all.

    The guard decides once for each message of the user, when the agent has searched (in as
    many parallel calls as it likes), before the model sees a passage. On `follow_context` the
    model gets the passages that bear on the question, on `answer` a history without any
    search, on `abstain` the agent ends with the reply. Later calls for the same question are
    under the same decision, and further searches are not made.

    What a search finds is read once, when the tool returns it: from a tool with
    `response_format="content_and_artifact"` the documents in its artifact, from others the
    text as one passage. Until the decision the message of the tool has no text; after it,
    the texts of the kept passages (blank lines between them), and its artifact the kept
    documents with their scores. Nothing that the guard left out stays in the history.

    The decision is in the agent's state (`guard_decision`), where checkpointers find it.
    In shadow mode the guard decides beside the agent and changes nothing.

    Args:
        guard: decides.
        tools: the tools that retrieve, or their names; all others are left alone.
        replies: as for `GuardedRAG`.
        searches: so many rounds of searching are made before the decision, if the agent
            wants them. With more than 1 the model sees what is not judged yet to plan its
            next search. If it answers instead, nobody sees that; the guard decides, and the
            model answers again. What it writes beside its calls is left out.
        question: messages → the question; by default the text of the user's last one. For
            follow-ups that cannot be understood alone.
        direct_answers: what becomes of an answer that the model gives without a search:
            `decide` (as for any question for which nothing was retrieved; it is streamed
            as one piece) or `allow`.
        on_retriever_error: as for `RagOptions`; for tools that raise.

    Raises:
        InputError: an argument is not what it should be.
        MissingDependencyError: langchain is not installed.
    """

    state_schema = GuardState

    def __init__(
        self,
        guard: Guard,
        tools: Collection[str | BaseTool],
        *,
        replies: str | Mapping[Reason | str, str] | Replies | None = None,
        searches: int = 1,
        question: Callable[[Sequence[BaseMessage]], str] | None = None,
        direct_answers: Literal["decide", "allow"] = "decide",
        on_retriever_error: OnRetrieverError = "abstain",
    ) -> None:
        super().__init__()
        if isinstance(tools, str) or not tools:
            raise InputError("no tool is named", where="tools", hint="give those that retrieve")
        if searches < 1:
            raise InputError("must be at least 1", where="searches")
        require_known(direct_answers, ("decide", "allow"), "direct_answers")
        self._guard = guard
        self._names = frozenset(t.name if isinstance(t, BaseTool) else t for t in tools)
        self._replies = Replies.of(replies, guard)
        self._searches, self._question = searches, question
        self._allow_direct = direct_answers == "allow"
        require_known(on_retriever_error, get_args(OnRetrieverError), "on_retriever_error")
        self._on_error = on_retriever_error
        self._shadow = ShadowDecider(guard) if guard.mode is Mode.SHADOW else None

    # -- calls of tools ---------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Read what a tool retrieved; other tools are called as they are."""

        async def call() -> _ToolResult:
            return handler(request)

        return at_once(self._search(request, call, is_async=False))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]]
    ) -> _ToolResult:
        """As `wrap_tool_call`, without blocking the event loop."""
        return await self._search(request, lambda: handler(request), is_async=True)

    async def _search(
        self,
        request: ToolCallRequest,
        call: Callable[[], Awaitable[_ToolResult]],
        *,
        is_async: bool,
    ) -> _ToolResult:
        if self._shadow is not None or request.tool_call["name"] not in self._names:
            return await call()
        if self._decided(request.state) is not None:
            return _message(request, content=_CLOSED, artifact=[])
        try:
            read = partial(self._read, request, await call())
            result: _ToolResult = await readers.acall(read, None) if is_async else read()
            return result
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - a failed retrieval has its own route
            return self._failed(request, error)

    def _read(self, request: ToolCallRequest, result: Any) -> Any:
        """The result of a search, its documents read and its text taken out.

        Raises:
            InputTooLargeError: it exceeds the guard's limits.
            RetrievalError: it has no documents that can be read.
        """
        if isinstance(result, list):
            return [self._read(request, one) for one in result]
        if isinstance(result, Command):
            update = result.update
            if not isinstance(update, Mapping) or not isinstance(update.get("messages"), list):
                raise RetrievalError("the tool returned a command without messages")
            messages = [
                self._read(request, one) if isinstance(one, ToolMessage) else one
                for one in update["messages"]
            ]
            return replace(result, update={**update, "messages": messages})
        if result.status == "error":
            return result
        documents = read_documents(found_in(result), self._guard.limits)
        name = request.tool_call["name"]
        return result.model_copy(update={"content": "", "artifact": documents, "name": name})

    def _failed(self, request: ToolCallRequest, error: Exception) -> ToolMessage:
        """The message in place of a search that failed.

        Raises:
            Exception: `error` itself, under `on_retriever_error="raise"`.
        """
        # The message may quote the question: only the type is logged.
        logger.warning("the retriever failed: %s", type(error).__name__)
        if self._on_error == "raise":
            raise error
        reason = Reason.RETRIEVAL_FAILED
        if isinstance(error, InputTooLargeError):
            reason = Reason.INPUT_TOO_LARGE
        elif isinstance(error, RetrievalError):
            reason = Reason.INVALID_PASSAGES
        return _message(request, content="", status="error", artifact=reason.value)

    # -- calls of the model -------------------------------------------------------------

    def wrap_model_call(
        self, request: _Request, handler: Callable[[_Request], _Response]
    ) -> _Result:
        """Call the model under the guard's decision, which is taken once for a question."""
        guard = self._guard
        parts: _Parts = {"model": handler, "guard": guard.decide, "check": guard.check_reply}
        return at_once(self._flow(request, partial(_called, parts)))

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Result:
        """As `wrap_model_call`, without blocking the event loop."""
        guard = self._guard
        parts: _Parts = {"model": handler, "guard": guard.adecide, "check": guard.acheck_reply}
        return await self._flow(request, partial(_called, parts))

    async def _flow(self, request: _Request, call: _Call) -> _Result:
        turn = _Turn.of(request.state["messages"], self._names)
        asked = partial(self._asked, request, turn)
        decided = self._decided(request.state)
        if decided is not None:
            if decided.get("route") == Route.ANSWER:
                answer: _Response = await call("model", self._without_searches(request))
                return answer
            answer, found = await self._answer(request, turn.documents, asked, call)
            return _updated(answer, {_STATE: {**decided, **found}}) if found else answer
        if self._shadow is not None:
            return self._beside(request, turn, await call("model", request))
        if self._allow_direct and not turn.steps:
            return _updated(await call("model", request), {_STATE: None})
        response: _Response | None = None
        if turn.steps < self._searches:
            shown = [_showing(message, found_in(message)) for message in turn.results]
            seen = replaced(request.messages, shown)
            unseen: _Response = await call("model", request.override(messages=seen), shown=False)
            if _calls_tools(unseen):
                return replace(unseen, result=[without_text(one) for one in unseen.result])
            response = unseen
        if turn.failure is None or turn.results:
            decision = await call("guard", asked(), turn.documents, shown=False)
        else:
            decision = counted_abstention(self._guard, turn.failure)
        return await self._act(request, turn, decision, response, call)

    async def _act(
        self,
        request: _Request,
        turn: _Turn,
        decision: Decision,
        response: _Response | None,
        call: _Call,
    ) -> _Result:
        """What follows from the decision.

        Args:
            request: of the model call.
            turn: that was decided.
            decision: on it.
            response: what the model said without being seen; None where it was not asked.
            call: has a part called.
        """
        shown = turn.showing_kept(decision)
        reply = self._replies.standing(decision, turn.documents)
        found: dict[str, Any] = {}
        if reply is not None:
            response = ModelResponse([AIMessage(reply)])
        elif decision.route is not Route.ANSWER:
            seen = request.override(messages=replaced(request.messages, shown))
            kept = [document for message in shown for document in found_in(message)]
            response, found = await self._answer(
                seen, kept, partial(self._asked, request, turn), call
            )
        else:
            closed_book = self._without_searches(request)
            if response is None or len(closed_book.messages) < len(request.messages):
                response = await call("model", closed_book)
        state = {"question_id": turn.question_id, **decision.model_dump(mode="json"), **found}
        return _updated(response, {_STATE: state, "messages": shown})

    async def _answer(
        self, seen: _Request, documents: list[Document], asked: Callable[[], str], call: _Call
    ) -> tuple[_Response, dict[str, Any]]:
        """Let the model answer from documents, and check what it says.

        Args:
            seen: what the model is given.
            documents: that the model sees.
            asked: returns the question.
            call: has a part called.

        Returns:
            The response, and `support` and `supported` for the state; nothing where replies are
            not checked, or the model goes on with a tool.
        """
        checker = self._guard.reply_checker
        if checker is None:
            return await call("model", seen), {}
        response: _Response = await call("model", seen, shown=not checker.holds_back)
        said = [one for one in response.result if isinstance(one, AIMessage)]
        if _calls_tools(response) or not said:
            return response, {}
        text = str(said[-1].text)
        if response.structured_response is not None:
            text = told_values(response.structured_response)
        verdict: ReplyVerdict = await call("check", text, documents, asked(), shown=False)
        if verdict.text != text:
            # Reasoning and metadata would tell what is not delivered.
            others = [one for one in response.result if one is not said[-1]]
            answer = AIMessage(self._replies.delivered(verdict), id=said[-1].id)
            response = replace(response, result=[*others, answer], structured_response=None)
        value = None if verdict.support is None else verdict.support.value
        return response, {"support": value, "supported": verdict.supported}

    def _beside(self, request: _Request, turn: _Turn, response: _Response) -> _Result:
        """Decide in shadow mode, which nothing waits for."""
        direct = not _calls_tools(response)
        if self._shadow is None or not (direct or turn.steps >= self._searches):
            return response
        if direct and not turn.steps and self._allow_direct:
            return response
        self._shadow.decide([(self._asked(request, turn), turn.documents)], lambda _: None)
        state = {"question_id": turn.question_id, "mode": Mode.SHADOW.value}
        return _updated(response, {_STATE: state})

    def _asked(self, request: _Request, turn: _Turn) -> str:
        if self._question is None:
            return turn.question
        return self._question(request.state["messages"])

    def _decided(self, state: Any) -> Mapping[str, Any] | None:
        """The decision on the question that is being answered; None before it."""
        held: Mapping[str, Any] | None = state.get(_STATE)
        turn = _Turn.of(state["messages"], self._names)
        return held if held is not None and held["question_id"] == turn.question_id else None

    def _without_searches(self, request: _Request) -> _Request:
        """The request of a closed-book answer: no passage, and no way to find any."""
        tools = [tool for tool in request.tools if _name(tool) not in self._names]
        messages = without_searches(request.messages, self._names)
        return request.override(messages=messages, tools=tools, tool_choice=None)


async def _called(parts: _Parts, name: str, *given: Any, shown: bool = True) -> Any:
    """What a part returns, in its sync or async form."""
    if shown:
        found = parts[name](*given)
        return await found if isawaitable(found) else found
    with _unseen() as context:
        found = context.run(parts[name], *given)
        return await context.run(asyncio.ensure_future, found) if isawaitable(found) else found


def _unseen() -> AbstractContextManager[Context]:
    """A context in which LangGraph streams no model call to the user."""
    config = ensure_config()
    return set_config_context({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})


def _calls_tools(response: _Response) -> bool:
    if response.structured_response is not None:
        return False
    return any(isinstance(m, AIMessage) and m.tool_calls for m in response.result)


def _updated(response: _Response, update: dict[str, Any]) -> _Result:
    return ExtendedModelResponse(response, Command(update=update))


def _message(request: ToolCallRequest, **fields: Any) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(name=call["name"], tool_call_id=call["id"], **fields)


def _name(tool: Any) -> Any:
    if isinstance(tool, Mapping):
        return tool.get("name") or (tool.get("function") or {}).get("name")
    return tool.name


# -- messages -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Turn:
    """The messages since the user's last one.

    Attributes:
        question_id: id of the user's message; None without one.
        question: its text.
        results: of the searches, in order.
        steps: how many model calls led to a search that has ended.
        failure: why a search failed; None where none did.
    """

    question_id: str | None
    question: str
    results: tuple[ToolMessage, ...]
    steps: int
    failure: Reason | None

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], searches: Collection[str]) -> _Turn:
        """The last turn of `messages`.

        Args:
            messages: the whole history.
            searches: names of the tools that retrieve.
        """
        starts = [i for i, one in enumerate(messages) if isinstance(one, HumanMessage)]
        since = messages[starts[-1] if starts else 0 :]
        asked = since[0] if starts else HumanMessage("")
        ended = [m for m in since if isinstance(m, ToolMessage) and m.name in searches]
        results = tuple(message for message in ended if message.status != "error")
        failures = [m for m in ended if m.status == "error" and m.artifact in _FAILURES]
        finished = {message.tool_call_id for message in (*results, *failures)}
        return cls(
            asked.id,
            str(asked.text),
            results,
            sum(bool(finished & _ids(m, searches)) for m in since if isinstance(m, AIMessage)),
            Reason(failures[0].artifact) if failures else None,
        )

    @property
    def documents(self) -> list[Document]:
        """What all searches found, in order."""
        return [document for message in self.results for document in found_in(message)]

    def showing_kept(self, decision: Decision) -> list[ToolMessage]:
        """The results with those documents only that belong into the prompt after `decision`."""
        kept = dict(zip(decision.kept, kept_documents(decision, self.documents), strict=False))
        shown, start = [], 0
        for message in self.results:
            end = start + len(found_in(message))
            shown.append(_showing(message, [kept[i] for i in range(start, end) if i in kept]))
            start = end
        return shown


def found_in(result: ToolMessage) -> list[Document]:
    """The documents of a search: those in its artifact, or else its text as one document."""
    if isinstance(result.artifact, list | tuple):
        # Checkpointers restore the documents in a message as mappings.
        found = [document_again(one) for one in result.artifact]
        if all(isinstance(one, Document) for one in found):
            return found
    return [Document(str(result.text))]


def _showing(result: ToolMessage, documents: list[Document]) -> ToolMessage:
    text = "\n\n".join(map(shown_text, documents)) or _NOTHING
    return result.model_copy(update={"content": text, "artifact": documents})


def replaced(messages: Sequence[Any], others: Sequence[BaseMessage]) -> list[Any]:
    """The messages, with those of `others` in place of the ones with the same ids."""
    by_id = {message.id: message for message in others}
    return [by_id.get(message.id, message) for message in messages]


def without_searches(messages: Sequence[Any], searches: Collection[str]) -> list[Any]:
    """The messages without any search: neither calls nor results are left.

    A message of the model that did nothing but search is left out with its text, which a
    provider might take for the beginning of an answer.
    """
    left: list[Any] = []
    dropped: set[str | None] = set()
    for message in messages:
        if isinstance(message, AIMessage) and (ids := _ids(message, searches)):
            dropped |= ids
            if len(ids) < len(message.tool_calls):
                left.append(_without_calls(message, ids))
        elif not (isinstance(message, ToolMessage) and message.tool_call_id in dropped):
            left.append(message)
    return left


def without_text(message: Any) -> Any:
    """A message of the model with its calls of tools only; other messages as they are."""
    if not isinstance(message, AIMessage):
        return message
    content: Any = ""
    if isinstance(message.content, list):
        blocks = [block for block in message.content if isinstance(block, dict)]
        content = [block for block in blocks if block.get("type") != "text"]
    return message.model_copy(update={"content": content})


def _ids(message: AIMessage, searches: Collection[str]) -> set[str | None]:
    return {call["id"] for call in message.tool_calls if call["name"] in searches}


def _without_calls(message: AIMessage, ids: Collection[str | None]) -> AIMessage:
    """A copy without these calls, wherever a provider repeats them."""
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not _is_one_of(block, ids)]
    extra = dict(message.additional_kwargs)
    if "tool_calls" in extra:
        extra["tool_calls"] = [c for c in extra["tool_calls"] if not _is_one_of(c, ids)]
    calls = [call for call in message.tool_calls if call["id"] not in ids]
    return message.model_copy(
        update={"content": content, "additional_kwargs": extra, "tool_calls": calls}
    )


def _is_one_of(block: object, ids: Collection[str | None]) -> bool:
    return isinstance(block, Mapping) and (block.get("call_id") or block.get("id")) in ids
