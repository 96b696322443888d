"""Looking at a generated reply: is it an abstention itself?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from ...guard import InputError, clean_text

_Result = TypeVar("_Result")

logger = logging.getLogger("knowgate.adapters.langchain")


@runtime_checkable
class ReplyDetector(Protocol):
    """Tells of a reply whether it abstains; the verdict has a bool `abstained`."""

    def detect(self, response: str, *, question: str) -> Any:
        """The verdict on one reply."""
        ...


# Question, reply → whether the reply abstains, or a verdict that has `abstained`.
ReplyCheck = Callable[[str, str], Any]


def reply_check(given: ReplyCheck | ReplyDetector | None) -> ReplyCheck | None:
    """One kind of check for both that can be given.

    Raises:
        InputError: it can neither be called nor has it a `detect`.
    """
    if given is None:
        return None
    if isinstance(given, ReplyDetector):
        detector = given
        return lambda question, reply: detector.detect(reply, question=question)
    if callable(given):
        return given
    raise InputError(
        f"a {type(given).__name__} cannot check a reply",
        where="check_reply",
        mend="give a function of question and reply, or an object with detect",
    )


def abstains(check: ReplyCheck | None, question: object, reply: str) -> bool | None:
    """Whether `reply` is an abstention itself; None where that was not to be found out.

    A check that fails costs nobody the answer: it is logged, by the kind of its error.
    """
    if check is None:
        return None
    text = clean_text(question) if isinstance(question, str | bytes) else ""
    try:
        verdict = check(text, reply)
        found: Any = getattr(verdict, "abstained", verdict)
        found = found.item() if getattr(found, "ndim", None) == 0 else found
    except Exception as error:  # noqa: BLE001 - any check of the user's own, see above
        # Its message may quote the reply: only the type is logged.
        logger.warning("the check of a reply failed: %s", type(error).__name__)
        return None
    if not isinstance(found, bool):
        logger.warning("the check of a reply returned a %s", type(found).__name__)
        return None
    return found


async def checking(check: ReplyCheck | None, step: Callable[..., _Result], *args: Any) -> _Result:
    """`step(*args)`, on another thread where it calls `check`, which may take its time."""
    return step(*args) if check is None else await asyncio.to_thread(step, *args)
