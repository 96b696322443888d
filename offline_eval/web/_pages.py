"""Render pages, and answer with what they load: one style sheet, and their scripts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException

from ...guard.errors import InputError
from ..judging.labelling import plain
from ._gate import RejectedError

_HERE = Path(__file__).parent
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def new_app(sections: Sequence[tuple[str, str]]) -> FastAPI:
    """Return an application that serves the static files, for pages to be added.

    Args:
        sections: address and name of what the head of every page links to.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.sections = tuple(sections)

    @app.exception_handler(RejectedError)
    def rejected(request: Request, error: RejectedError) -> Response:
        return _error(app, request, error.status, error.message)

    @app.exception_handler(HTTPException)
    def missing(request: Request, error: HTTPException) -> Response:
        message = {404: "no such page", 405: "not served this way"}.get(error.status_code, "")
        return _error(app, request, error.status_code, message or "the request is not understood")

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> Response:
        del error  # it quotes what was sent
        return _error(app, request, 400, "the request is not understood")

    @app.exception_handler(InputError)
    def failed(request: Request, error: InputError) -> Response:
        return _error(app, request, 500, str(error))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return Response(_static(name), media_type=_KINDS[Path(name).suffix])

    return app


def page(app: FastAPI, template: str, **values: Any) -> HTMLResponse:
    """Render a template; every text in it is escaped."""
    found = _environment().get_template(template)
    return HTMLResponse(found.render(sections=app.state.sections, **values))


def _error(app: FastAPI, request: Request, status: int, message: str) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"error": message}, status)
    found = page(app, "error.html", message=message)
    found.status_code = status
    return found


@cache
def _static(name: str) -> bytes:
    known = {one.name for one in (_HERE / "static").iterdir() if one.suffix in _KINDS}
    if name not in known:
        raise RejectedError(404, "no such file")
    return (_HERE / "static" / name).read_bytes()


@cache
def _environment() -> Environment:
    def clean(value: Any) -> Any:
        # Markup is what the templates' own macros made.
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return plain(value) if is_text else value

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["score"] = score_text
    environment.filters["cut"] = lambda text, most: (
        text if len(text) <= most else text[:most].rstrip() + "…"
    )
    return environment


def score_text(value: float | None) -> str:
    """A score with three decimals, or a dash; small and large ones with their power of ten."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.1e}"
