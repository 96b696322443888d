"""What a chat model's class and server can do: several replies at once, log-probabilities."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeVar, cast

from langchain_core.exceptions import ContextOverflowError
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config, merge_configs

_Replies = TypeVar("_Replies")

_logger = logging.getLogger("knowgate.adapters.langchain")

# Options that calls can do without, where a server rejects them.
_SPARE = ("temperature", "logprobs", "n")
# Statuses by which servers reject a request for what it says.
_REJECTED = frozenset({400, 422})


class Capabilities:
    """Options that a model takes: those of its class, less what its server rejected before.

    Args:
        model: as calls are made to it.
    """

    def __init__(self, model: Runnable[Any, Any]) -> None:
        self._name = class_name(model)
        chat = _chat_model(model)
        fields = {} if chat is None else type(chat).model_fields
        # The other interface of OpenAI has neither option. Other classes mean other things by
        # these names, or their servers take one reply only.
        plain = not getattr(chat, "use_responses_api", None)
        several = "n" in fields and "root_client" in fields
        self._several = plain and several and not getattr(chat, "streaming", False)
        on_or_off = "logprobs" in fields and fields["logprobs"].annotation in (bool, bool | None)
        told = _told(model, "logprobs") if on_or_off else None
        self._logprobs = plain and on_or_off and told is None
        self._told = bool(told)
        # One word is written at a time, by any thread, and never taken back.
        self._rejected: set[str] = set()
        self._accepted: set[str] = set()

    @property
    def logprobs(self) -> bool:
        """Whether replies are asked for with log-probabilities, which estimators then use."""
        return self._logprobs or self._told

    @property
    def several(self) -> bool:
        """Whether one request can ask for several replies."""
        return self._several and "n" not in self._rejected

    def call(
        self,
        options: Mapping[str, Any],
        count: int,
        request: Callable[[dict[str, Any]], _Replies],
    ) -> _Replies:
        """Make a request, again without options that the server rejects.

        Args:
            options: of the call.
            count: replies asked for; more than one only where `several`.
            request: makes it, with the options that it is given.

        Raises:
            Exception: the request's own error, where it is not about an option.
        """
        flow = self._flow(options, count)
        try:
            sent = next(flow)
            while True:
                try:
                    found = request(sent)
                except Exception as error:  # noqa: BLE001 - the flow raises it again, or goes on
                    sent = flow.throw(error)
                else:
                    sent = flow.send(found)
        except StopIteration as stop:
            return cast("_Replies", stop.value)

    async def acall(
        self,
        options: Mapping[str, Any],
        count: int,
        request: Callable[[dict[str, Any]], Awaitable[_Replies]],
    ) -> _Replies:
        """As `call`, without blocking the event loop."""
        flow = self._flow(options, count)
        try:
            sent = next(flow)
            while True:
                try:
                    found = await request(sent)
                except Exception as error:  # noqa: BLE001 - the flow raises it again, or goes on
                    sent = flow.throw(error)
                else:
                    sent = flow.send(found)
        except StopIteration as stop:
            return cast("_Replies", stop.value)

    def _flow(self, options: Mapping[str, Any], count: int) -> Generator[dict[str, Any], Any, Any]:
        """Yield options to make the request with; is sent its replies, or thrown its error."""
        sent = dict(options)
        if self._logprobs:
            sent.setdefault("logprobs", True)
        if count > 1:
            sent["n"] = count
        for name in self._rejected & set(_SPARE):
            sent.pop(name, None)
        doubtful = {name for name in _SPARE if name in sent} - self._accepted
        try:
            reply = yield sent
        except Exception as error:
            if not doubtful or not _rejects(error):
                raise
            sent, reply = yield from self._spared(sent, doubtful, error)
        self._accepted.update(sent)
        return reply

    def ignores_n(self) -> None:
        """Record that the server gave one reply where several were asked for."""
        self._rejected.add("n")

    def _spared(
        self, sent: dict[str, Any], doubtful: set[str], error: Exception
    ) -> Generator[dict[str, Any], Any, tuple[dict[str, Any], Any]]:
        """Leave out what the error names, else one option after the other, else all."""
        named: set[str] = set()
        first = error
        while (name := str(getattr(error, "param", None))) in doubtful - named:
            named.add(name)
            kept = _without(sent, named)
            try:
                return kept, self._learned(named, (yield kept))
            except Exception as another:
                if not _rejects(another):
                    raise
                error = another
        tries = [{name} for name in _SPARE if name in doubtful - named]
        for left_out in [*tries, *([doubtful] if len(doubtful) > 1 else [])]:
            kept = _without(sent, left_out)
            try:
                return kept, self._learned(left_out, (yield kept))
            except Exception as another:
                if not _rejects(another):
                    raise
        raise first

    def _learned(self, left_out: set[str], reply: Any) -> Any:
        self._rejected |= left_out
        names = ", ".join(sorted(left_out))
        _logger.warning("%s rejects %s: calls are made without", self._name, names)
        return reply


def _without(options: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _rejects(error: Exception) -> bool:
    """Whether a server rejected the request itself, by status; the text is never looked at."""
    if isinstance(error, ContextOverflowError):
        return False
    holders = (error, getattr(error, "response", None))
    return any(getattr(holder, "status_code", None) in _REJECTED for holder in holders)


def replies(
    model: Runnable[Any, Any],
    messages: list[BaseMessage],
    config: RunnableConfig,
    options: Mapping[str, Any],
) -> list[Any]:
    """The replies to one request: several where the options have `n`."""
    if "n" not in options:
        return [model.invoke(messages, config, **options)]
    chat, given = _unbound(model, config, options)
    return _messages(chat.generate([messages], **given))


async def areplies(
    model: Runnable[Any, Any],
    messages: list[BaseMessage],
    config: RunnableConfig,
    options: Mapping[str, Any],
) -> list[Any]:
    """As `replies`, without blocking the event loop."""
    if "n" not in options:
        return [await model.ainvoke(messages, config, **options)]
    chat, given = _unbound(model, config, options)
    return _messages(await chat.agenerate([messages], **given))


def _unbound(
    model: Any, config: RunnableConfig, options: Mapping[str, Any]
) -> tuple[BaseChatModel, dict[str, Any]]:
    """The chat model, and keyword arguments of its `generate`, which gives all replies."""
    given = dict(options)
    while isinstance(model, RunnableBinding):
        given = {**model.kwargs, **given}
        config = merge_configs(model.config, config)
        model = model.bound
    # As `invoke` does it: the call becomes a child of the run that it serves.
    config = ensure_config(config)
    about = {name: config.get(name) for name in ("callbacks", "tags", "metadata", "run_name")}
    # A stream would mix the words of several replies.
    return model, {**given, "stream": False, **about}


def _messages(result: Any) -> list[Any]:
    [generations] = result.generations
    return [generation.message for generation in generations]


def _chat_model(model: Any) -> BaseChatModel | None:
    """The chat model itself, looked up through plain bindings only."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    return model if isinstance(model, BaseChatModel) else None


