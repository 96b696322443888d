"""Failures of signals: typed, logged without a word of the user, and counted.

And how much of its time a batch may lose by them.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    KnowgateError,
    NoTurnError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalWaitError,
    TaskBrokeOffError,
)
from .process import Budget
from .text import Request

_logger = logging.getLogger("knowgate.guard")
_QUESTIONS_PER_CALL = 32
# The share of its time that a joint call is meant to take: others may compute at the same time.
_JOINT_CALL_TAKES = 0.25
# Deadlines that one batch may spend on one signal.
_DEADLINES_PER_BATCH = 2
# Calls of one signal that may miss their deadline in one batch.
_MAX_MISSED = 3
_MAX_LOGGED = 300
# Comparing more with a message would block an event loop.
_MAX_COMPARED = 64 * 2**10
# Shorter words tell nothing, and stand in most messages.
_WORD = re.compile(r"\w{4,}")
_DEADLINE = "GuardOptions(deadlines={{{!r}: {!r}}})"
_WAITING = "GuardOptions(max_wait=…, at_once={{{!r}: …}})"


class Patience:
    """What one batch may still spend on one signal.

    Args:
        deadline: of one question, in seconds; None for no limit.
        longest_wait: for the turns of its calls together, in seconds.
        first: questions of the first joint call.

    Attributes:
        measuring: two deadlines, whatever the size of the batch.
        waiting: seconds for turns.
        missed: calls that missed their deadline.
        joined: questions of the next joint call.
        logged: whether it was logged that the signal is not asked any more.
    """

    def __init__(self, deadline: float | None, longest_wait: float, first: int) -> None:
        self._deadline = math.inf if deadline is None else deadline
        self.measuring = Budget(_DEADLINES_PER_BATCH * self._deadline)
        self.waiting = Budget(longest_wait)
        self.missed, self.logged = 0, False
        self.joined = _QUESTIONS_PER_CALL if deadline is None else first

    @property
    def seconds(self) -> float:
        """What the next call has: its deadline, as far as the batch has so much left.

        Once a deadline was missed it is half of what is left, so that one question that hangs
        leaves time for the others.
        """
        left = self.measuring.left
        return min(self._deadline, left / 2 if self.missed else left)

    @contextmanager
    def measured(self, deadline: float | None) -> Iterator[float | None]:
        """The seconds that a call has, which is the block; counted as the batch's.

        Raises:
            DeadlineExceededError: the batch has no time left.
        """
        if deadline is None:
            yield None
            return
        with self.measuring:
            if not self.measuring.left:
                raise DeadlineExceededError
            yield self.seconds

    @property
    def over(self) -> bool:
        """Whether the signal is not asked about further questions."""
        return self.missed >= _MAX_MISSED or not (self.measuring.left and self.waiting.left)

    def plan(self, seconds_each: float) -> None:
        """Let the next joint call be one that ends well within its deadline."""
        fitting = _JOINT_CALL_TAKES * self.seconds
        self.joined = int(max(1, min(_QUESTIONS_PER_CALL, fitting / max(seconds_each, 1e-9))))


def typed_failure(signal: str, error: BaseException, deadline: float | None) -> KnowgateError:
    """What a guard raises, and counts, for an error of a signal.

    Args:
        signal: its name.
        error: what it raised, or what its call did.
        deadline: of the signal, in seconds; None for no limit.
    """
    if isinstance(error, DeadlineExceededError):
        detail = f"not done by its deadline ({_DEADLINE.format(signal, deadline)})"
        return SignalTimeoutError(signal, detail)
    if isinstance(error, NoTurnError):
        detail = f"waited too long for its turn ({_WAITING.format(signal)})"
        return SignalWaitError(signal, detail)
    if isinstance(error, AllWorkersBusyError):
        return SignalOverloadError(signal, "too many earlier calls are still under way")
    if isinstance(error, KnowgateError):
        return error
    cause, verb = error, "raised"
    if isinstance(error, TaskBrokeOffError) and error.__cause__ is not None:
        cause, verb = error.__cause__, "ended with"
    # The message of a foreign error may quote the question: only its type is kept.
    typed = SignalError(signal, f"{verb} {type(cause).__name__}")
    typed.__cause__ = cause
    return typed


def log_failure(
    signal: str, error: BaseException, request: Request, deadline: float | None
) -> KnowgateError:
    """Log what a signal raised, and return it typed; see `typed_failure`."""
    typed = typed_failure(signal, error, deadline)
    # Only what a signal itself says may quote the question.
    detail = f"{type(typed).__name__}: {getattr(typed, 'detail', '')}"
    told = _told(typed, request) if typed is error else detail
    _logger.warning("%s signal failed: %s", signal, told)
    return typed


def not_asked(signal: str, patience: Patience, deadline: float | None) -> SignalError:
    """The failure of a question that the batch has no time for; logged once."""
    setting = _DEADLINE.format(signal, deadline)
    error: SignalError = SignalTimeoutError(signal, "not asked: its batch has had its deadlines")
    if not patience.waiting.left:
        setting = _WAITING.format(signal)
        error = SignalWaitError(signal, "not asked: its batch waited too long for turns")
    if not patience.logged:
        patience.logged = True
        told = "%s signal: %s; decide fewer questions at once, or change %s"
        _logger.warning(told, signal, error.detail, setting)
    return error


def _told(error: KnowgateError, request: Request) -> str:
    """Type and message of an error; the type alone where the message may quote the user."""
    message = error.detail if isinstance(error, SignalError) else str(error)
    texts = (request.question, request.closed_book_answer, *request.passages)
    name = type(error).__name__
    if sum(map(len, texts)) > _MAX_COMPARED:
        return name
    given = " ".join(texts)
    if set(_WORD.findall(message.casefold())) & set(_WORD.findall(given.casefold())):
        return name
    return f"{name}: {' '.join(message.split())[:_MAX_LOGGED]}"
