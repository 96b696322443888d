"""Pages in the browser, in one application: runs to look through, replies to label,
leaks to review, a chain to try.

Served on loopback only, under an address with a token; see `_gate`. Needs
`pip install knowgate[serve]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...guard.errors import require_extra

if TYPE_CHECKING:
    from ._index import index_runs as index_runs
    from ._label import label_app as label_app
    from ._play import Playground as Playground
    from ._play import play_app as play_app
    from ._server import PageServer as PageServer
    from ._view import view_app as view_app

__all__ = []

_MODULES = {
    "PageServer": "_server",
    "Playground": "_play",
    "label_app": "_label",
    "index_runs": "_index",
    "play_app": "_play",
    "view_app": "_view",
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
