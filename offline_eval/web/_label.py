"""The labelling page: one reply after the other, each label on disk before the next."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel

from ..judging.labelling import LabelSession, NotAskedError
from ._pages import new_app, page

PLACE = "/label/"
_REPLY = PLACE + "replies/{position:int}"


class _Note(BaseModel):
    note: str | None = None


class _Label(_Note):
    criterion: str
    outcome: str


def label_app(session: LabelSession) -> FastAPI:
    """Return the page on which one person labels, or settles disagreements.

    The viewer is not part of it: it would show what judges and others said.
    """
    app = new_app(((PLACE, "Labelling"),))

    @app.exception_handler(IndexError)
    def missing(_request: Request, _error: Exception) -> Response:
        return JSONResponse({"error": "no such reply"}, 404)

    @app.exception_handler(NotAskedError)
    def not_asked(_request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 409)

    @app.get("/")
    def first() -> Response:
        return RedirectResponse(PLACE, 303)

    @app.get(PLACE)
    def label_page() -> Response:
        settings = {"criteria": session.asked(), "settles": session.settles}
        return page(
            app,
            "label.html",
            annotator=session.annotator,
            settles=session.settles,
            settings=json.dumps(settings),
        )

    @app.get(PLACE + "state")
    def state() -> dict[str, Any]:
        return session.state()

    @app.get(_REPLY)
    def reply(position: int) -> dict[str, Any]:
        return session.item(position)

    @app.get(_REPLY + "/context")
    def context(position: int) -> dict[str, Any]:
        return {"passages": session.context(position)}

    @app.post(_REPLY + "/label")
    def label(position: int, given: _Label) -> dict[str, Any]:
        return session.label(position, given.criterion, given.outcome, given.note)

    @app.post(_REPLY + "/skip")
    def skip(position: int, given: _Note) -> dict[str, Any]:
        return session.skip(position, given.note)

    @app.post(_REPLY + "/note")
    def note(position: int, given: _Note) -> dict[str, Any]:
        return session.note(position, given.note or "")

    @app.post(PLACE + "undo")
    def undo(given: _Note) -> dict[str, Any]:
        del given
        return session.undo()

    return app
