"""Pages in the browser, in one application: runs to look through, replies to label,
leaks to review, a chain to try.

Served on loopback only, under an address with a token; see `_server`. Needs
`pip install knowgate[serve]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...guard.registry import names_on_use

if TYPE_CHECKING:
    from ._index import index_runs as index_runs
    from ._label import label_app as label_app
    from ._play import Playground as Playground
    from ._play import play_app as play_app
    from ._server import PageServer as PageServer
    from ._view import view_app as view_app

__all__ = []

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "_index": "index_runs",
        "_label": "label_app",
        "_play": "Playground play_app",
        "_server": "PageServer",
        "_view": "view_app",
    },
    extra="serve",
)
