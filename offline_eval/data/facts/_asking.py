"""Ask a chat model for an object that fits a schema, and send faulty replies back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ValidationError

from ....adapters.langchain import GuardedAnswer
from ....guard.errors import KnowgateError
from ._artefacts import CallRow, FactRow, FailureRow, QuestionRow, Stage
from ._requests import (
    COPIED,
    BuildPrompts,
    QuestionReply,
    copy_fault,
    estimated_tokens,
    question_fault,
)

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder()
_LONGEST_SHOWN = 20

Fault = tuple[str, str]


class ReplyFaultError(KnowgateError):
    """A reply cannot be used as it is; the model is told and asked again."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A reply after its checks.

    Attributes:
        reply: what of it is good, ready for JSON; None if nothing is.
        faults: (type, words for the model) of the rest.
    """

    reply: dict[str, Any] | None
    faults: tuple[Fault, ...] = ()


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
    estimated: bool = field(default=False)

    def row(self, error: Exception | None = None) -> dict[str, Any]:
        """What is stored of it: the best reply, or why there is none."""
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
        prompts: the words for JSON and for repairing a reply.
        structured: False to never use structured output.
        max_repairs: how often a reply is sent back.
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        schema: type[BaseModel],
        prompts: BuildPrompts,
        *,
        structured: bool = True,
        max_repairs: int = 2,
    ) -> None:
        self._schema = schema
        self._schema_text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
        self._prompts = prompts
        self._max_repairs = max_repairs
        found = _structured(model, schema) if structured else None
        self._in_text = found is None
        self._model = model if found is None else found

    async def __call__(self, request: Request) -> Mapping[str, Any]:
        """The stored form of a good reply, or of the best one when repairs are used up.

        Raises:
            ReplyFaultError: the reply was no good, and may be sent back once more.
            Exception: whatever the model raises.
        """
        messages = self._messages(request)
        request.calls += 1
        output = await self._model.ainvoke(messages)
        text, parsed = self._opened(output)
        self._count(request, messages, output, text)
        checked = self._checked(request, text, parsed)
        request.last, request.last_text = checked, text
        if request.best is None or _worth(checked) >= _worth(request.best):
            request.best = checked
        if not checked.faults or request.repairs >= self._repairs_of(checked.faults):
            return request.row()
        request.repairs += 1
        raise ReplyFaultError(checked.faults[0][0])

    def _repairs_of(self, faults: Sequence[Fault]) -> int:
        """How often such a reply is sent back: one in the passage's words once."""
        copied = all(type_ == COPIED for type_, _ in faults)
        return min(1, self._max_repairs) if copied else self._max_repairs

    def _messages(self, request: Request) -> list[BaseMessage]:
        prompt = request.prompt
        if self._in_text:
            prompt += "\n\n" + self._prompts.as_json.fill(schema=self._schema_text)
        messages: list[BaseMessage] = [HumanMessage(prompt)]
        if request.last is not None and request.last.faults:
            said = "\n".join(f"- {words}" for _, words in request.last.faults[:_LONGEST_SHOWN])
            # The last reply alone: a talk that grows would cost more with every turn.
            messages += [
                AIMessage(request.last_text or "(nothing)"),
                HumanMessage(self._prompts.repair.fill(faults=said)),
            ]
        return messages

    def _opened(self, output: Any) -> tuple[str, Any]:
        """The reply as text, and as an object where the model gave one."""
        if self._in_text:
            return GuardedAnswer.text_of(output), None
        parsed, raw = output.get("parsed"), output.get("raw")
        if isinstance(parsed, BaseModel):
            return parsed.model_dump_json(), parsed.model_dump()
        if isinstance(parsed, Mapping):
            return json.dumps(parsed, ensure_ascii=False, default=str), dict(parsed)
        calls = getattr(raw, "tool_calls", None) or ()
        if calls:
            arguments = calls[0].get("args")
            return json.dumps(arguments, ensure_ascii=False, default=str), arguments
        return GuardedAnswer.text_of(raw), None

    def _checked(self, request: Request, text: str, parsed: Any) -> Checked:
        value = parsed if parsed is not None else json_within(text)
        if value is None:
            return Checked(None, (("schema_error", "the reply is no JSON object"),))
        try:
            return request.check(self._schema.model_validate(value))
        except ValidationError as error:
            return Checked(None, tuple(("schema_error", words) for words in _words(error)))

    def _count(self, request: Request, messages: list[BaseMessage], output: Any, text: str) -> None:
        message = output if self._in_text else output.get("raw")
        usage = getattr(message, "usage_metadata", None)
        read = usage.get("input_tokens") if isinstance(usage, Mapping) else None
        written = usage.get("output_tokens") if isinstance(usage, Mapping) else None
        if not isinstance(read, int) or not isinstance(written, int):
            # A tool's description is read, too, and paid for.
            tool = 0 if self._in_text else estimated_tokens(self._schema_text)
            read = tool + sum(estimated_tokens(message.text) for message in messages)
            written = estimated_tokens(text)
            request.estimated = True
        request.input_tokens += read
        request.output_tokens += written


