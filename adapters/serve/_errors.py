"""Errors over HTTP: one shape of body for all, that of OpenAI, without text of a user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from ...guard.errors import (
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
)
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


class ServeError(Exception):
    """A request that is not answered as asked.

    Args:
        status: of the response.
        code: what a program tells errors apart by.
        message: one sentence, without text of the request.
        param: the field of the request.
        headers: of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.headers = param, dict(headers or {})

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


class JSONReply(Response):
    """A reply in ASCII, which holds any text, lone surrogates included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """`content` as JSON."""
        return as_json(content)


def reply_to(error: ServeError) -> JSONReply:
    """The response for an error."""
    return JSONReply(error.body, status_code=error.status, headers=error.headers)


def invalid_request(error: RequestValidationError) -> ServeError:
    """The first thing that is wrong with a request, without the value that was given."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return ServeError(400, "invalid_json", "The body is not JSON.")
    place = [str(part) for part in first["loc"] if part != "body"]
    param = clean_text(".".join(place))[:_MOST_PARAM] or None
    if not place and first["type"] != "value_error":
        message = "The body is no JSON object, or its Content-Type is not application/json."
        return ServeError(422, "invalid_request", message)
    known = {
        "extra_forbidden": "there is no such field",
        "missing": "it is missing",
        "value_error": "it has a value that it cannot have",
    }
    what = known.get(first["type"], str(first["msg"]))
    return ServeError(422, "invalid_request", f"A field of the body is wrong: {what}.", param=param)


def undecided(error: KnowgateError) -> ServeError:
    """What a guard that raises (`on_error="raise"`) means to a client."""
    if isinstance(error, InputError):
        return ServeError(422, "invalid_input", "The question or its passages cannot be read.")
    if isinstance(error, SignalTimeoutError | LanguageModelTimeoutError):
        return ServeError(504, "signal_timeout", "A signal took longer than its deadline.")
    if isinstance(error, SignalOverloadError):
        headers = {"Retry-After": "1"}
        message = "Too many earlier calls are still under way."
        return ServeError(503, "signal_overload", message, headers=headers)
    if isinstance(error, SignalError | LanguageModelError):
        return ServeError(502, "signal_failed", "A signal could not be measured.")
    return ServeError(500, "internal_error", "The decision failed.")


_MEANINGS = {
    400: "The body is not JSON.",
    401: "The bearer token is missing or wrong.",
    403: "Without a token only the local machine is answered.",
    404: "There is no such resource.",
    405: "The resource does not know the method.",
    408: "The body did not arrive in time.",
    413: "The body, or the batch, is too large.",
    422: "The body is not as documented.",
    429: "Too many requests are under way; `Retry-After` says when to ask again.",
    500: "An unexpected error; the log names its type.",
    502: "The upstream, or a signal of the guard, failed.",
    503: "The server is draining, or too many earlier calls are stuck.",
    504: "The upstream, or a signal of the guard, took too long.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Errors of an endpoint, for its OpenAPI entry."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses}
