"""Observers: whoever wants to see each decision, without a say in it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable

from ._decision import Decision
from ._errors import InputError
from ._measure import logger

Observer = Callable[[Decision], object]


class Observers:
    """Callables that are told each decision, in the order in which they were given.

    They run on the thread that decided, one after the other, before the caller gets the
    decision; guards that decide on many threads call them on many threads at once. One
    that raises is logged once by the type of its error, never with its text, which may
    be a user's; those after it are told all the same.

    Raises:
        InputError: one of them cannot be called, or is a coroutine function.
    """

    def __init__(self, observers: Iterable[Observer]) -> None:
        if not isinstance(observers, Iterable) or isinstance(observers, str | bytes):
            raise InputError("observers are no collection", mend="pass observers=(observer,)")
        self._observers = tuple(observers)
        for observer in self._observers:
            if not callable(observer) or isinstance(observer, type):
                raise InputError(
                    "an observer cannot be called with a decision",
                    mend="pass functions or callable objects that take one Decision",
                )
            if any(map(inspect.iscoroutinefunction, (observer, type(observer).__call__))):
                raise InputError(
                    "an observer is a coroutine function, which the sync forms cannot await",
                    mend="pass a plain function that hands the decision to your event loop",
                )
        self._logged: set[tuple[int, type[BaseException]]] = set()
        self._lock = threading.Lock()

    def tell(self, decision: Decision) -> None:
        """Call every observer with `decision`; never raises what an observer raises."""
        for position, observer in enumerate(self._observers):
            try:
                observer(decision)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - no say in it
                self._log_once(position, observer, error)

    def _log_once(self, position: int, observer: Observer, error: BaseException) -> None:
        with self._lock:
            if (position, type(error)) in self._logged:
                return
            self._logged.add((position, type(error)))
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        logger.warning(
            "observer %s raised %s; it is told further decisions, and this is logged once",
            name,
            type(error).__name__,
        )
