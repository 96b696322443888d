"""Decisions and scores over HTTP, and what a request says of a question and its passages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from starlette.responses import Response

from ...guard import Decision, Guard, GuardOptions, Policy
from ...guard.errors import KnowgateError
from ...guard.text import clean_text, passage_text
from ..langchain import Replies
from ._access import ServeLimits
from ._errors import ErrorBody, JSONReply, ServeError, documented, undecided
from ._support import verdict_body


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_clean)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Passage(_Given):
    """A passage with metadata; `title` or else `source` in it names the passage in replies."""

    text: Text
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def as_given(self) -> dict[str, Any]:
        """As a guard reads it."""
        return {"text": self.text, "metadata": self.metadata}


Passages = list[Text | Passage]


def as_given(passages: Passages) -> list[Any]:
    """The passages as a guard reads them."""
    return [one.as_given if isinstance(one, Passage) else one for one in passages]


class Question(_Given):
    """A question and what was retrieved for it, nearest first."""

    question: Text
    passages: Passages = Field(default_factory=list)


class GeneratedReply(_Given):
    """A reply and the passages that it was generated from."""

    reply: Text
    passages: Passages = Field(default_factory=list)
    question: Text = ""


class QuestionBatch(_Given):
    """Several questions, each with its own passages."""

    requests: list[Question] = Field(min_length=1)


class ChatExtension(_Given):
    """The field `knowgate` of a chat request.

    Attributes:
        passages: retrieved by the client; without them the configured retriever is asked.
        question: what is judged, and asked of the retriever, for example a follow-up that the
            client has made a whole question; by default the last message of the user.
    """

    passages: Passages | None = None
    question: Text | None = None


# Documents its fields; serialising a decision leaves out the documents that it carries along.
_FIELDS: dict[str, Any] = {
    name: (one.annotation, one) for name, one in Decision.model_fields.items() if name != "found"
}
DecisionBody: Any = create_model(
    "Decision",
    __config__=ConfigDict(extra="forbid"),
    __doc__="The guard's decision; see `knowgate.guard.Decision`.",
    **_FIELDS,
)
Calibrated = Literal["true", "false", "changed", "generated"]


class DecisionReply(BaseModel):
    """A decision on one question.

    Attributes:
        decision: route, reason, scores and which passages are kept.
        reply: what to say instead of asking a model; null where one is to be asked, and in
            shadow mode.
        calibrated: whether the policy was calibrated; `changed` if it was edited since,
            `generated` if programs made the questions.
    """

    decision: DecisionBody
    reply: str | None
    calibrated: Calibrated


class DecisionBatchReply(BaseModel):
    """Decisions in the order of the requests; an error only under `on_error="raise"`."""

    results: list[DecisionReply | ErrorBody]


class CheckReply(BaseModel):
    """How far a reply rests on its passages.

    Attributes:
        supported: whether all of it does; null where the check failed.
        support: in [0, 1], of the sentence that has least; null likewise.
        calibrated: whether a promise stands behind the threshold.
        citations: each sentence of what is delivered, and the text that carries it.
        text: what is delivered; null for a refusal.
    """

    supported: bool | None
    support: float | None
    calibrated: bool
    citations: list[dict[str, Any]]
    text: str | None


class ScoreReply(BaseModel):
    """How far passages suffice.

    Attributes:
        scores: raw, one per passage; null for one without text.
        relevance: calibrated probability that they suffice together; null if it failed.
        reason: why it failed, as a decision names it; null otherwise.
    """

    scores: list[float | None]
    relevance: float | None
    reason: str | None


def decide_router(guard: Guard, replies: Replies, limits: ServeLimits) -> APIRouter:
    """The endpoints below `/v1/decide`, and `/v1/score` where the guard has a scorer."""
    router = APIRouter()
    rejected = documented(400, 401, 403, 408, 413, 422, 429, 500, 502, 503, 504)

    def reply(decision: Decision, passages: list[Any]) -> dict[str, Any]:
        return {
            "decision": decision.model_dump(mode="json"),
            "reply": replies.action(decision, passages).reply if decision.acts else None,
            "calibrated": guard.policy.state,
        }

    @router.post("/v1/decide", response_model=DecisionReply, responses=rejected)
    async def decide(given: Question) -> Response:
        """Decide one question: follow the context, answer from memory, or abstain."""
        passages = as_given(given.passages)
        return JSONReply(reply(await guard.adecide(given.question, passages), passages))

    @router.post("/v1/decide/batch", response_model=DecisionBatchReply, responses=rejected)
    async def decide_batch(given: QuestionBatch) -> Response:
        """Decide many questions, scored together."""
        if len(given.requests) > limits.batch:
            message = f"A batch has at most {limits.batch} questions."
            raise ServeError(413, "batch_too_large", message, param="requests")
        passages = [as_given(one.passages) for one in given.requests]
        questions = [one.question for one in given.requests]
        decided = await guard.adecide_each(questions, passages)
        results = [
            {"error": undecided(one).body.error.model_dump()}
            if isinstance(one, KnowgateError)
            else reply(one, passages[index])
            for index, one in enumerate(decided)
        ]
        return JSONReply({"results": results})

    if guard.reply_checker is not None:
        _add_check(router, guard, rejected)
    if guard.scorer is not None:
        measuring = _measuring(guard)

        @router.post("/v1/score", response_model=ScoreReply, responses=rejected)
        async def score(given: Question) -> Response:
            """Score how far passages suffice, without a decision."""
            found = await measuring.adecide(given.question, as_given(given.passages))
            failed = found.relevance is None
            return JSONReply(
                {
                    "scores": list(found.scores),
                    "relevance": found.relevance,
                    "reason": str(found.reason) if failed else None,
                }
            )

    return router


def _add_check(router: APIRouter, guard: Guard, rejected: Any) -> None:
    """Add the endpoint `/v1/check`."""

    @router.post("/v1/check", response_model=CheckReply, responses=rejected)
    async def check(given: GeneratedReply) -> Response:
        """Check a reply against the passages that it was generated from."""
        passages = [passage_text(one) for one in as_given(given.passages)]
        verdict = await guard.acheck_reply(given.reply, passages, given.question)
        body = verdict_body(verdict, passages, range(len(passages)))
        return JSONReply({**body, "text": verdict.text})


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
