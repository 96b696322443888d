"""Labelling and review pages: one item after the other, each answer on disk before the next."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from ..judging.labelling.review_session import ReviewSession
from ..judging.labelling.session import LabelSession, NotAskedError
from ._pages import new_app, page

PLACE = "/label/"
_REPLY = PLACE + "replies/{position:int}"


_Choice = Annotated[str, Body()]
_Note = Annotated[str | None, Body(embed=True)]


# What a page calls what it does, the items, and those that are done.
_REVIEWING = {"doing": "Reviewing leaks", "item": "case", "items": "cases", "done": "reviewed"}
_LABELLING = {"doing": "Labelling", "item": "reply", "items": "replies", "done": "labelled"}
_SETTLING = {**_LABELLING, "doing": "Settling disagreements", "done": "settled"}


def label_app(session: LabelSession | ReviewSession) -> FastAPI:
    """Return the page on which one person labels, settles disagreements, or reviews leaks.

    The viewer is not part of it: it would show what judges and others said.
    """
    annotator, settles, reviews, words = "", False, True, _REVIEWING
    if isinstance(session, LabelSession):
        annotator, settles, reviews = session.annotator, session.settles, False
        words = _SETTLING if settles else _LABELLING
    # U is a verdict of reviews: unsure.
    undo_key = "z" if reviews else "u"
    app = new_app(((PLACE, words["doing"]),))

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
        settings = {
            "criteria": session.asked(),
            "settles": settles,
            "reviews": reviews,
            "undo": undo_key,
            "words": words,
        }
        return page(
            app, "label.html", annotator=annotator, settings=json.dumps(settings), **settings
        )

    _add_items(app, session)
    return app


def _add_items(app: FastAPI, session: LabelSession | ReviewSession) -> None:
    """Add what the page's script asks."""
    app.get(PLACE + "state")(session.state)
    app.get(_REPLY)(session.item)
    app.post(PLACE + "undo")(session.undo)

    @app.get(_REPLY + "/context")
    def context(position: int) -> dict[str, Any]:
        return {"passages": session.context(position)}

    @app.post(_REPLY + "/label")
    def label(
        position: int, criterion: _Choice, outcome: _Choice, note: _Note = None
    ) -> dict[str, Any]:
        return session.label(position, criterion, outcome, note)

    @app.post(_REPLY + "/skip")
    def skip(position: int, note: _Note = None) -> dict[str, Any]:
        return session.skip(position, note)

    @app.post(_REPLY + "/note")
    def add_note(position: int, note: _Note = None) -> dict[str, Any]:
        return session.note(position, note or "")
