"""Source files as syntax trees, read once by tests that look at all of them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file."""
    # Collections of garbage while trees grow take four times as long as all the parsing.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of it."""
    return tuple(ast.walk(parsed(path)))


def forget() -> None:
    """Free the trees, which every collection of garbage would go through."""
    parsed.cache_clear()
    nodes.cache_clear()
