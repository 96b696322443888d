"""LangChain: a guarded RAG chain, the guard as a runnable, a chat model as the guard's model.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

Needs langchain-core only.
"""

from __future__ import annotations

from ._answer import GuardedAnswer, answer_text
from ._chat_model_lm import ChatModelLM
from ._errors import AbstainedError, RetrievalError
from ._guard_runnable import GuardRunnable, guard_runnable
from ._guarded_rag import GuardedRAG
from ._replies import Replies
from ._usage import TokenUsage

__all__ = [
    "AbstainedError",
    "ChatModelLM",
    "GuardRunnable",
    "GuardedAnswer",
    "GuardedRAG",
    "Replies",
    "RetrievalError",
    "TokenUsage",
    "answer_text",
    "guard_runnable",
]
