"""A local language model as an OpenAI-compatible ASGI application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse

from ..._version import __version__
from ._admission import Admission, ServeLimits
from ._app import add_error_replies
from ._completions import Completions
from ._errors import JSONReply, ServeError, documented
from ._faults import FAULT_HEADER, Fault
from ._gate import Gate
from ._http_metrics import HTTPMetrics
from ._openai import (
    DONE,
    EVENT_STREAM,
    ChatCompletion,
    ChatCompletionChunk,
    SamplingRequest,
    event,
    now,
)

if TYPE_CHECKING:
    from ..huggingface import HuggingFaceLM

_PATHS = ("/healthz", "/v1/chat/completions", "/v1/models")
_ERRORS = documented(400, 401, 403, 404, 408, 413, 422, 429, 500, 503)


def create_lm_app(
    lm: HuggingFaceLM,
    *,
    name: str = "knowgate",
    token: str | None = None,
    allow_faults: bool = False,
    limits: ServeLimits | None = None,
) -> FastAPI:
    """Make an ASGI application that serves a language model as OpenAI's chat completions.

    Without `stop` in a request, the model's own stop strings end a reply. Sample k of `n` is
    the one that the seed plus k gives alone.

    Args:
        lm: the model; it may serve a guard in the same process.
        name: what requests call it.
        token: as for `create_app`.
        allow_faults: whether the header `X-Knowgate-Fault` of a request is honoured.
        limits: of requests.

    Example:
        >>> from knowgate.adapters.huggingface import HuggingFaceLM
        >>> app = create_lm_app(HuggingFaceLM("path/to/model"))  # doctest: +SKIP
    """
    limits = limits or ServeLimits()
    completions = Completions(lm, name)
    app = FastAPI(
        title="knowgate language model", version=__version__, docs_url=None, redoc_url=None
    )
    app.state.admission = Admission(limits)
    started = now()

    @app.get("/healthz")
    async def healthz() -> Response:
        """Tell that the process answers."""
        return JSONReply({"status": "ok"})

    @app.get("/v1/models", responses=documented(401, 403))
    async def models() -> Response:
        """Name the model."""
        found = {"id": name, "object": "model", "created": started, "owned_by": "knowgate"}
        return JSONReply({"object": "list", "data": [found]})

    @app.post("/v1/chat/completions", response_model=ChatCompletion, responses=_ERRORS)
    async def chat(body: SamplingRequest, request: Request) -> Response:
        """Complete a conversation."""
        asked = completions.read(body)
        header = request.headers.get(FAULT_HEADER)
        if header is not None:
            if not allow_faults:
                message = "Start the server with --allow-faults."
                raise ServeError(400, "faults_not_allowed", message, param=FAULT_HEADER)
            return await _faulty(Fault.read(header), completions, asked, stream=bool(body.stream))
        if not body.stream:
            return JSONReply(await completions.complete(asked))
        usage = bool((body.stream_options or {}).get("include_usage"))
        chunks = iterate_in_threadpool(_events(completions.chunks(asked, include_usage=usage)))
        return StreamingResponse(chunks, media_type=EVENT_STREAM)

    add_error_replies(app)
    app.add_middleware(
        Gate,
        admission=app.state.admission,
        limits=limits,
        token=token,
        metrics=HTTPMetrics(CollectorRegistry(), _PATHS),
    )
    return app


async def _faulty(fault: Fault, completions: Completions, asked: Any, *, stream: bool) -> Response:
    instead = await fault.instead()
    if instead is not None:
        return instead
    completion = await completions.complete(asked)
    return fault.stream(completion) if stream else fault.reply(completion)


def _events(chunks: Iterator[ChatCompletionChunk]) -> Iterator[bytes]:
    for chunk in chunks:
        yield event(chunk)
    yield DONE
