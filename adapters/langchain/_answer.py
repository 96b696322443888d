"""Answers of a guarded chain, and the text of model outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any, Literal

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    field_serializer,
    field_validator,
)

from ...guard.decision import Decision, Reason, Route
from ...guard.errors import KnowgateError
from ...guard.signals.support.contracts import SentenceSupport, Support
from ...guard.text import passage_text
from ..shadow import LateDecision


class AbstainedError(KnowgateError):
    """The guard (or the model itself) abstained; only with `raise_on_abstain=True`.

    Args:
        decision: why.
        reply: what the chain would have answered.
        reason: the decision's, or `reply_abstained` where the guard had let the model
            answer and the model abstained.
    """

    def __init__(self, decision: Decision, reply: str, reason: Reason | str | None = None) -> None:
        self.decision, self.reply = decision, reply
        self.reason = decision.reason if reason is None else reason
        who = "the model" if self.reason is Reason.REPLY_ABSTAINED else "the guard"
        super().__init__(f"{who} abstained: {self.reason}")


class RetrievalError(KnowgateError):
    """The retriever returned something that is not a collection of documents, or not in time."""


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_MESSAGE: TypeAdapter[BaseMessage] = TypeAdapter(AnyMessage)
# Keys of every message in JSON.
_OF_MESSAGES = {"type", "content", "additional_kwargs", "response_metadata"}


def document_again(value: Any) -> Any:
    """The document that was stored as JSON; anything else as it is."""
    if isinstance(value, dict) and value.get("type") == "Document" and "page_content" in value:
        return Document(**value)
    return value


@dataclass(frozen=True, slots=True)
class Citation:
    """A sentence of an answer and the text of a document that carries it.

    Attributes:
        sentence: of the answer.
        support: how far it rests on that text, in [0, 1].
        document: that has it.
        start: where the text begins in the document, in characters.
        end: where it ends.
        quote: the text.
    """

    sentence: str
    support: float
    document: object
    start: int
    end: int
    quote: str

    @classmethod
    def of(cls, answer: str, found: SentenceSupport, document: object) -> Citation:
        """Return the citation of a sentence that a passage carries."""
        start, end = found.passage_start, found.passage_end
        quote = passage_text(document)[start:end]
        return cls(
            answer[found.start : found.end], found.support or 0.0, document, start, end, quote
        )


# A retriever may return texts or mappings in place of documents.
_Passage = Annotated[Any, BeforeValidator(document_again)]


class GuardedAnswer(AIMessage):
    """An answer with the decision that led to it; also a chunk of a streamed answer.

    It is a message whose content is `answer`, so that output parsers, message
    histories and graphs take it as they take the message of a model.

    Chunks of one stream add up with `+` to what `invoke` returns. Every chunk
    carries the decision; the documents come with the first one only, and what the
    check of the reply found with the last.

    Attributes:
        answer: the text to show: generated, or the reply of an abstention. The text of
            a structured output is its JSON.
        decision: what the guard decided, and why. In shadow mode it is made beside the
            generation: whoever reads it first waits for it (see `adecision`).
        documents: the passages that the prompt contained: those the guard kept,
            or in shadow mode all of them; empty without a context. Under
            `conflict_shows_both` those that the views are of.
        output: what the runnable returned, unchanged: a message with usage metadata and
            tool calls, a pydantic object, a dictionary, or text. None where `answer`
            is a reply of the guard. Message chunks of a stream add up to one chunk.
        reply_abstained: whether the model's own reply is an abstention, although
            the guard had let it answer; None where that was not checked.
        standalone_question: the question that retriever and guard were given, where a
            `Conversation` rewrote it.
        support: how far the reply rests on the documents, sentence by sentence; None where
            that was not checked, or the check failed.
        supported: whether all of it does; None likewise.
    """

    model_config = ConfigDict(extra="forbid")

    answer: str = Field(frozen=True)
    decision: Decision = Field(frozen=True)
    documents: tuple[_Passage, ...] = Field(default=(), frozen=True)
    output: Any = Field(default=None, frozen=True)
    reply_abstained: bool | None = Field(default=None, frozen=True)
    standalone_question: str | None = Field(default=None, frozen=True)
    support: Support | None = Field(default=None, frozen=True)
    supported: bool | None = Field(default=None, frozen=True)

    # What every message has; it follows from `answer`, or is in `output`.
    content: str = Field(default="", exclude=True, frozen=True, repr=False)
    additional_kwargs: dict[Any, Any] = Field(default_factory=dict, exclude=True, repr=False)
    response_metadata: dict[Any, Any] = Field(default_factory=dict, exclude=True, repr=False)
    tool_calls: list[Any] = Field(default_factory=list, exclude=True, repr=False)
    invalid_tool_calls: list[Any] = Field(default_factory=list, exclude=True, repr=False)
    usage_metadata: Any = Field(default=None, exclude=True, repr=False)
    name: str | None = Field(default=None, exclude=True, repr=False)
    type: Literal["ai"] = Field(default="ai", exclude=True, repr=False)

    def __init__(
        self, answer: str, decision: Decision, documents: Iterable[object] = (), **fields: Any
    ) -> None:
        told = {"content": answer, "answer": answer, "decision": decision}
        super().__init__(**{**fields, **told, "documents": tuple(documents)})

    @property
    def abstained(self) -> bool:
        """Whether the guard abstained, and so `answer` says; never true in shadow mode.

        See `reply_abstained` for a model that abstained by itself.
        """
        return self.decision.acts and self.decision.route is Route.ABSTAIN

    async def adecision(self) -> Decision:
        """The decision; in shadow mode waited for without blocking the event loop."""
        if isinstance(self.decision, LateDecision):
            return await self.decision.aarrived()
        return self.decision

    @property
    def citations(self) -> tuple[Citation, ...]:
        """Each sentence that a passage carries, with the text that carries it.

        Empty where replies are not checked (`GuardOptions(on_unsupported=…)`).
        """
        if self.support is None:
            return ()
        return tuple(
            Citation.of(self.answer, one, self.documents[one.passage])
            for one in self.support.sentences
            if one.support is not None and one.passage is not None
        )

    @property
    def small_talk(self) -> bool:
        """Whether the message was small talk, which the guard was not asked about."""
        return self.decision.reason is Reason.SMALL_TALK

    def __add__(self, other: object) -> GuardedAnswer:  # type: ignore[override]
        if not isinstance(other, GuardedAnswer):
            return NotImplemented
        if other.decision is not self.decision and other.decision != self.decision:
            # Two answers to two questions do not make one.
            return NotImplemented
        later = {name: getattr(other, name) for name in ("reply_abstained", "support", "supported")}
        return GuardedAnswer(
            self.answer + other.answer,
            self.decision,
            self.documents + other.documents,
            output=joined(self.output, other.output),
            standalone_question=self.standalone_question or other.standalone_question,
            **{k: getattr(self, k) if found is None else found for k, found in later.items()},
        )

    def __str__(self) -> str:
        return self.answer

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As pydantic's; outside JSON, a structured output stays the object that it is.

        So a checkpoint that calls this restores it with its type.
        """
        fields = super().model_dump(**options)
        if options.get("mode", "python") == "python" and "output" in fields:
            fields["output"] = self.output
        return fields

    @field_serializer("documents", "output", when_used="json")
    def _in_json(self, value: Any) -> Any:
        return _ANYTHING.dump_python(value, mode="json", fallback=str)

    @field_validator("output", mode="before")
    @classmethod
    def _message_again(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() >= _OF_MESSAGES:
            return _MESSAGE.validate_python(value)
        return value

    @staticmethod
    def text_of(output: object) -> str:
        """The text of any output of a model or a chain.

        Args:
            output: text, a message (its text blocks only: neither thinking nor tool
                calls), None (no text), a structured output (its JSON), or anything else
                that `str()` can show.

        Example:
            >>> from langchain_core.messages import AIMessage
            >>> thinking = {"type": "reasoning", "reasoning": "Hm."}
            >>> GuardedAnswer.text_of(AIMessage([thinking, {"type": "text", "text": "Paris"}]))
            'Paris'
            >>> GuardedAnswer.text_of({"city": "Paris"})
            '{"city":"Paris"}'
        """
        if output is None:
            return ""
        if isinstance(output, BaseMessage):
            return str(output.text)
        if isinstance(output, BaseModel | Mapping | list | tuple) or is_dataclass(output):
            return _ANYTHING.dump_json(output, fallback=str).decode()
        return str(output)


def joined(first: Any, second: Any) -> Any:
    """`first + second`, or the later one of two that cannot be added; None adds nothing."""
    if first is None or second is None:
        return second if first is None else first
    try:
        return first + second
    except TypeError:
        return second


def told_values(output: object) -> str:
    """What a structured output tells: its values, a line each."""
    if isinstance(output, BaseModel):
        output = output.model_dump()
    elif is_dataclass(output) and not isinstance(output, type):
        output = asdict(output)
    if isinstance(output, Mapping):
        return "\n".join(map(told_values, output.values()))
    if isinstance(output, list | tuple | set):
        return "\n".join(map(told_values, output))
    return "" if output is None or isinstance(output, bool) else str(output)


def retold(output: Any, text: str) -> Any:
    """An output of a model with another text; None where that is no text or message."""
    if isinstance(output, BaseMessage):
        return output.model_copy(update={"content": text})
    return text if isinstance(output, str) else None
