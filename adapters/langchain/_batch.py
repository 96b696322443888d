"""Track each input of one batch through the steps of a chain, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.documents import Document

from ...guard.decision import Decision
from ._answer import GuardedAnswer
from ._planning import Plan, Planner, Request, Speaker, read_documents, read_request


class Batch:
    """The inputs of one batch and their state; local to one call.

    The sync and async forms of the chain only differ in how they call the parts
    between these steps. An input that fails is set aside and fails alone.

    Args:
        planner: of the chain.
        inputs: n inputs of the chain.
    """

    def __init__(self, planner: Planner, inputs: Sequence[object]) -> None:
        self._planner = planner
        self._count = len(inputs)
        self._requests: dict[int, Request] = {}
        self._documents: dict[int, list[Document]] = {}
        self._plans: dict[int, Plan] = {}
        self._results: dict[int, GuardedAnswer | Exception] = {}
        self.decisions: dict[int, Decision] = {}
        for index, given in enumerate(inputs):
            self._trying(index, partial(self._read, index, given))

    def to_retrieve(self) -> list[int]:
        """Indices for which the retriever has to be asked."""
        return [i for i, r in self._requests.items() if self._planner.query(r) is not None]

    def queries(self, indices: Sequence[int]) -> list[Any]:
        """What the retriever is asked for `indices`."""
        return [self._planner.query(self._requests[index]) for index in indices]

    def take_documents(self, indices: Sequence[int], found: Sequence[object]) -> None:
        """Record what was retrieved for `indices`, or the exceptions in its place."""
        for index, value in zip(indices, found, strict=True):
            try:
                if isinstance(value, Exception):
                    raise value
                self._documents[index] = read_documents(value)
            except Exception as error:  # noqa: BLE001 - a failed retrieval has its own route
                self._trying(index, partial(self._fail, index, error))

    def to_decide(self) -> list[int]:
        """Indices that the guard has to decide."""
        return [i for i in self._requests if i not in self.decisions and i not in self._results]

    def questions(self, indices: Sequence[int]) -> list[Any]:
        """The questions of `indices`, as given."""
        return [self._requests[index].question for index in indices]

    def documents(self, indices: Sequence[int]) -> list[list[Document]]:
        """What was retrieved for `indices`; nothing where nothing was asked."""
        return [self._documents.get(index, []) for index in indices]

    def take_decisions(
        self, indices: Sequence[int], decisions: Sequence[Decision | Exception]
    ) -> None:
        """Record the decisions on `indices`, or the exceptions in their place."""
        for index, decision in zip(indices, decisions, strict=True):
            if isinstance(decision, Exception):
                self._results[index] = decision
            else:
                self.decisions[index] = decision

    def plan(self) -> None:
        """Plan every decided input; abstentions have their answer now."""
        for index in self.decisions:
            self._trying(index, partial(self._plan, index))

    def to_generate(self, speaker: Speaker) -> list[int]:
        """Indices whose answer `speaker` generates."""
        return [index for index, plan in self._plans.items() if plan.speaker is speaker]

    def inputs(self, indices: Sequence[int]) -> list[Any]:
        """What the speaker is given for `indices`."""
        return [dict(self._plans[index].inputs) for index in indices]

    def take_outputs(self, indices: Sequence[int], outputs: Sequence[object]) -> None:
        """Check and record what was generated for `indices`, or the exceptions in its place."""
        for index, output in zip(indices, outputs, strict=True):
            if isinstance(output, Exception):
                self._results[index] = output
            else:
                self._trying(index, partial(self._finish, index, output))

    def results(self) -> list[Exception | GuardedAnswer]:
        """All answers, or exceptions in their place, in the order of the inputs."""
        return [self._results[index] for index in range(self._count)]

    def _read(self, index: int, given: object) -> None:
        self._requests[index] = read_request(given)

    def _fail(self, index: int, error: Exception) -> None:
        self.decisions[index] = self._planner.retrieval_failed(error)

    def _plan(self, index: int) -> None:
        plan = self._planner.plan(
            self._requests[index], self.decisions[index], self._documents.get(index, [])
        )
        self._plans[index] = plan
        if plan.speaker is None:
            self._results[index] = plan.answer(plan.reply)

    def _finish(self, index: int, output: object) -> None:
        self._results[index] = self._planner.finished(self._plans[index], output)

    def _trying(self, index: int, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - handed to the caller as this input's result
            self._results[index] = error
