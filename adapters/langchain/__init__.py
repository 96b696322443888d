"""LangChain: a guarded RAG chain, the guard as a runnable, a chat model as the guard's model.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

Needs langchain-core only.
"""

from __future__ import annotations

from ._answer import AbstainedError, GuardedAnswer, RetrievalError, answer_text
from ._chat_model_lm import ChatLimits, ChatModelLM
from ._conversation import Conversation, SmallTalk
from ._guard_runnable import GuardRunnable
from ._guarded_rag import GuardedRAG
from ._planning import RagOptions
from ._replies import Replies

__all__ = [
    "AbstainedError",
    "ChatLimits",
    "ChatModelLM",
    "Conversation",
    "GuardRunnable",
    "GuardedAnswer",
    "GuardedRAG",
    "RagOptions",
    "Replies",
    "RetrievalError",
    "SmallTalk",
    "answer_text",
]
