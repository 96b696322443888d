"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import REGISTRY, CollectorRegistry
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..._version import __version__
from ...guard import Decision, Guard, GuardOptions, Policy, Reason
from ...guard.errors import KnowgateError
from ...guard.prompts import Prompt
from ...guard.routing import PolicyState
from ...guard.text import passage_text
from ..langchain import Replies
from ._access import AccessMiddleware, Admission, ServeLimits, exposition, http_metrics
from ._bodies import (
    REJECTED,
    CheckReply,
    DecisionBatchReply,
    DecisionReply,
    GeneratedReply,
    Question,
    QuestionBatch,
    ScoreReply,
    ServeError,
    as_given,
    documented,
    json_reply,
    reply_to,
    typed,
)
from ._proxy import ChatProxy, chat_router, search_by
from ._support import verdict_body
from ._upstream import Upstream, UpstreamClient


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """What the proxy in front of an upstream does.

    Attributes:
        upstream: answers what the guard lets through.
        retriever: asked where a request brings no passages: a retriever or runnable of
            LangChain, or a function (async or not) from a question to documents.
        retriever_seconds: until a retrieval counts as failed.
        prompt: with the slots `{context}` and `{question}`; a bundled one by default.
    """

    upstream: Upstream
    retriever: Any = None
    retriever_seconds: float = 10.0
    prompt: Prompt | None = None


_PROMPT = resources.files(__package__).joinpath("with_context.txt").read_text("utf-8").rstrip("\n")


# Counted by their names where they are not served, too.
_ENDPOINTS = ("/openapi.json", "/v1/chat/completions", "/v1/check", "/v1/models", "/v1/score")


class Readiness(BaseModel):
    """The service takes requests.

    Attributes:
        status: `ready`.
        calibrated: whether the policy was calibrated; `changed` if it was edited since,
            `generated` if programs made the questions.
        note: what the policy promises nothing about, if anything.
        mode: `enforce` or `shadow`.
        proxy: whether there is an upstream for `/v1/chat/completions`.
    """

    status: str
    calibrated: PolicyState
    note: str
    mode: str
    proxy: bool


