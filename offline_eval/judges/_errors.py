"""What can go wrong while a reply is judged; each becomes a row."""

from __future__ import annotations

from ...guard import KnowgateError


class JudgeError(KnowgateError):
    """A judge gave no verdict on a reply."""


class NoVerdictError(JudgeError):
    """No message of a language model held a valid verdict.

    Args:
        criterion: that was asked about.
        calls: made all the same.
        input_tokens: of those calls, None where not metered.
        output_tokens: likewise.
    """

    def __init__(
        self,
        criterion: str,
        *,
        calls: int,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        self.calls, self.input_tokens, self.output_tokens = calls, input_tokens, output_tokens
        super().__init__(f"no valid <{criterion}> verdict in {calls} messages")


class EarlierVerdictError(JudgeError):
    """The criterion depends on another one, on which the same judge gave no verdict."""
