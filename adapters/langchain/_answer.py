"""Answers of a guarded chain, and the text of model outputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage

from ...guard.decision import Decision, Reason, Route
from ...guard.errors import KnowgateError


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
    """The retriever returned something that is not a collection of documents."""


@dataclass(frozen=True, slots=True)
class GuardedAnswer:
    """An answer with the decision that led to it; also a chunk of a streamed answer.

    Chunks of one stream add up with `+` to what `invoke` returns. Every chunk
    carries the decision; the documents come with the first one only, and what the
    check of the reply found with the last.

    Attributes:
        answer: the text to show: generated, or the reply of an abstention.
        decision: what the guard decided, and why.
        documents: the passages that the prompt contained: those the guard kept,
            or in shadow mode all of them; empty without a context. Under
            `conflict_shows_both` those that the views are of.
        reply_abstained: whether the model's own reply is an abstention, although
            the guard had let it answer; None where that was not checked.
    """

    answer: str
    decision: Decision
    documents: tuple[Document, ...] = ()
    reply_abstained: bool | None = None

    @property
    def abstained(self) -> bool:
        """Whether the guard abstained, and so `answer` says; never true in shadow mode.

        See `reply_abstained` for a model that abstained by itself.
        """
        return self.decision.acts and self.decision.route is Route.ABSTAIN

    def __add__(self, other: GuardedAnswer) -> GuardedAnswer:
        if not isinstance(other, GuardedAnswer):
            return NotImplemented
        if other.decision is not self.decision and other.decision != self.decision:
            # Two answers to two questions do not make one.
            return NotImplemented
        found = self.reply_abstained if other.reply_abstained is None else other.reply_abstained
        return GuardedAnswer(
            self.answer + other.answer, self.decision, self.documents + other.documents, found
        )

    def __str__(self) -> str:
        return self.answer


def answer_text(output: object) -> str:
    """The text of any output of a model or a chain.

    Args:
        output: text, a message (its text blocks only: neither thinking nor tool
            calls), None (no text), or anything else that `str()` can show.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> thinking = {"type": "reasoning", "reasoning": "Hm."}
        >>> answer_text(AIMessage([thinking, {"type": "text", "text": "Paris"}]))
        'Paris'
    """
    if output is None:
        return ""
    if isinstance(output, BaseMessage):
        return str(output.text)
    return str(output)


class TextOfChunks:
    """Text from a stream of chunks, as early as it is final; local to one stream.

    Text and messages are passed on chunk by chunk. Other outputs (a parser's
    partial objects, say) are gathered as LangChain does and shown at the end.
    """

    def __init__(self) -> None:
        self._pending: Any = None
        self._given: list[str] = []

    @property
    def whole(self) -> str:
        """All the text that was given out so far."""
        return "".join(self._given)

    def add(self, chunk: object) -> str:
        """The text that `chunk` makes final, possibly empty."""
        if isinstance(chunk, str | BaseMessage):
            return self._out(answer_text(chunk))
        if self._pending is None:
            self._pending = chunk
        else:
            self._pending = joined(self._pending, chunk)
        return ""

    def rest(self) -> str:
        """The text that was held back until the end of the stream."""
        return self._out(answer_text(self._pending))

    def _out(self, text: str) -> str:
        self._given.append(text)
        return text


def joined(first: Any, second: Any) -> Any:
    """`first + second`, or `second` alone where the two cannot be added."""
    try:
        return first + second
    except TypeError:
        return second


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What the calls of a `ChatModelLM` have used so far.

    Attributes:
        calls: attempts made, failed and repeated ones included.
        metered_calls: those of them whose reply said how many tokens it used; the
            token counts speak of them alone.
        input_tokens: of the prompts.
        output_tokens: of the replies.
    """

    calls: int = 0
    metered_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class UsageMeter:
    """A token count that many threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = TokenUsage()

    def read(self) -> TokenUsage:
        """The count so far."""
        with self._lock:
            return self._usage

    def reset(self) -> TokenUsage:
        """Reset the count; returns the count so far."""
        with self._lock:
            usage, self._usage = self._usage, TokenUsage()
        return usage

    def count_call(self) -> None:
        """Count an attempt."""
        with self._lock:
            self._usage = replace(self._usage, calls=self._usage.calls + 1)

    def count_tokens(self, output: object) -> None:
        """Count a reply's tokens, where it names them."""
        usage = output.usage_metadata if isinstance(output, AIMessage) else None
        # LangChain puts this into replies that its cache answers: nothing was used.
        if not isinstance(usage, Mapping) or usage.get("total_cost") == 0:
            return
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        if not isinstance(read, int) or not isinstance(written, int):
            return
        with self._lock:
            before = self._usage
            self._usage = replace(
                before,
                metered_calls=before.metered_calls + 1,
                input_tokens=before.input_tokens + read,
                output_tokens=before.output_tokens + written,
            )
