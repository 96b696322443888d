"""Errors of the LangChain adapter.

    KnowgateError
    ├── AbstainedError     the guard abstained, and the chain was told to raise then
    └── RetrievalError     the retriever returned something that is not documents

What `retriever`, `with_context` or `closed_book` raise themselves stays as it is.
"""

from __future__ import annotations

from ...guard import Decision, KnowgateError, Reason


class AbstainedError(KnowgateError):
    """The guard (or the model itself) abstained; only with `raise_on_abstain=True`.

    Args:
        decision: why.
        reply: what the chain would have answered.
        reason: the decision's, or `reply_abstained` where the guard had let the model
            answer and the model declined.
    """

    def __init__(self, decision: Decision, reply: str, reason: Reason | None = None) -> None:
        self.decision, self.reply = decision, reply
        self.reason = decision.reason if reason is None else reason
        who = "the model" if self.reason is Reason.REPLY_ABSTAINED else "the guard"
        super().__init__(f"{who} abstained: {self.reason.value}")


class RetrievalError(KnowgateError):
    """The retriever returned something that is not a collection of documents."""
