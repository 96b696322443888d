"""Contexts as references to passages."""

from __future__ import annotations

from ..replies import ReplyContext
from ._known_questions import KnownBase


def by_reference(names: tuple[str, ...], base: KnownBase) -> ReplyContext:
    """The shortest way to say it: these passages, or all of the knowledge base but a few.

    Args:
        names: ids of passages, in the order in which they stood; () is a context without
            any.
        base: whose passages they are.
    """
    if base.name and 2 * len(names) > len(base.order):
        present = frozenset(names)
        if names == tuple(name for name in base.order if name in present):
            gone = tuple(name for name in base.order if name not in present)
            return ReplyContext(kind="all_but", passages=gone)
    return ReplyContext(kind="passages", passages=names)
