"""LangChain: a guarded chain, retriever or agent, the guard in a graph, a chat model for it.

    question ─► retriever ─► guard ─┬─ follow_context ─► with_context ─► GuardedAnswer
                                    ├─ answer ─────────► closed_book ──► GuardedAnswer
                                    └─ abstain ────────► reply ────────► GuardedAnswer

`GuardMiddleware` needs `pip install knowgate[agents]`, everything else langchain-core only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...guard.registry import names_on_use
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

# It needs the extra `agents`, and says so when it is imported.
__getattr__, __dir__ = names_on_use(__name__, {"_agent_middleware": "GuardMiddleware"})
