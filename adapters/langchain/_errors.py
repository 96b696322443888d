"""Errors of the LangChain adapter.

    KnowgateError
    ├── AbstainedError     the guard abstained, and the chain was told to raise then
    └── RetrievalError     the retriever returned something that is not documents

What `retriever`, `with_context` or `closed_book` raise themselves stays as it is.
"""

from __future__ import annotations

from ...guard import Decision, KnowgateError


class AbstainedError(KnowgateError):
    """The guard abstained; raised only by a chain with `raise_on_abstain=True`.

    Args:
        decision: why.
        reply: what the chain would have answered.
    """

    def __init__(self, decision: Decision, reply: str) -> None:
        self.decision, self.reply = decision, reply
        super().__init__(f"the guard abstained: {decision.reason.value}")


class RetrievalError(KnowgateError):
    """The retriever returned something that is not a collection of documents."""
