"""Pages in the browser, in one application: runs to look through, and a chain to try.

Served on loopback only, under an address with a token; see `_gate`. Needs
`pip install knowgate[serve]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...guard.errors import require_extra

if TYPE_CHECKING:
    from ._apps import play_app, view_app
    from ._index import RunIndex, open_index
    from ._play import Playground
    from ._server import PageServer

__all__ = [
    "PageServer",
    "Playground",
    "RunIndex",
    "open_index",
    "play_app",
    "view_app",
]

_MODULES = {
    "PageServer": "_server",
    "Playground": "_play",
    "RunIndex": "_index",
    "open_index": "_index",
    "play_app": "_apps",
    "view_app": "_apps",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562).

    Raises:
        MissingDependencyError: the extra `serve` is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("serve")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
