"""What sees every decision and has no say in it: observers, and a watch on what is retrieved."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ._artefacts import Retrieval
from ._signal import Request
from .errors import InputError

if TYPE_CHECKING:
    from ._metrics import MetricsOfGuard
    from ._signal import Request
    from .decision import Decision
    from .policy import Policy

_logger = logging.getLogger("knowgate.guard")


class GuardObserver(Protocol):
    """An observer that also wants to know which guard decides, and on what."""

    def for_guard(self, policy: Policy, name: str) -> Callable[[Decision, Request | None], object]:
        """Return what is called with each decision of one guard, and its request if readable."""
        ...


Observer: TypeAlias = "Callable[[Decision], object] | GuardObserver"


class Observers:
    """Read-only callbacks, called after each decision, in the order given.

    They run on the thread that decided, one after the other, before the caller gets the
    decision; guards that decide on many threads call them on many threads at once. One
    that raises is logged once by the type of its error, never with its text, which may
    be a user's; those after it are called all the same.

    Args:
        observers: callables, or objects with `for_guard`.
        policy: of the guard.
        name: of the guard.
        metrics: count those that raise.

    Raises:
        InputError: one of them cannot be called, or is a coroutine function.
    """

    def __init__(
        self,
        observers: Iterable[Observer],
        policy: Policy,
        name: str,
        metrics: MetricsOfGuard | None = None,
    ) -> None:
        if not isinstance(observers, Iterable) or isinstance(observers, str | bytes):
            raise InputError("observers are not a collection", hint="pass observers=(observer,)")
        self._metrics = metrics
        self._observers: list[tuple[str, Callable[[Decision, Request | None], object]]] = []
        for observer in observers:
            for_guard = None if isinstance(observer, type) else getattr(observer, "for_guard", None)
            if for_guard is not None:
                self._observers.append((type(observer).__qualname__, for_guard(policy, name)))
                continue
            if not callable(observer) or isinstance(observer, type):
                raise InputError(
                    "an observer cannot be called with a decision",
                    hint="pass functions or callable objects that take one Decision",
                )
            if any(map(inspect.iscoroutinefunction, (observer, type(observer).__call__))):
                raise InputError(
                    "an observer is a coroutine function, which the sync forms cannot await",
                    hint="pass a plain function that hands the decision to your event loop",
                )
            called = getattr(observer, "__qualname__", type(observer).__qualname__)
            self._observers.append((called, partial(_told, observer)))
        self._logged: set[tuple[int, type[BaseException]]] = set()
        self._lock = threading.Lock()

    def or_none(self) -> Observers | None:
        """Return them, or None where there are none: a decision then costs no call."""
        return self if self._observers else None

    def tell(self, decision: Decision, request: Request | None = None) -> None:
        """Call every observer; an exception of an observer is logged and counted only.

        Args:
            decision: that was taken.
            request: on which; None where the input could not be read, or a chain decided.
        """
        for position, (name, observer) in enumerate(self._observers):
            try:
                observer(decision, request)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - not even SystemExit has a say in it
                if self._metrics is not None:
                    self._metrics.count_observer_error()
                self._log_once(position, name, error)

    def _log_once(self, position: int, name: str, error: BaseException) -> None:
        with self._lock:
            if (position, type(error)) in self._logged:
                return
            self._logged.add((position, type(error)))
        _logger.warning(
            "observer %s raised %s; it is called with further decisions, and this is logged once",
            name,
            type(error).__name__,
        )


def _told(observer: Callable[[Decision], object], decision: Decision, _: Request | None) -> None:
    observer(decision)


# Chunks of one size differ by less; whole documents in place of answers by more.
_MUCH_LONGER = 2
_NOT_COVERED = "the policy's promise does not cover that: calibrate as it is served"


class RetrievalWatch:
    """Notices questions whose passages are not like those of the calibration, or not read whole.

    It warns once per kind, counts each question, and changes no decision. Fewer
    passages than in calibration are ordinary: not every question has so many.

    Args:
        expected: what the policy was calibrated on; None where that is not known.
        metrics: of the guard, None for none.
        name: of the guard.
    """

    def __init__(
        self, expected: Retrieval | None, metrics: MetricsOfGuard | None, name: str
    ) -> None:
        self._expected, self._metrics, self._name = expected, metrics, name
        self._warned: set[str] = set()

    def look(self, request: Request) -> None:
        """Compare the passages of one question."""
        expected = self._expected
        if expected is None:
            return
        if expected.k is not None and request.given > expected.k:
            seen = f"{request.given} passages to a question, {expected.k} in calibration"
            self._note("k", f"{seen}; {_NOT_COVERED}")
        if expected.longest is not None:
            longest = max(map(len, request.passages), default=0)
            if longest > _MUCH_LONGER * expected.longest:
                self._note(
                    "format",
                    f"a passage of {longest} characters, at most {expected.longest} in calibration"
                    f" (passages held: {expected.passage or 'not known'}); {_NOT_COVERED}",
                )

    def note_unread(self, passage: str) -> None:
        """Note a passage whose end the scorer does not read."""
        self._note(
            "unread",
            f"the end of a passage of {len(passage)} characters is not read, as it is longer than "
            "the scorer reads: cut documents into shorter chunks",
        )

    def _note(self, what: Literal["k", "format", "unread"], seen: str) -> None:
        if self._metrics is not None:
            self._metrics.count_mismatch(what)
        if what not in self._warned:
            self._warned.add(what)
            _logger.warning(
                "guard %s: %s. It is counted from now on, and logged once",
                self._name,
                seen,
            )
