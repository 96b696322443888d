"""Many flows moved forward in step, so that their needs can be met together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._decision import Decision
from ._errors import InputError
from ._flow import Flow, FlowSettings, Need, Outcome, decision_flow
from ._routes import SignalName

_QUESTIONS_PER_CALL = 32


class Batch:
    """The flows of one batch, moved forward in step; local to one call."""

    def __init__(
        self,
        settings: FlowSettings,
        questions: Sequence[str],
        passages: Sequence[Iterable[object] | None],
    ) -> None:
        questions = _listed(questions, "questions")
        passages = _listed(passages, "passages")
        if len(questions) != len(passages):
            raise InputError(
                f"{len(questions)} questions but {len(passages)} collections of passages",
                mend="give one collection of passages per question",
            )
        self.started = time.perf_counter()
        self._flows: list[Flow] = [
            decision_flow(settings, question, found)
            for question, found in zip(questions, passages, strict=True)
        ]
        self._decisions: dict[int, Decision] = {}
        self._answers: dict[int, tuple[Outcome, float]] = {}
        self.needs: dict[int, Need] = {}
        for index, flow in enumerate(self._flows):
            self._step(index, lambda flow=flow: next(flow))  # type: ignore[misc]

    def split(self) -> dict[SignalName, list[int]]:
        """Indices by the signal that they need."""
        needing: dict[SignalName, list[int]] = {name: [] for name in SignalName}
        for index, need in self.needs.items():
            needing[need.signal].append(index)
        return needing

    def answer(self, indices: Sequence[int], outcomes: Sequence[tuple[Outcome, float]]) -> None:
        """Note what came of the needs at `indices`."""
        self._answers.update(zip(indices, outcomes, strict=True))

    def advance(self) -> None:
        """Send every noted outcome to its flow."""
        answers, self._answers = self._answers, {}
        self.needs = {}
        for index, outcome in answers.items():
            flow = self._flows[index]
            self._step(index, lambda flow=flow, outcome=outcome: flow.send(outcome))  # type: ignore[misc]

    def decisions(self) -> list[Decision]:
        """All decisions, in the order of the questions."""
        return [self._decisions[index] for index in range(len(self._flows))]

    def _step(self, index: int, resume: Callable[[], Need]) -> None:
        try:
            self.needs[index] = resume()
        except StopIteration as stop:
            self._decisions[index] = stop.value

    @staticmethod
    def chunks(indices: list[int]) -> Iterator[list[int]]:
        """`indices` in parts small enough for one scoring call."""
        for start in range(0, len(indices), _QUESTIONS_PER_CALL):
            yield indices[start : start + _QUESTIONS_PER_CALL]


def shared_time(parts: Sequence[Outcome], started: float) -> list[tuple[Outcome, float]]:
    """Each of `parts` with its share of the seconds since `started`."""
    seconds = (time.perf_counter() - started) / len(parts)
    return [(part, seconds) for part in parts]


def _listed(values: Iterable[Any], what: str) -> Sequence[Any]:
    if isinstance(values, str | bytes):
        raise InputError(f"the {what} are one text", mend="give a list, one item per question")
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InputError(
            f"the {what} are a {type(values).__name__}", mend="give a list, one item per question"
        )
    return values if isinstance(values, list | tuple) else list(values)
