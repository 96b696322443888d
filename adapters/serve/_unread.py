"""The unread body of a rejected request."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import Receive

_MOST_BYTES, _MOST_SECONDS = 1 << 18, 1.0


async def discard_body(receive: Receive) -> None:
    """Read the body of a rejected request, within bounds, before it is replied to.

    A connection that is closed while bytes arrive is reset, and the client may then lose
    the reply that says why it was rejected.

    Args:
        receive: of a request of which nothing was read.
    """
    more, size = True, 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_MOST_SECONDS):
            while more and size <= _MOST_BYTES:
                message = await receive()
                more = message.get("more_body", False)
                size += len(message.get("body", b""))
