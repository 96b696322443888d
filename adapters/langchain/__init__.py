"""LangChain: a guarded RAG chain, the guard as a runnable, a chat model as the guard's model.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

Needs langchain-core only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._answer import AbstainedError, GuardedAnswer, RetrievalError
    from ._chat_model_lm import ChatLimits, ChatModelLM
    from ._conversation import Conversation, SmallTalk
    from ._guard_runnable import GuardRunnable
    from ._guarded_rag import GuardedRAG
    from ._planning import RagOptions
    from ._replies import Replies
    from ._stored_documents import stored_documents

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
    "stored_documents",
]

# Imported on first use: a chain needs no chat model of the guard, and the other way round.
_MODULES = {
    "AbstainedError": "_answer",
    "ChatLimits": "_chat_model_lm",
    "ChatModelLM": "_chat_model_lm",
    "Conversation": "_conversation",
    "GuardRunnable": "_guard_runnable",
    "GuardedAnswer": "_answer",
    "GuardedRAG": "_guarded_rag",
    "RagOptions": "_planning",
    "Replies": "_replies",
    "RetrievalError": "_answer",
    "SmallTalk": "_conversation",
    "stored_documents": "_stored_documents",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
