"""Source files as syntax trees, read once by tests that look at all of them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
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


def inner(node: ast.AST) -> Iterator[ast.AST]:
    """The statements, handlers and cases right inside a module or statement."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, field, ())


@cache
def statements(path: Path) -> tuple[ast.AST, ...]:
    """Every statement of it, without the many more nodes of expressions."""
    found: list[ast.AST] = [*inner(parsed(path))]
    for node in found:
        found.extend(inner(node))
    return tuple(found)


def forget() -> None:
    """Free the trees, which every collection of garbage would go through."""
    parsed.cache_clear()
    statements.cache_clear()
