"""Ask a model for objects of one schema: repaired, counted, ready to be stored."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from ....adapters.langchain import GuardedAnswer
from ....guard.errors import NO_JSON, KnowgateError
from ....guard.prompts import Prompt
from ._checks import COPIED
from ._rows import CallRow, Fault

PROMPTS = {
    name: Prompt.load(Path(__file__).with_name("prompts") / f"{name}.txt")
    for name in ("facts", "question", "as_json", "repair")
}
# How often a faulty reply is sent back.
MAX_REPAIRS = 2
_DECODER = json.JSONDecoder()
_MAX_FAULTS = 20
# A talkative reply may have braces before its object, but not many.
_MAX_BRACES = 8
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
# What of a reply is good, ready for JSON, and the faults of the rest in words for the model.
Checked = tuple[dict[str, Any] | None, tuple[Fault, ...]]


class ReplyFaultError(KnowgateError):
    """A reply cannot be used as it is; the model is told and asked again."""


@dataclass
class Request:
    """One thing to ask for, with what its attempts have come to so far.

    Attributes:
        key: what it is stored under.
        prompt: filled.
        check: finds what is wrong with an object of the right shape.
        last: the last reply as text; None before there is one.
    """

    key: str
    prompt: str
    check: Callable[[Any], Checked]
    best: Checked = (None, ())
    last: str | None = None
    faults: tuple[Fault, ...] = ()
    repairs: int = 0
    cost: Counter[str] = field(default_factory=Counter)

    def row(self, error: Exception | None = None) -> dict[str, Any]:
        """Return what is stored of it: the best reply, or why there is none."""
        reply, faults = self.best
        row: dict[str, Any] = {"key": self.key, "reply": reply, "rejected": faults, **self.cost}
        if reply is None:
            # What a reply lacked says more than that asking for a better one failed.
            name = type(error).__name__ if error is not None else "no reply"
            fault = faults[0] if faults else ("provider_error", name)
            row |= {"rejected": (), "error": fault}
        return CallRow.model_validate(row).model_dump(mode="json")


class SchemaAsker:
    """Asks for objects of one schema.

    Structured output is used where the model has it; any other model, or one that
    answers in text all the same, has the JSON read out of its text.

    Args:
        model: a chat model, or any runnable that takes messages.
        schema: of the reply.
    """

    def __init__(self, model: Runnable[Any, Any], schema: type[BaseModel]) -> None:
        self._schema = schema
        self._schema_text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
        self._model, self._in_text = model, True
        if isinstance(model, BaseChatModel):
            # What LangChain's models raise that have no structured output, or none with the raw
            # reply.
            with contextlib.suppress(NotImplementedError, ValueError, TypeError):
                self._model = model.with_structured_output(schema, include_raw=True)
                self._in_text = False

    async def __call__(self, request: Request) -> Mapping[str, Any]:
        """Return the stored form of a good reply, or of the best one when repairs are used up.

        Raises:
            ReplyFaultError: the reply was no good, and may be sent back once more.
            Exception: whatever the model raises.
        """
        messages = self._messages(request)
        request.cost["calls"] += 1
        output = await self._model.ainvoke(messages)
        raw = output if self._in_text else output.get("raw")
        calls = () if self._in_text else getattr(raw, "tool_calls", ())
        text = GuardedAnswer.text_of(raw)
        value = calls[0].get("args") if calls else json_within(text)
        if calls:
            text = json.dumps(value, ensure_ascii=False, default=str)
        self._count(request, messages, raw, text)
        checked = self._checked(request, value)
        request.last, request.faults = text, checked[1]
        if _worth(checked) >= _worth(request.best) or not request.best[1]:
            request.best = checked
        # One in the passage's words is sent back once.
        copied = all(kind == COPIED for kind, _ in request.faults)
        if not request.faults or request.repairs >= (1 if copied else MAX_REPAIRS):
            return request.row()
        request.repairs += 1
        raise ReplyFaultError(request.faults[0][0])

    def _messages(self, request: Request) -> list[BaseMessage]:
        prompt = request.prompt
        if self._in_text:
            prompt += "\n\n" + PROMPTS["as_json"].fill(schema=self._schema_text)
        messages: list[BaseMessage] = [HumanMessage(prompt)]
        if request.faults:
            said = "\n".join(f"- {clause}" for _, clause in request.faults[:_MAX_FAULTS])
            # The last reply alone: a talk that grows would cost more with every turn.
            messages += [
                AIMessage(request.last or "(nothing)"),
                HumanMessage(PROMPTS["repair"].fill(faults=said)),
            ]
        return messages

    def _checked(self, request: Request, value: Any) -> Checked:
        if value is None:
            return None, (("schema_error", "the reply is no JSON object"),)
        try:
            return request.check(self._schema.model_validate(value))
        except ValidationError as error:
            # Without the values: those are the model's own text.
            faults = error.errors(include_url=False, include_input=False)[:_MAX_FAULTS]
            return None, tuple(
                ("schema_error", f"{'.'.join(map(str, one['loc'])) or 'the reply'}: {one['msg']}")
                for one in faults
            )

    def _count(self, request: Request, messages: list[BaseMessage], raw: Any, text: str) -> None:
        usage = getattr(raw, "usage_metadata", None) or {}
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        if not isinstance(read, int) or not isinstance(written, int):
            # A tool's description is read, too, and paid for.
            tool = "" if self._in_text else self._schema_text
            read = sum(map(estimated_tokens, [tool, *(message.text for message in messages)]))
            written = estimated_tokens(text)
            request.cost["estimated"] = 1
        request.cost.update(input_tokens=read, output_tokens=written)


def _worth(checked: Checked) -> tuple[bool, int]:
    """The greater, the better is the reply."""
    return checked[0] is not None, -len(checked[1])


def json_within(text: str) -> Any:
    """Return the first JSON object in a text, fenced or bare; None if there is none.

    Example:
        >>> json_within('Sure! {"a": [1, 2]} Anything else?')
        {'a': [1, 2]}
    """
    for brace in islice(re.finditer("{", text), _MAX_BRACES):
        with contextlib.suppress(*NO_JSON):
            return _DECODER.raw_decode(text, brace.start())[0]
    return None


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each; one for Chinese, Japanese and Korean.

    Example:
        >>> estimated_tokens("A broken white line."), estimated_tokens("交通灯")
        (5, 3)
    """
    wide = len(_WIDE.findall(text))
    return wide + math.ceil((len(text) - wide) / 4)
