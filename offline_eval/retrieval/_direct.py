"""Strategies that search for nothing: no context, or everything."""

from __future__ import annotations

from ..ookb import Case, CaseKind
from ..replies import ReplyContext
from ._contract import Retrieved


class Direct:
    """No context: the model answers from its own knowledge."""

    name = "direct"

    async def aretrieve(self, case: Case) -> Retrieved:
        """Nothing."""
        return Retrieved(ReplyContext(kind="none"))


class LongContext:
    """The whole knowledge base, without the case's own passage where it is left out.

    The context says what is missing from it and copies nothing.
    """

    name = "long_context"

    async def aretrieve(self, case: Case) -> Retrieved:
        """All but the left-out passage."""
        gone = (case.passage_id,) if case.kind is CaseKind.LEFT_OUT else ()
        return Retrieved(ReplyContext(kind="all_but", passages=gone))
