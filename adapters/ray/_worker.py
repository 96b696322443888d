"""What runs in a worker of the cluster: one call, made once, asked many times."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ...guard._optional_imports import optional_import
from ._errors import RemoteCallError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Worker(Generic[Item, Result]):
    """The body of an actor. Errors are returned: Ray would wrap them in a type of its own.

    Args:
        factory: makes the call, in the worker.
        may_pass: whether trying again may help after an error; asked here, since what
            an error was raised from does not travel.
    """

    def __init__(
        self,
        factory: Callable[[], Callable[[Item], Awaitable[Result]]],
        may_pass: Callable[[BaseException], bool],
    ) -> None:
        self._factory, self._may_pass = factory, may_pass
        self._call: Callable[[Item], Awaitable[Result]] | None = None

    async def start(self) -> Exception | None:
        """Make the call; None, or why that failed."""
        try:
            self._call = self._factory()
        except Exception as error:  # noqa: BLE001 - the driver decides
            return self._portable(error)
        # What it imports, it imports now: later, calls under way would stand still.
        self._may_pass(ValueError())
        return None

    async def ask(self, item: Item) -> tuple[Result | None, Exception | None]:
        """The result for an item, or why there is none."""
        assert self._call is not None, "start() comes first"
        try:
            return await self._call(item), None
        except Exception as error:  # noqa: BLE001 - the driver decides
            return None, self._portable(error)

    def _portable(self, error: Exception) -> Exception:
        """The error as it will arrive; one that cannot travel is replaced by its name."""
        retryable = self._may_pass(error)
        if arrives(error):
            with contextlib.suppress(AttributeError, TypeError):
                error.is_retryable = retryable  # type: ignore[attr-defined]
            return error
        return RemoteCallError(type(error).__name__, retryable)


def arrives(error: Exception) -> bool:
    """Whether another process would get this error in its own type.

    Not a matter of course: exceptions with several arguments often cannot be made again.
    """
    travel: Any = optional_import("ray").cloudpickle
    try:
        return type(travel.loads(travel.dumps(error))) is type(error)
    except Exception:  # noqa: BLE001 - classes of the user's own run here
        return False
