"""The applications of the commands, each with the pages that it needs."""

from __future__ import annotations

from fastapi import FastAPI

from ._index import RunIndex
from ._matches import WordMatcher
from ._pages import new_app
from ._play import Playground, add_play
from ._view import add_view


def view_app(index: RunIndex) -> FastAPI:
    """Return the pages of `knowgate view` over indexed runs."""
    app = new_app((("/", "Runs"), ("/compare", "Compare")))
    add_view(app, index, WordMatcher())
    return app


def play_app(ground: Playground) -> FastAPI:
    """Return the page of `knowgate play`."""
    app = new_app((("/", "Playground"),))
    add_play(app, ground)
    return app
