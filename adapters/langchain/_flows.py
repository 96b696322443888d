"""Flows of many questions, run in step: what each needs done, by which part of a chain."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from langchain_core.documents import Document

from ...guard.errors import TaskBrokeOffError

_Result = TypeVar("_Result")


class Stage(Enum):
    """What a question needs, in the order in which it passes; values are names of runs."""

    REWRITER = "rewriter"
    RETRIEVER = "retriever"
    READ = "read"
    GUARD = "guard"
    EVENT = "event"
    WITH_CONTEXT = "with_context"
    CLOSED_BOOK = "closed_book"
    SMALL_TALK = "small_talk"
    CHECK = "check"
    SUPPORT = "support"


_ORDER = {stage: place for place, stage in enumerate(Stage)}
GENERATING = frozenset({Stage.WITH_CONTEXT, Stage.CLOSED_BOOK, Stage.SMALL_TALK})


# The text of a reply, its documents, the question, and whether more of the reply follows.
ToCheck = tuple[str, Sequence[Document], str, bool]
# What one question needs done before its flow goes on: by which stage, and what that is given:
# the input of a runnable; what was retrieved, to be read; question and passages for the guard;
# the decision of an event; a function without arguments for a check, which may take long; reply,
# documents and question for the check of its support.
Need = tuple[Stage, Any]
# Needs of one stage: the index of the question → what the part is given.
Step = tuple[Stage, Mapping[int, Any]]
# Is sent the outcome of each need, or thrown the error.
Flow = Generator[Need, Any, _Result]


class Flows(Generic[_Result]):
    """Run the flows of many questions in step, so that each part is called once for all.

    A flow that raises fails alone.

    Args:
        flows: n flows, not started.
    """

    def __init__(self, flows: Sequence[Flow[_Result]]) -> None:
        self._flows = flows
        self._needs: dict[int, Need] = {}
        self._results: dict[int, _Result | Exception] = {}
        for index, flow in enumerate(flows):
            self._resume(index, partial(next, flow))

    def step(self) -> Step | None:
        """The needs of the earliest stage; None once all flows have ended."""
        if not self._needs:
            return None
        stage = min((stage for stage, _ in self._needs.values()), key=_ORDER.__getitem__)
        return stage, {i: given for i, (of, given) in self._needs.items() if of is stage}

    def take(self, step: Step, outcomes: Sequence[object]) -> None:
        """Resume the flows of `step` with their outcomes, or the exceptions in their place."""
        for index, outcome in zip(step[1], outcomes, strict=True):
            flow = self._flows[index]
            del self._needs[index]
            failure: Exception | None = outcome if isinstance(outcome, Exception) else None
            if failure is None and isinstance(outcome, BaseException):
                # A batch of LangChain returns a cancellation as if it were an output.
                failure = TaskBrokeOffError(type(outcome).__name__)
            go_on = partial(flow.send, outcome) if failure is None else partial(flow.throw, failure)
            self._resume(index, go_on)

    def results(self) -> list[_Result | Exception]:
        """All results, or exceptions in their place, in the order of the flows."""
        return [self._results[index] for index in range(len(self._flows))]

    def _resume(self, index: int, go_on: Callable[[], Need]) -> None:
        try:
            self._needs[index] = go_on()
        except StopIteration as stop:
            self._results[index] = stop.value
        except Exception as error:  # noqa: BLE001 - handed to the caller as this input's result
            self._results[index] = error