def json_within(text: str) -> Any:
    """The first JSON object in a text, fenced or bare; None if there is none.

    Example:
        >>> json_within('Sure! {"a": [1, 2]} Anything else?')
        {'a': [1, 2]}
    """
    for part in [*_FENCED.findall(text), text]:
        start = part.find("{")
        # A talkative reply may have braces before its object, but not many.
        for _ in range(8):
            if start < 0:
                break
            try:
                value, _ = _DECODER.raw_decode(part, start)
            except (ValueError, RecursionError):
                start = part.find("{", start + 1)
                continue
            if isinstance(value, dict):
                return value
    return None


def _structured(model: Runnable[Any, Any], schema: type[BaseModel]) -> Runnable[Any, Any] | None:
    if not isinstance(model, BaseChatModel):
        return None
    try:
        return model.with_structured_output(schema, include_raw=True)
    except (NotImplementedError, ValueError, TypeError):
        # What LangChain's models raise that have no structured output, or none with the raw reply.
        return None


def _worth(checked: Checked) -> tuple[bool, int]:
    return checked.reply is not None, -len(checked.faults)


def _words(error: ValidationError) -> list[str]:
    """What pydantic found, without the values: those are the model's own text."""
    found = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'the reply'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    ]
    return found[:_LONGEST_SHOWN]


_NONE = "(none)"


def question_key(fact: FactRow, *, model: str, prompts: BuildPrompts) -> str:
    """What the request is stored under: what is asked, how, and of whom."""
    parts = [model, prompts.sha256(prompts.question), fact.topic or "", fact.passage, fact.text]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def question_prompt_text(fact: FactRow, prompts: BuildPrompts) -> str:
    """What the model is asked."""
    return prompts.question.fill(fact=fact.text, passage=fact.passage, topic=fact.topic or _NONE)


def question_request(fact: FactRow, *, model: str, prompts: BuildPrompts) -> Request:
    """The request for the question that a fact answers."""
    return Request(
        question_key(fact, model=model, prompts=prompts),
        question_prompt_text(fact, prompts),
        partial(_check, passage=fact.passage),
    )


def _check(reply: QuestionReply, *, passage: str) -> Checked:
    found = {
        "question": " ".join(reply.question.split()),
        "answer": " ".join(reply.answer.split()),
    }
    fault = question_fault(found["question"], found["answer"])
    fault = fault or copy_fault(found["question"], passage)
    return Checked(found) if fault is None else Checked(None, (fault,))


def questions_of(
    facts: Sequence[FactRow], rows: dict[str, CallRow], *, model: str, prompts: BuildPrompts
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """The questions of all facts that have a reply, in order."""
    questions: list[QuestionRow] = []
    failures: list[FailureRow] = []
    for fact in facts:
        row = rows.get(question_key(fact, model=model, prompts=prompts))
        if row is None:
            continue
        if row.reply is None or row.error is not None:
            type_, detail = row.error or ("schema_error", "")
            failures.append(_failure(fact, type_, detail))
            continue
        reply = QuestionReply.model_validate(row.reply)
        questions.append(
            QuestionRow(
                id=fact.fact_id,
                question=reply.question,
                answer=reply.answer,
                passage=fact.passage,
                source=fact.document,
                topic=fact.topic,
                fact=fact.text,
                citations=fact.citations,
                made_by=f"model:{model}",
            )
        )
    return questions, failures


def _failure(fact: FactRow, type_: str, detail: str) -> FailureRow:
    return FailureRow(
        stage=Stage.QUESTIONS,
        type=type_,
        detail=detail,
        document=fact.document,
        about=(fact.fact_id,),
    )


def one_of_each(
    questions: Sequence[QuestionRow],
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Questions that tell their facts apart.

    Of several with the same question and answer the first is kept; where the same
    question has different answers, none of those made here is: it has no right answer.
    """
    answers: dict[str, set[str]] = {}
    for row in questions:
        answers.setdefault(_plain(row.question), set()).add(_plain(row.answer))
    kept: list[QuestionRow] = []
    failures: list[FailureRow] = []
    seen: set[tuple[str, str]] = set()
    for row in questions:
        asked = _plain(row.question), _plain(row.answer)
        fault = None
        if len(answers[asked[0]]) > 1 and row.made_by:
            fault = "ambiguous_question", "the same question has another answer elsewhere"
        elif asked in seen:
            fault = "duplicate_question", "the same question with the same answer was made before"
        if fault is None:
            seen.add(asked)
            kept.append(row)
        else:
            failures.append(
                FailureRow(
                    stage=Stage.QUESTIONS,
                    type=fault[0],
                    detail=fault[1],
                    document=row.source,
                    about=(row.id,),
                )
            )
    return kept, failures


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".?!。？！ ")