def create_app(
    guard: Guard,
    *,
    token: str | None = None,
    proxy: ProxyOptions | None = None,
    replies: str | Mapping[Reason | str, str] | Replies | None = None,
    limits: ServeLimits | None = None,
    registry: CollectorRegistry | None = None,
) -> FastAPI:
    """Make an ASGI application that serves a guard, for any server of such applications.

    Args:
        guard: decides.
        token: that requests must bear (`Authorization: Bearer TOKEN`); without one only
            requests from this machine to this machine are answered.
        proxy: where given, `POST /v1/chat/completions` and `GET /v1/models` are served too.
        replies: said on abstention, as for `GuardedRAG`.
        limits: of requests; those of questions and passages are the guard's.
        registry: whose metrics `/metrics` shows, by default prometheus-client's own.

    Raises:
        InputError: an argument is not what it should be.

    Example:
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> scorer = FakeScorer({"nine": 0.9})
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> app = create_app(Guard(policy, scorer=scorer, metrics=False))
        >>> app.title
        'knowgate'
    """
    limits = limits or ServeLimits()
    said = Replies.of(replies, guard)
    client = None if proxy is None else UpstreamClient(proxy.upstream)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if client is not None:
            await client.close()

    app = FastAPI(
        title="knowgate",
        version=__version__,
        description="A guard for RAG: follow the context, answer from memory, or abstain.",
        # FastAPI's own pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    admission = app.state.admission = Admission(limits)
    app.include_router(_decide_router(guard, said, limits))
    if proxy is not None and client is not None:
        search = None
        if proxy.retriever is not None:
            search = search_by(proxy.retriever, proxy.retriever_seconds, guard.limits)
        prompt = proxy.prompt or Prompt("serve_with_context", _PROMPT)
        app.include_router(chat_router(ChatProxy(guard, client, said, prompt, search)))
    registry = REGISTRY if registry is None else registry
    _add_operations(app, guard, registry, proxies=proxy is not None)
    _add_error_replies(app)
    app.add_middleware(
        AccessMiddleware,
        admission=admission,
        token=token,
        metrics=http_metrics(registry),
        endpoints={*_ENDPOINTS, *app.openapi()["paths"]},
    )
    return app


def _decide_router(guard: Guard, replies: Replies, limits: ServeLimits) -> APIRouter:
    """The endpoints below `/v1/decide`, and `/v1/score` where the guard has a scorer."""
    router = APIRouter()

    def reply(decision: Decision, passages: list[Any]) -> dict[str, Any]:
        return {
            "decision": decision.model_dump(mode="json"),
            "reply": replies.standing(decision, passages) if decision.acts else None,
            "calibrated": guard.policy.state,
        }

    @router.post("/v1/decide", response_model=DecisionReply, responses=REJECTED)
    async def decide(given: Question) -> Response:
        """Decide one question: follow the context, answer from memory, or abstain."""
        passages = as_given(given.passages)
        return json_reply(reply(await guard.adecide(given.question, passages), passages))

    @router.post("/v1/decide/batch", response_model=DecisionBatchReply, responses=REJECTED)
    async def decide_batch(given: QuestionBatch) -> Response:
        """Decide many questions, scored together."""
        if len(given.requests) > limits.batch:
            raise ServeError("batch_too_large", param="requests", most=limits.batch)
        passages = [as_given(one.passages) for one in given.requests]
        questions = [one.question for one in given.requests]
        decided = await guard.adecide_each(questions, passages)
        results = [
            {"error": typed(one).body.error.model_dump()}
            if isinstance(one, KnowgateError)
            else reply(one, passages[index])
            for index, one in enumerate(decided)
        ]
        return json_reply({"results": results})

    if guard.reply_checker is not None:
        _add_check(router, guard)
    if guard.scorer is not None:
        measuring = _measuring(guard)

        @router.post("/v1/score", response_model=ScoreReply, responses=REJECTED)
        async def score(given: Question) -> Response:
            """Score how far passages suffice, without a decision."""
            found = await measuring.adecide(given.question, as_given(given.passages))
            failed = found.relevance is None
            return json_reply(
                {
                    "scores": list(found.scores),
                    "relevance": found.relevance,
                    "reason": str(found.reason) if failed else None,
                }
            )

    return router


def _add_check(router: APIRouter, guard: Guard) -> None:
    """Add the endpoint `/v1/check`."""

    @router.post("/v1/check", response_model=CheckReply, responses=REJECTED)
    async def check(given: GeneratedReply) -> Response:
        """Check a reply against the passages that it was generated from."""
        passages = [passage_text(one) for one in as_given(given.passages)]
        verdict = await guard.acheck_reply(given.reply, passages, given.question)
        body = verdict_body(verdict, passages, range(len(passages)))
        return json_reply({**body, "text": verdict.text})


def _measuring(guard: Guard) -> Guard:
    """A guard that measures relevance as `guard` does, and counts nothing."""
    policy = Policy(
        scorer=guard.policy.scorer,
        aggregator=guard.policy.aggregator,
        relevance_calibrator=guard.policy.relevance_calibrator,
        relevance_threshold=1.0,
    )
    options = GuardOptions(mode="shadow", limits=guard.limits)
    return Guard(policy, scorer=guard.scorer, options=options, metrics=False)


def _add_operations(
    app: FastAPI, guard: Guard, registry: CollectorRegistry, *, proxies: bool
) -> None:
    """Add what those ask for who run the service."""
    admission: Admission = app.state.admission

    @app.get("/healthz", response_model=dict[str, str], responses=documented(403))
    async def healthz() -> Response:
        """Tell that the process answers; also while it is draining."""
        return json_reply({"status": "ok"})

    @app.get("/readyz", response_model=Readiness, responses=documented(403, 503))
    async def readyz() -> Response:
        """Tell whether requests are taken, and what the policy promises."""
        if admission.draining:
            raise ServeError("draining")
        found = Readiness(
            status="ready",
            calibrated=guard.policy.state,
            note=guard.policy.note,
            mode=guard.mode.value,
            proxy=proxies,
        )
        return json_reply(found)

    @app.get(
        "/metrics",
        response_class=Response,
        responses={**documented(401, 403), 200: {"content": {"text/plain": {}}}},
    )
    async def show_metrics(request: Request) -> Response:
        """Metrics for Prometheus."""
        body, media_type = exposition(registry, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media_type})


def _add_error_replies(app: FastAPI) -> None:
    """Give all errors the same shape."""

    async def reply(request: Request, error: Exception) -> Response:
        return reply_to(typed(error))

    for kind in (ServeError, KnowgateError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, reply)
