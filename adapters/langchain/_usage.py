"""Counting the tokens that a chat model's calls use."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage


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
        """Start again from nothing; returns the count so far."""
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
