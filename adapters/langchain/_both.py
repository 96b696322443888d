"""One body for the sync and the async form of a call.

The body is a coroutine that is told which form it has. In the sync one it calls what blocks and
waits for nothing else, so that it can be run without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ...guard import Decision, Guard

T = TypeVar("T")


def at_once(body: Coroutine[Any, Any, T]) -> T:
    """The result of a body in its sync form."""
    try:
        body.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    raise RuntimeError("the sync form of a call waits for an event loop")


def each_at_once(body: AsyncGenerator[T, None]) -> Iterator[T]:
    """What a body in its sync form yields."""
    try:
        while True:
            try:
                found = at_once(anext(body))
            except StopAsyncIteration:
                return
            yield found
    finally:
        at_once(body.aclose())


async def decided(guard: Guard, question: Any, passages: Any, *, is_async: bool) -> Decision:
    """The guard's decision on one question."""
    if is_async:
        return await guard.adecide(question, passages)
    return guard.decide(question, passages)