def _told(model: Any, option: str) -> Any:
    """What the caller set an option to, on the model or by binding it; None for nothing."""
    while isinstance(model, RunnableBinding):
        if option in model.kwargs:
            return model.kwargs[option]
        model = model.bound
    return getattr(model, option) if option in model.model_fields_set else None


def class_name(model: Runnable[Any, Any]) -> str:
    """Name of the model's class, looked up through its bindings."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return type(model).__name__


# -- copies of a model ----------------------------------------------------------------------


def uncached(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """`model` as it is where no cache is in use, else a copy that asks none.

    Looks through bindings, sequences and fallbacks; the caller's model is never changed.
    """

    def copied(one: BaseLanguageModel[Any]) -> BaseLanguageModel[Any]:
        in_use = one.cache is not False and not (one.cache is None and get_llm_cache() is None)
        return one.model_copy(update={"cache": False}) if in_use else one

    return _with_models(model, copied)


def without_retries(model: Runnable[Any, Any]) -> tuple[Runnable[Any, Any], bool]:
    """A copy of `model` whose client makes one attempt, so that attempts do not multiply.

    Returns:
        The copy, or `model` as it is; and whether a client is left that repeats calls by itself.
    """
    left = False

    def copied(one: BaseLanguageModel[Any]) -> BaseLanguageModel[Any]:
        nonlocal left
        if "max_retries" not in type(one).model_fields or getattr(one, "max_retries", None) == 0:
            return one
        single = _single_attempt(one)
        left = left or single is None
        return one if single is None else single

    return _with_models(model, copied), left


def _single_attempt(model: BaseLanguageModel[Any]) -> BaseLanguageModel[Any] | None:
    """A copy of a model on clients of the `openai` package; None for any other."""
    clients: dict[str, Any] = {}
    for root, used in (("root_client", "client"), ("root_async_client", "async_client")):
        client = getattr(model, root, None)
        if client is None and getattr(model, used, None) is None:
            continue  # the model has no such client, e.g. for want of a key
        again = getattr(client, "with_options", None)
        if again is None:
            return None
        clients[root] = again(max_retries=0)
        clients[used] = clients[root].chat.completions
    return model.model_copy(update={**clients, "max_retries": 0}) if clients else None


def _with_models(
    model: Runnable[Any, Any], change: Callable[[BaseLanguageModel[Any]], BaseLanguageModel[Any]]
) -> Runnable[Any, Any]:
    """`model` with its language models changed, in bindings, sequences and fallbacks too."""
    if isinstance(model, BaseLanguageModel):
        return change(model)
    if isinstance(model, RunnableBindingBase):
        bound = _with_models(model.bound, change)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableSequence):
        steps = [_with_models(step, change) for step in model.steps]
        if all(new is old for new, old in zip(steps, model.steps, strict=True)):
            return model
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        changed = {
            "runnable": _with_models(model.runnable, change),
            "fallbacks": [_with_models(one, change) for one in model.fallbacks],
        }
        return model.model_copy(update=changed)
    return model
