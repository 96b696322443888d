"""What requests and responses hold: questions, decisions, and errors.

All errors have the shape of OpenAI's, without text of a user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...guard import Decision
from ...guard.errors import (
    NO_JSON,
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
)
from ...guard.files import table_beside
from ...guard.routing import PolicyState
from ...guard.text import clean_text

_TYPES = {401: "authentication_error", 403: "authentication_error", 429: "rate_limit_error"}
_MOST_PARAM = 100


class ErrorDetail(BaseModel):
    """What went wrong; never with text of a question, a passage or a reply.

    Attributes:
        message: one sentence.
        type: `invalid_request_error`, `authentication_error`, `rate_limit_error`,
            `upstream_error` or `server_error`.
        code: what a program tells errors apart by.
        param: the field of the request; None where it is not about one.
    """

    model_config = ConfigDict(extra="forbid")

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorBody(BaseModel):
    """The body of every error."""

    model_config = ConfigDict(extra="forbid")

    error: ErrorDetail


_BY_STATUS: dict[str, dict[str, str]] = table_beside(__file__, "errors.toml")
_STATUS = {code: int(status) for status, codes in _BY_STATUS.items() for code in codes}
# Of the slots of sentences, in the description of the service.
_NAMES = {"most": "N", "status": "N", "what": "WHAT", "named": ""}
_SOON = {"Retry-After": "1"}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: _SOON, 503: _SOON}
# After these nothing more is read of the connection.
_CLOSING = frozenset({"bodies_too_large", "body_too_large", "body_too_late", "draining"})


class ServeError(Exception):
    """A request that is not answered as asked.

    Args:
        code: what a program tells errors apart by; decides the status and its headers.
        message: in place of the usual one.
        param: the field of the request.
        headers: further ones of the response.
        given: what fills the usual message.

    Attributes:
        passes: whether the same request may succeed soon.
        after: the seconds after which, where the upstream says so.
    """

    passes = False
    after: float | None = None

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        **given: object,
    ) -> None:
        self.status = _STATUS[code]
        self.code, self.param = code, param
        usual = _BY_STATUS[str(self.status)][code]
        self.message = usual.format(**given) if message is None else message
        super().__init__(self.message)
        closing = {"Connection": "close"} if code in _CLOSING else {}
        self.headers = {**_HEADERS.get(self.status, {}), **closing, **(headers or {})}

    @property
    def body(self) -> ErrorBody:
        """As it is sent."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        if self.status >= 500:
            kind = "upstream_error" if self.code.startswith("upstream_") else "server_error"
        return ErrorBody(
            error=ErrorDetail(message=self.message, type=kind, code=self.code, param=self.param)
        )


def as_json(value: BaseModel | dict[str, Any]) -> bytes:
    """`value` as JSON in ASCII, which holds any text, lone surrogates included.

    Raises:
        ValueError: it holds NaN or infinity.
    """
    found = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(found, allow_nan=False, separators=(",", ":")).encode("ascii")


def read_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`; None where that is anything else, or nested too deep."""
    found = None
    with suppress(*NO_JSON):
        found = json.loads(data)
    return found if isinstance(found, dict) else None


def fields_of(value: object) -> dict[str, Any]:
    """The fields of a JSON object; none of anything else."""
    return value if isinstance(value, dict) else {}


def json_reply(
    content: BaseModel | dict[str, Any], *, headers: Mapping[str, str] | None = None
) -> Response:
    """The response whose body is `content` as JSON."""
    return Response(as_json(content), headers=headers, media_type="application/json")


def reply_to(error: ServeError) -> Response:
    """The response for an error."""
    found = json_reply(error.body, headers=error.headers)
    found.status_code = error.status
    return found


def _invalid_request(error: RequestValidationError) -> ServeError:
    """The first thing that is wrong with a request, without the value that was given."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return ServeError("invalid_json")
    place = [str(part) for part in first["loc"] if part != "body"]
    param = clean_text(".".join(place))[:_MOST_PARAM] or None
    if not place and first["type"] != "value_error":
        message = "The body is no JSON object, or its Content-Type is not application/json."
        return ServeError("invalid_request", message)
    known = {
        "extra_forbidden": "there is no such field",
        "missing": "it is missing",
        "value_error": "it has a value that it cannot have",
    }
    what = known.get(first["type"], str(first["msg"]))
    return ServeError("invalid_request", param=param, what=what)


# What a guard that raises (`on_error="raise"`) means to a client.
_UNDECIDED: tuple[tuple[type[KnowgateError], str], ...] = (
    (InputError, "invalid_input"),
    (SignalTimeoutError, "signal_timeout"),
    (LanguageModelTimeoutError, "signal_timeout"),
    (SignalOverloadError, "signal_overload"),
    (SignalError, "signal_failed"),
    (LanguageModelError, "signal_failed"),
)


def typed(error: Exception) -> ServeError:
    """What an error of the guard, of the framework or of a request means to a client."""
    if isinstance(error, ServeError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid_request(error)
    if isinstance(error, HTTPException):
        codes = {400: "invalid_json", 404: "not_found", 405: "method_not_allowed"}
        found = ServeError(codes.get(error.status_code, "rejected"), headers=error.headers)
        found.status = error.status_code
        return found
    undecided = (code for kind, code in _UNDECIDED if isinstance(error, kind))
    return ServeError(next(undecided, "internal_error"))


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Errors of an endpoint, for its OpenAPI entry: what each status may mean, by its codes."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        codes = _BY_STATUS[str(status)].items()
        told = " ".join(f"`{code}`: {text.format(**_NAMES)}" for code, text in codes)
        found[status] = {"model": ErrorBody, "description": told}
    return found


REJECTED = documented(400, 401, 403, 408, 413, 422, 429, 500, 502, 503, 504)


# -- decisions ------------------------------------------------------------------------------------


Text = Annotated[
    str, BeforeValidator(lambda given: clean_text(given) if isinstance(given, str) else given)
]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Passage(_Given):
    """A passage with metadata; `title` or else `source` in it names the passage in replies."""

    text: Text
    metadata: dict[str, Any] = Field(default_factory=dict)


Passages = list[Text | Passage]


def as_given(passages: Passages) -> list[Any]:
    """The passages as a guard reads them."""
    return [dict(one) if isinstance(one, Passage) else one for one in passages]


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
    __config__={"extra": "forbid"},
    __doc__="The guard's decision; see `knowgate.guard.Decision`.",
    **_FIELDS,
)


class DecisionReply(BaseModel):
    """A decision on one question.

    Attributes:
        decision: route, reason, scores and which passages are kept.
        reply: what to say instead of asking a model; null where one is to be asked, and in
            shadow mode.
        calibrated: whether the policy was calibrated; `changed` if it was edited since,
            `generated` if programs made the questions, `costs` if costs chose the threshold,
            without a promise.
    """

    decision: DecisionBody
    reply: str | None
    calibrated: PolicyState


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
