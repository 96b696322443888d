"""Basic RAG: the passages nearest to the question."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ...guard import InputError
from ..ookb import Case
from ..replies import ReplyContext
from ._contract import Retrieved
from ._index import PassageIndex


class BasicRag:
    """Top-k passages by cosine with the question.

    Args:
        index: of the knowledge base.
        top_k: passages per context, at least 1.

    Raises:
        InputError: `top_k` is below 1.
    """

    name = "basic_rag"

    def __init__(self, index: PassageIndex, *, top_k: int = 5) -> None:
        self._index, self._top_k = index, require_top_k(top_k)
        # Its own thread: an encoder keeps its core busy, and an event loop must go on.
        self._thread = ThreadPoolExecutor(1, "knowgate-retrieval")

    async def aretrieve(self, case: Case) -> Retrieved:
        """The passages nearest to the question."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._found, case)
        return Retrieved(ReplyContext(kind="passages", passages=tuple(found)))

    def _found(self, case: Case) -> list[str]:
        vector = self._index.encoder.embed([case.question])[0]
        return self._index.nearest_for(case, vector, self._top_k)


def require_top_k(top_k: int) -> int:
    """`top_k` itself.

    Raises:
        InputError: it is below 1.
    """
    if top_k < 1:
        raise InputError(f"must be at least 1, not {top_k}", where="top_k")
    return top_k
