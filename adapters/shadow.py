"""Decisions in shadow mode, made beside the generation; and those where no guard can be asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from copy import copy
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from ..guard.deadlines import DeadlineRunner
from ..guard.decision import Decision, Mode, Reason, Route
from ..guard.errors import AllWorkersBusyError

if TYPE_CHECKING:
    from ..guard import Guard

_logger = logging.getLogger("knowgate.adapters")
_MOST_AT_ONCE = 8
_MOST_WAITING = 1_000


class LateDecision(Decision):
    """A decision that is made beside the generation; who reads it waits until it is there.

    Only `mode` is known at once. It is the decision's own deadlines that bound the wait.
    """

    _made: Future[Decision] = PrivateAttr()

    @classmethod
    def of(cls, made: Future[Decision]) -> LateDecision:
        """The decision that `made` will hold; it never holds an exception."""
        late = cls.model_construct()  # type: ignore[call-arg]
        late.__dict__.clear()
        late.__dict__["mode"] = Mode.SHADOW
        late._made = made
        return late

    def arrived(self) -> Decision:
        """The decision itself, waited for."""
        decision = self._made.result()
        self.__dict__.update(decision.__dict__)
        return decision

    async def aarrived(self) -> Decision:
        """As `arrived`, without blocking the event loop."""
        await asyncio.wrap_future(self._made)
        return self.arrived()

    def __getattr__(self, name: str) -> Any:
        if name in Decision.model_fields:
            self.arrived()
            return self.__dict__[name]
        return super().__getattr__(name)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return self.arrived() == (other.arrived() if isinstance(other, LateDecision) else other)

    __hash__ = None

    def __repr_args__(self) -> Any:
        return self.arrived().__repr_args__()

    def __copy__(self) -> Any:
        return self.arrived()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        return self.arrived().__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copy, (self.arrived(),)


def counted_abstention(guard: Guard, reason: Reason) -> Decision:
    """The decision where a guard could not be asked; it is counted as the guard's own are."""
    decision = Decision(route=Route.ABSTAIN, reason=reason, mode=guard.mode)
    guard.count(decision)
    return decision


class ShadowDecider:
    """Decides on a few threads of its own, and tells when it has decided.

    What cannot be decided, because the guard failed or too many decisions are waiting, is
    counted as an abstention for `shadow_failed`.

    Args:
        guard: in shadow mode.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._runner = DeadlineRunner(_MOST_AT_ONCE)

    def decide(
        self, asked: Sequence[tuple[Any, Any]], tell: Callable[[Sequence[Decision]], object]
    ) -> list[LateDecision]:
        """Begin to decide questions with their passages, and return at once.

        Args:
            asked: the questions, decided in one batch.
            tell: called with all decisions, on the thread that decided.
        """
        made: list[Future[Decision]] = [Future() for _ in asked]

        def work() -> None:
            decisions = self._decided(asked)
            try:
                tell(decisions)
            except Exception as error:  # noqa: BLE001 - a handler has no say in it
                _logger.warning("telling of a decision raised %s", type(error).__name__)
            for future, decision in zip(made, decisions, strict=True):
                future.set_result(decision)

        try:
            self._runner.start(work, most_waiting=_MOST_WAITING)
        except AllWorkersBusyError as error:
            for future in made:
                future.set_result(self._failed(error))
        return [LateDecision.of(future) for future in made]

    def _decided(self, asked: Sequence[tuple[Any, Any]]) -> list[Decision]:
        try:
            found = self._guard.decide_each(*map(list, zip(*asked, strict=True)))
        except BaseException as error:  # noqa: BLE001 - whatever is wrong with the guard
            return [self._failed(error) for _ in asked]
        return [one if isinstance(one, Decision) else self._failed(one) for one in found]

    def _failed(self, error: BaseException) -> Decision:
        _logger.warning("a shadow decision failed: %s", type(error).__name__)
        return counted_abstention(self._guard, Reason.SHADOW_FAILED)
