"""Find passages with a retriever of the user's, under a deadline, on bounded threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableLambda

from ...guard import Guard
from ...guard.deadlines import AllWorkersBusyError, DeadlineExceededError, DeadlineRunner
from ...guard.decision import Decision, Reason, Route
from ...guard.errors import InputError, InputTooLargeError, QuestionError

_MOST_THREADS = 16


class RetrievalFailedError(Exception):
    """Nothing can be judged.

    Args:
        reason: of the abstention.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason

    def decision(self, guard: Guard) -> Decision:
        """The decision of a guard on it, counted."""
        decision = Decision(route=Route.ABSTAIN, reason=self.reason, mode=guard.mode)
        guard.count(decision)
        return decision


class Retriever:
    """A retriever as the service asks it.

    Args:
        found: a retriever or runnable of LangChain, or a function (async or not) from a
            question to documents, texts, or mappings with `text`.
        seconds: until a retrieval counts as failed.

    Raises:
        InputError: it is none of these.
    """

    def __init__(self, found: Any, seconds: float) -> None:
        only_async = isinstance(found, RunnableLambda) and not hasattr(found, "func")
        invoke = getattr(found, "ainvoke" if only_async else "invoke", None)
        self._find: Callable[[str], Any] = invoke if callable(invoke) else found
        if not callable(self._find):
            raise InputError(
                f"a {type(found).__name__} is no retriever",
                hint="name a LangChain retriever, or a function from a question to documents",
            )
        self._seconds = seconds
        self._threads = DeadlineRunner(_MOST_THREADS)

    async def find(self, guard: Guard, question: str) -> tuple[list[Any], list[str]]:
        """The passages for a question, and the text of each, read once.

        Raises:
            RetrievalFailedError: it raised, took too long, or returned what is no passages.
        """
        try:
            if inspect.iscoroutinefunction(self._find):
                found = await asyncio.wait_for(self._find(question), self._seconds)
            else:
                found = await self._threads.acall(lambda: self._find(question), self._seconds)
        except Exception as error:
            raise RetrievalFailedError(Reason.RETRIEVAL_FAILED) from error
        try:
            return await self._threads.acall(
                lambda: guard.limits.read_passages(found), self._seconds
            )
        except InputTooLargeError:
            raise RetrievalFailedError(Reason.INPUT_TOO_LARGE) from None
        except (QuestionError, AllWorkersBusyError, DeadlineExceededError):
            raise RetrievalFailedError(Reason.INVALID_PASSAGES) from None
        except Exception as error:  # a lazy document may raise anything
            raise RetrievalFailedError(Reason.INVALID_PASSAGES) from error
