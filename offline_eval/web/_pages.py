"""Render pages, and answer with what they load: one style sheet, and their scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from ...guard.engine.encoder import TokenEncoder
from ...guard.engine.passage_store import EncodedText
from ...guard.errors import InputError
from ...guard.reply_check import DEFAULT_THRESHOLD
from ...guard.signals.relevance import load_scorer
from ...guard.signals.relevance.late_interaction import token_weights, word_piece_idf
from ...guard.signals.relevance.registry import DEFAULT_SCORER
from ...guard.signals.support import SupportCheck
from ..judging.labelling.session import plain
from ..report.prose import template_environment

_HERE = Path(__file__).parent
# In the place of what the framework says.
_OWN_WORDS = {"Not Found": "no such page", "Method Not Allowed": "not served this way"}
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def new_app(sections: Sequence[tuple[str, str]]) -> FastAPI:
    """Return an application that serves the static files, for pages to be added.

    Args:
        sections: address and name of what the head of every page links to.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.sections = sections

    def failed(request: Request, error: Exception) -> Response:
        # A request that is not valid is not quoted.
        status, message = 400, "the request is not understood"
        if isinstance(error, HTTPException):
            status, message = error.status_code, _OWN_WORDS.get(error.detail, error.detail)
        elif isinstance(error, InputError):
            status, message = 500, str(error)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": message}, status)
        found = page(app, "error.html", message=message)
        found.status_code = status
        return found

    for kind in (HTTPException, RequestValidationError, InputError):
        app.add_exception_handler(kind, failed)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return Response(_static(name), media_type=_KINDS[Path(name).suffix])

    return app


def page(app: FastAPI, template: str, **values: Any) -> HTMLResponse:
    """Render a template; every text in it is escaped."""
    found = _environment().get_template(template)
    return HTMLResponse(found.render(sections=app.state.sections, **values))


@cache
def _static(name: str) -> bytes:
    known = {one.name for one in (_HERE / "static").iterdir() if one.suffix in _KINDS}
    if name not in known:
        raise HTTPException(404, "no such file")
    return (_HERE / "static" / name).read_bytes()


@cache
def _environment() -> Environment:
    environment = template_environment(_HERE / "templates", clean=plain)
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


# As the model's own tokenizer divides texts before it looks for word pieces.
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
# A cosine from which on a pair of words is shown.
_LEAST = 0.4
_SHOWN_WEIGHT = 0.7
# Long lists of long passages take seconds to encode.
_MOST = 20
_LONGEST = 20_000


@cache
def _encoder() -> TokenEncoder:
    scorer: Any = load_scorer(DEFAULT_SCORER)
    encoder: TokenEncoder = scorer.encoder
    return encoder


def match_values(question: str, passages: Sequence[str]) -> dict[str, Any]:
    """Find, for each word of a question, the word of each passage that is nearest to it.

    As in the embedded scorer, each word piece of the question takes its best match, and rare ones
    weigh more. The encoder of that scorer is loaded when it is first asked.

    Returns:
        For the script of a page: the words of the question, and per passage those that meet them
        best, each with its place, the cosine of the pair in [0, 1], and as `word` the question's
        word, or for a word of the question the number of the passage with the best match.
    """
    texts, encoder = [text[:_LONGEST] for text in passages[:_MOST]], _encoder()
    asked = encoder.encode_first([question])[0]
    weights = token_weights(asked, word_piece_idf(encoder), encoder.unknown_id)
    places = _places(encoder, question, len(asked.ids) - 2)
    if places is None or not len(weights):
        return {"question": [], "passages": [[] for _ in texts]}
    # What weighs little stands in any text: "the", "of".
    weighty = weights >= _SHOWN_WEIGHT * weights.mean()
    wanted = [
        (token, place)
        for token, place in enumerate(places)
        if weighty[token] and question[slice(*place)].isalnum()
    ]
    found, best = [], np.zeros((len(texts), len(places)), np.float32)
    for number, (text, windows) in enumerate(zip(texts, encoder.encode(texts), strict=True)):
        near, tokens = _nearness(asked, windows, encoder.stride)
        told = _places(encoder, text, tokens) or []
        if tokens:
            best[number] = near.max(axis=1)
        met: dict[tuple[int, int], tuple[float, str]] = {}
        for token, place in wanted if told else ():
            at, strength = told[near[token].argmax()], float(best[number, token])
            if strength >= _LEAST and text[slice(*at)].isalnum():
                met[at] = max(met.get(at, (0.0, "")), (strength, question[slice(*place)]))
        found.append(_words(met))
    words: dict[tuple[int, int], tuple[float, str]] = {}
    for token, place in wanted if texts else ():
        strength = max(0.0, float(best[:, token].max()))
        # A word is met as well as the worst met of its pieces.
        if place not in words or strength < words[place][0]:
            words[place] = strength, str(int(best[:, token].argmax()) + 1)
    return {"question": _words(words), "passages": found}


def _words(met: Mapping[tuple[int, int], tuple[float, str]]) -> list[dict[str, Any]]:
    return [
        {"start": start, "end": end, "strength": strength, "word": word}
        for (start, end), (strength, word) in sorted(met.items())
    ]


def citation_values(reply: str, passages: Sequence[str], question: str) -> dict[str, Any]:
    """Return each sentence of a reply with what carries it, for the script of a page."""
    found = SupportCheck().check(reply, passages, question)
    fields = "start", "end", "support", "passage", "passage_start", "passage_end", "missing"
    sentences = [{name: getattr(one, name) for name in fields} for one in found.sentences]
    return {"sentences": sentences, "threshold": DEFAULT_THRESHOLD}


def _nearness(
    question: EncodedText, windows: Sequence[EncodedText], stride: int
) -> tuple[NDArray[np.float32], int]:
    """Cosines of question tokens and passage tokens, the best of overlapping windows."""
    ends = (stride * at + len(window.ids) - 2 for at, window in enumerate(windows))
    tokens = max(ends, default=0)
    near = np.full((len(question.ids) - 2, max(tokens, 1)), -1.0, np.float32)
    for at, window in enumerate(windows):
        size = len(window.ids) - 2
        part = near[:, stride * at : stride * at + size]
        np.maximum(part, question.vectors[1:-1] @ window.vectors[1:-1].T, out=part)
    return near, tokens


def _places(encoder: TokenEncoder, text: str, tokens: int) -> list[tuple[int, int]] | None:
    """Where the word of each of the first `tokens` tokens stands; None where that is unclear."""
    found: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        if len(found) >= tokens:
            break
        found += [word.span()] * len(encoder.pieces(word.group()))
    return found[:tokens] if len(found) >= tokens else None
