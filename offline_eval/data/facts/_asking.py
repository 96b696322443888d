"""Ask a chat model for an object that fits a schema, and send faulty replies back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from ....adapters.langchain import GuardedAnswer
from ....guard.errors import KnowgateError
from ._checks import COPIED
from ._rows import CallRow, Fault
from ._settings import BuildSettings

_DECODER = json.JSONDecoder()
_LONGEST_SHOWN = 20
# A talkative reply may have braces before its object, but not many.
_MOST_BRACES = 8
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


class ReplyFaultError(KnowgateError):
    """A reply cannot be used as it is; the model is told and asked again."""


class Checked(NamedTuple):
    """A reply after its checks.

    Attributes:
        reply: what of it is good, ready for JSON; None if nothing is.
        faults: of the rest, in words for the model.
    """

    reply: dict[str, Any] | None
    faults: tuple[Fault, ...] = ()

    @property
    def worth(self) -> tuple[bool, int]:
        """The greater, the better is the reply."""
        return self.reply is not None, -len(self.faults)


@dataclass
class Request:
    """One thing to ask for, with what its attempts have come to so far.

    Attributes:
        key: what it is stored under.
        prompt: filled.
        check: finds what is wrong with an object of the right shape.
    """

    key: str
    prompt: str
    check: Callable[[Any], Checked]
    best: Checked | None = None
    last: Checked | None = None
    last_text: str = ""
    repairs: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False

    def row(self, error: Exception | None = None) -> dict[str, Any]:
        """Return what is stored of it: the best reply, or why there is none."""
        best = self.best or Checked(None)
        fault: Fault | None = None
        if best.reply is None:
            # What a reply lacked says more than that asking for a better one failed.
            name = type(error).__name__ if error is not None else "no reply"
            fault = best.faults[0] if best.faults else ("provider_error", name)
        return CallRow(
            key=self.key,
            reply=best.reply,
            rejected=best.faults if best.reply is not None else (),
            error=fault,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            estimated=self.estimated,
        ).model_dump(mode="json")


class SchemaAsker:
    """Asks for objects of one schema.

    Structured output is used where the model has it; any other model, or one that
    answers in text all the same, has the JSON read out of its text.

    Args:
        model: a chat model, or any runnable that takes messages.
        schema: of the reply.
        settings: the words for JSON and for repairing a reply, whether to use structured output,
            and how often a reply is sent back.
    """

    def __init__(
        self, model: Runnable[Any, Any], schema: type[BaseModel], settings: BuildSettings
    ) -> None:
        self._schema, self._settings = schema, settings
        self._schema_text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
        found = _structured(model, schema) if settings.structured else None
        self._in_text = found is None
        self._model = model if found is None else found

    async def __call__(self, request: Request) -> Mapping[str, Any]:
        """Return the stored form of a good reply, or of the best one when repairs are used up.

        Raises:
            ReplyFaultError: the reply was no good, and may be sent back once more.
            Exception: whatever the model raises.
        """
        messages = self._messages(request)
        request.calls += 1
        output = await self._model.ainvoke(messages)
        text, value = self._opened(output)
        self._count(request, messages, output, text)
        checked = self._checked(request, value)
        request.last, request.last_text = checked, text
        if request.best is None or checked.worth >= request.best.worth:
            request.best = checked
        # One in the passage's words is sent back once.
        copied = all(kind == COPIED for kind, _ in checked.faults)
        most = min(1, self._settings.max_repairs) if copied else self._settings.max_repairs
        if not checked.faults or request.repairs >= most:
            return request.row()
        request.repairs += 1
        raise ReplyFaultError(checked.faults[0][0])

    def _messages(self, request: Request) -> list[BaseMessage]:
        prompt, words = request.prompt, self._settings.prompts
        if self._in_text:
            prompt += "\n\n" + words.as_json.fill(schema=self._schema_text)
        messages: list[BaseMessage] = [HumanMessage(prompt)]
        if request.last is not None and request.last.faults:
            said = "\n".join(f"- {clause}" for _, clause in request.last.faults[:_LONGEST_SHOWN])
            # The last reply alone: a talk that grows would cost more with every turn.
            messages += [
                AIMessage(request.last_text or "(nothing)"),
                HumanMessage(words.repair.fill(faults=said)),
            ]
        return messages

    def _opened(self, output: Any) -> tuple[str, Any]:
        """The reply as text, and the object in it; None where there is none."""
        raw = output if self._in_text else output.get("raw")
        parsed = None if self._in_text else output.get("parsed")
        calls = getattr(raw, "tool_calls", None) or ()
        if isinstance(parsed, BaseModel):
            parsed = parsed.model_dump()
        elif parsed is None and calls and not self._in_text:
            parsed = calls[0].get("args")
        if parsed is not None:
            return json.dumps(parsed, ensure_ascii=False, default=str), parsed
        text = GuardedAnswer.text_of(raw)
        return text, json_within(text)

    def _checked(self, request: Request, value: Any) -> Checked:
        if value is None:
            return Checked(None, (("schema_error", "the reply is no JSON object"),))
        try:
            return request.check(self._schema.model_validate(value))
        except ValidationError as error:
            # Without the values: those are the model's own text.
            found = error.errors(include_url=False, include_input=False)[:_LONGEST_SHOWN]
            places = (".".join(map(str, fault["loc"])) or "the reply" for fault in found)
            faults = zip(places, found, strict=True)
            return Checked(
                None, tuple(("schema_error", f"{place}: {fault['msg']}") for place, fault in faults)
            )

    def _count(self, request: Request, messages: list[BaseMessage], output: Any, text: str) -> None:
        message = output if self._in_text else output.get("raw")
        usage = getattr(message, "usage_metadata", None) or {}
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        if not isinstance(read, int) or not isinstance(written, int):
            # A tool's description is read, too, and paid for.
            tool = 0 if self._in_text else estimated_tokens(self._schema_text)
            read = tool + sum(estimated_tokens(message.text) for message in messages)
            written = estimated_tokens(text)
            request.estimated = True
        request.input_tokens += read
        request.output_tokens += written


def json_within(text: str) -> Any:
    """Return the first JSON object in a text, fenced or bare; None if there is none.

    Example:
        >>> json_within('Sure! {"a": [1, 2]} Anything else?')
        {'a': [1, 2]}
    """
    start = text.find("{")
    for _ in range(_MOST_BRACES):
        if start < 0:
            break
        try:
            return _DECODER.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each; one for Chinese, Japanese and Korean.

    Example:
        >>> estimated_tokens("A broken white line."), estimated_tokens("交通灯")
        (5, 3)
    """
    wide = len(_WIDE.findall(text))
    return wide + math.ceil((len(text) - wide) / 4)


def _structured(model: Runnable[Any, Any], schema: type[BaseModel]) -> Runnable[Any, Any] | None:
    if not isinstance(model, BaseChatModel):
        return None
    try:
        return model.with_structured_output(schema, include_raw=True)
    except (NotImplementedError, ValueError, TypeError):
        # What LangChain's models raise that have no structured output, or none with the raw reply.
        return None
