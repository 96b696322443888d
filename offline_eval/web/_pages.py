"""Render pages, and answer with what they load: one style sheet, and their scripts."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from ._server import RejectedError

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


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A word of a text that takes part in a match.

    Attributes:
        start, end: where it stands in the text.
        strength: the cosine of the pair, in [0, 1].
        word: of the question, for a word of a passage; else the number of the passage with the
            best match.
    """

    start: int
    end: int
    strength: float
    word: str


class WordMatcher:
    """Finds, for each word of a question, the word of each passage that is nearest to it.

    The encoder of the embedded scorer is loaded when it is first asked. As in the scorer, each
    word piece of the question takes its best match, and rare ones weigh more.

    Args:
        encoder: another one, e.g. a scorer's that is in use already.
    """

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        self._encoder, self._lock = encoder, threading.Lock()

    def match(
        self, question: str, passages: Sequence[str]
    ) -> tuple[list[WordMatch], list[list[WordMatch]]]:
        """Return the words of a question, and per passage those that meet them best."""
        encoder = self._loaded()
        asked = encoder.encode_first([question])[0]
        weights = token_weights(asked, word_piece_idf(encoder), encoder.unknown_id)
        places = _places(encoder, question, len(asked.ids) - 2)
        if places is None or not len(weights):
            return [], [[] for _ in passages]
        # What weighs little stands in any text: "the", "of".
        weighty = weights >= _SHOWN_WEIGHT * weights.mean()
        found = [
            self._in_passage(encoder, (question, asked, places, weighty), passage, windows)
            for passage, windows in zip(passages, encoder.encode(passages), strict=True)
        ]
        return _of_question(question, places, weighty, found), [one for one, _ in found]

    def _loaded(self) -> TokenEncoder:
        with self._lock:
            if self._encoder is None:
                scorer: Any = load_scorer(DEFAULT_SCORER)
                self._encoder = scorer.encoder
            assert self._encoder is not None
            return self._encoder

    def _in_passage(
        self, encoder: TokenEncoder, asked: Any, passage: str, windows: Sequence[EncodedText]
    ) -> tuple[list[WordMatch], NDArray[np.float32]]:
        question, encoded, places, weighty = asked
        near, tokens = _nearness(encoded, windows, encoder.stride)
        best = near.max(axis=1) if tokens else np.zeros(len(near), np.float32)
        told = _places(encoder, passage, tokens)
        if told is None or not tokens:
            return [], best
        found: dict[tuple[int, int], WordMatch] = {}
        for token, at in enumerate(near.argmax(axis=1)):
            strength = float(best[token])
            start, end = told[at]
            if not weighty[token] or strength < _LEAST or not passage[start:end].isalnum():
                continue
            before = found.get((start, end))
            if before is None or strength > before.strength:
                word = question[slice(*places[token])]
                found[start, end] = WordMatch(start, end, strength, word)
        return sorted(found.values(), key=lambda one: one.start), best


def match_values(matcher: WordMatcher, question: str, passages: Sequence[str]) -> dict[str, Any]:
    """Return the words that match, for the script of a page."""
    texts = [text[:_LONGEST] for text in passages[:_MOST]]
    asked, met = matcher.match(question, texts)
    in_passages = [[asdict(one) for one in words] for words in met]
    return {"question": [asdict(one) for one in asked], "passages": in_passages}


def citation_values(reply: str, passages: Sequence[str], question: str) -> dict[str, Any]:
    """Return each sentence of a reply with what carries it, for the script of a page."""
    found = SupportCheck().check(reply, passages, question)
    fields = ("start", "end", "support", "passage", "missing")
    sentences = [
        {name: getattr(one, name) for name in fields}
        | {"from": one.passage_start, "to": one.passage_end}
        for one in found.sentences
    ]
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


def _of_question(
    question: str,
    places: Sequence[tuple[int, int]],
    weighty: NDArray[np.bool_],
    found: Sequence[tuple[Sequence[WordMatch], NDArray[np.float32]]],
) -> list[WordMatch]:
    if not found:
        return []
    best = np.stack([one for _, one in found])
    words: dict[tuple[int, int], WordMatch] = {}
    for token, place in enumerate(places):
        strength, at = float(best[:, token].max()), int(best[:, token].argmax())
        before = words.get(place)
        # A word is met as well as the worst met of its pieces.
        if not question[slice(*place)].isalnum():
            continue
        if weighty[token] and (before is None or strength < before.strength):
            words[place] = WordMatch(*place, max(0.0, strength), str(at + 1))
    return list(words.values())
