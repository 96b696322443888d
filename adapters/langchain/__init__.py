"""LangChain: a guarded chain, retriever or agent, the guard in a graph, a chat model for it.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

`GuardMiddleware` needs `pip install knowgate[agents]`, everything else langchain-core only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._agent_middleware import GuardMiddleware
    from ._answer import AbstainedError, GuardedAnswer, RetrievalError
    from ._calls import ChatLimits
    from ._chat_model_lm import ChatModelLM
    from ._conversation import Conversation, SmallTalk
    from ._documents import stored_documents
    from ._guard_runnable import GuardRunnable, guard_node
    from ._guarded_rag import GuardedRAG
    from ._planning import RagOptions
    from ._replies import Replies
    from ._retrieval_filter import GuardCompressor, GuardedRetriever

__all__ = [
    "AbstainedError",
    "ChatLimits",
    "ChatModelLM",
    "Conversation",
    "GuardCompressor",
    "GuardMiddleware",
    "GuardRunnable",
    "GuardedAnswer",
    "GuardedRAG",
    "GuardedRetriever",
    "RagOptions",
    "Replies",
    "RetrievalError",
    "SmallTalk",
    "guard_node",
    "stored_documents",
]

# Imported on first use: a chain needs no chat model of the guard, and the other way round.
_MODULES = {
    "AbstainedError": "_answer",
    "ChatLimits": "_calls",
    "ChatModelLM": "_chat_model_lm",
    "Conversation": "_conversation",
    "GuardCompressor": "_retrieval_filter",
    "GuardMiddleware": "_agent_middleware",
    "GuardRunnable": "_guard_runnable",
    "GuardedAnswer": "_answer",
    "GuardedRAG": "_guarded_rag",
    "GuardedRetriever": "_retrieval_filter",
    "RagOptions": "_planning",
    "Replies": "_replies",
    "RetrievalError": "_answer",
    "SmallTalk": "_conversation",
    "guard_node": "_guard_runnable",
    "stored_documents": "_documents",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
