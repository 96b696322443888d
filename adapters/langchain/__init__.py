"""LangChain: a guarded chain, retriever or agent, the guard in a graph, a chat model for it.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

`GuardMiddleware` needs `pip install knowgate[agents]`, everything else langchain-core only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._answer import AbstainedError, GuardedAnswer, RetrievalError
from ._calls import ChatLimits
from ._chat_model_lm import ChatModelLM
from ._conversation import Conversation, SmallTalk
from ._documents import GuardCompressor, GuardedRetriever, stored_documents
from ._guard_runnable import GuardRunnable, guard_node
from ._guarded_rag import GuardedRAG
from ._planning import RagOptions
from ._replies import Replies

if TYPE_CHECKING:
    from ._agent_middleware import GuardMiddleware

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


def __getattr__(name: str) -> Any:
    """Import what needs the extra `agents` when it is asked for (PEP 562)."""
    if name != "GuardMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._agent_middleware import GuardMiddleware

    return GuardMiddleware
