"""All errors that knowgate raises deliberately.

    KnowgateError
    ├── InputError                     a file or an argument is not what it should be (exit code 2)
    │   ├── QuestionError              a question or its passages cannot be read
    │   │   ├── PassageError           the passages are no collection of texts or documents
    │   │   └── InputTooLargeError     they exceed the limits of the guard
    │   ├── ModelFolderError           a model folder lacks weights, tokenizer or the right sha256
    │   └── PolicyError                a policy cannot be used
    │       └── FingerprintMismatchError  calibrated on another scorer or estimator
    ├── MissingDependencyError         an optional package is not installed
    ├── DeviceError                    the requested device is not available
    ├── SignalError                    a signal could not be measured
    │   ├── SignalTimeoutError         it took longer than its deadline
    │   ├── SignalOverloadError        too many earlier calls are still stuck
    │   │   └── SignalWaitError        the question waited too long for its turn
    │   ├── SignalValueError           it returned NaN, the wrong shape or a value off its scale
    │   └── UnsupportedLanguageError   the scorer does not know the question's language
    └── LanguageModelError             a language model did not answer
        ├── LanguageModelTimeoutError  no answer before the deadline
        ├── PartialGenerationsError    only some of the answers arrived (in `contracts`)
        └── PromptTooLongError         the prompt does not fit the context window

Abstaining is not an error: it is a route.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

# What JSON raises that is broken, or nested too deeply.
NO_JSON = (ValueError, RecursionError)


class DeadlineExceededError(Exception):
    """The call was still running at its deadline."""


class AllWorkersBusyError(Exception):
    """No worker thread became free for the call before its deadline, or all are stuck."""


class NoTurnError(AllWorkersBusyError):
    """The call waited for its turn as long as it may."""


class TaskBrokeOffError(Exception):
    """The call ended with `SystemExit` or another exception that asyncio cannot carry."""


# Further names of this module are listed by the package.
__all__ = ["PromptTooLongError"]


class KnowgateError(Exception):
    """Base class of all errors that knowgate raises deliberately."""


class InputError(KnowgateError):
    """A file or an argument is not what it should be.

    Args:
        what: what is wrong, in one clause.
        where: the place, as `file`, `file:line` or an option's name.
        hint: what the reader can do about it.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line} — {hint}" if hint else line)


def require_known(value: object, known: Iterable[object], where: str) -> None:
    """Reject a value that is not one of those known.

    Raises:
        InputError: it names the argument, and lists them.
    """
    if value not in (names := list(known)):
        hint = f"one of: {', '.join(map(str, names))}"
        raise InputError(f"{value!r} is unknown", where=where, hint=hint)


class QuestionError(InputError):
    """A question or its passages cannot be read as text.

    Attributes:
        reason: of the decision that a guard takes then, a value of `Reason`.
    """

    reason = "invalid_input"


class PassageError(QuestionError):
    """What was given as passages is no collection of texts or documents."""

    reason = "invalid_passages"


class InputTooLargeError(QuestionError):
    """A question or its passages exceed the limits of the guard."""

    reason = "input_too_large"


class ModelFolderError(InputError):
    """A model folder lacks weights or tokenizer, or its sha256 is wrong."""


class PolicyError(InputError):
    """A policy cannot be used."""


class FingerprintMismatchError(PolicyError):
    """The policy was calibrated on another scorer or estimator."""


class MissingDependencyError(KnowgateError):
    """An optional package is not installed; the message names the install command."""


class DeviceError(KnowgateError):
    """The requested device (for example `cuda:1`) is not available."""


class SignalError(KnowgateError):
    """A signal could not be measured.

    Args:
        signal: the signal's name: `relevance`, `confidence` or `conflict`.
        detail: what happened; never text from the caller.
    """

    def __init__(self, signal: str, detail: str) -> None:
        self.signal, self.detail = signal, detail
        super().__init__(f"{signal} signal: {detail}")


