"""Which failures of a model may pass by themselves, judged by type and status alone."""

from __future__ import annotations

from collections.abc import Iterator

from ._deadline import DeadlineExceededError

# Request timeout, too early, too many requests, and servers that are down or overloaded.
_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_MOST_CAUSES = 16


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help.

    True for a missed deadline, for an error with a retryable HTTP status, for one
    that LangChain calls retryable, and for one that is, or was raised from, a
    timeout or a connection error. The text of an error is never looked at.

    Example:
        >>> is_transient(ConnectionResetError()), is_transient(ValueError("timeout"))
        (True, False)
    """
    retryable = getattr(error, "is_retryable", None)
    if isinstance(retryable, bool):
        return retryable
    status = _status(error)
    if status is not None:
        return status in _STATUSES
    return any(
        isinstance(cause, TimeoutError | ConnectionError | DeadlineExceededError)
        for cause in _causes(error)
    )


def is_timeout(error: BaseException) -> bool:
    """Whether `error` is, or was raised from, a missed deadline."""
    return any(isinstance(cause, TimeoutError | DeadlineExceededError) for cause in _causes(error))


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int):
            return status
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Client libraries wrap the socket's own error; only explicit causes count, since
    # an error that was merely being handled says nothing about this one.
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__