class SignalTimeoutError(SignalError):
    """The signal took longer than its deadline."""


class SignalOverloadError(SignalError):
    """Too many earlier calls are still stuck, so no further one was started."""


class SignalWaitError(SignalOverloadError):
    """The question waited for its turn for longer than `GuardOptions(max_wait=…)` lets it."""


class SignalValueError(SignalError):
    """The signal returned NaN, the wrong shape or a value off its scale."""


class UnsupportedLanguageError(SignalError):
    """The scorer does not know the question's language: its numbers would mean nothing."""


class LanguageModelError(KnowgateError):
    """A language model did not answer."""


class LanguageModelTimeoutError(LanguageModelError):
    """A language model did not answer before its deadline."""

    @staticmethod
    def describes(error: BaseException) -> bool:
        """Whether `error` is, or was raised from, a missed deadline."""
        missed = TimeoutError | DeadlineExceededError
        return any(isinstance(cause, missed) for cause in _causes(error))


class PromptTooLongError(LanguageModelError):
    """The prompt does not fit the model's context window."""


_EXTRAS: dict[str, list[str]] = tomllib.loads(
    resources.files(__package__).joinpath("extras.toml").read_text("utf-8")
)
INSTALL_HINTS = MappingProxyType(
    {
        module: f"knowgate[{extra}]" if extra else "knowgate"
        for extra, modules in _EXTRAS.items()
        for module in modules
    }
)


def optional_import(module: str) -> Any:
    """Import a module of an optional package.

    Raises:
        MissingDependencyError: it is not installed; the message names the command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = INSTALL_HINTS.get(module.split(".", maxsplit=1)[0], module)
        what = f"{module} cannot be imported: needs `pip install '{hint}'`"
        raise MissingDependencyError(what) from error


def require_extra(extra: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Raises:
        MissingDependencyError: some are not; the message names them and the command.
    """
    find = importlib.util.find_spec
    if missing := ", ".join(one for one in _EXTRAS[extra] if find(one) is None):
        what = f"not installed: {missing}: needs `pip install 'knowgate[{extra}]'`"
        raise MissingDependencyError(what)


# Request timeout, too early, too many requests, and servers that are down or overloaded.
_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_MAX_CAUSES = 16
_YEAR = 365 * 86_400.0


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
    for holder in (error, getattr(error, "response", None)):
        if isinstance(status := getattr(holder, "status_code", None), int):
            return status in _STATUSES
    return any(
        isinstance(cause, TimeoutError | ConnectionError | DeadlineExceededError)
        for cause in _causes(error)
    )


def seconds_to_wait(header: str) -> float | None:
    """Seconds in a `Retry-After` header, at most a year; None without digits or a date.

    Example:
        >>> seconds_to_wait("7"), seconds_to_wait("9" * 400), seconds_to_wait("inf")
        (7.0, 31536000.0, None)
    """
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    told = any(map(str.isdigit, header))  # not inf, which is a number to Python
    return min(seconds, _YEAR) if told and seconds >= 0 else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Of libraries that wrap the socket's own error; one that was being handled says nothing.
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def first_fault(error: ValidationError) -> str:
    """Return the first field that pydantic found at fault, and why.

    Args:
        error: what pydantic raised.
    """
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Parts with a bracket are pydantic's own names of what a union may hold.
    field = ".".join(part for part in map(str, first["loc"]) if "[" not in part)
    message = first["msg"].removeprefix("Value error, ")
    return f"field '{field}': {message}" if field else str(message)


def in_one_line(given: Any, validate: Callable[[Any], Any]) -> Any:
    """Validate options; to be called by a `model_validator` that wraps all others.

    Raises:
        InputError: names the first option at fault.
    """
    from pydantic import ValidationError

    try:
        return validate(given)
    except ValidationError as error:
        raise InputError(first_fault(error)) from None
