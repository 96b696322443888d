"""The premise check as a veto of the guard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..._signal import Veto, plain
from ...contracts import Answerability, Premise, PremiseFault
from ...deadlines import call_on_thread
from ...decision import Reason
from ...errors import SignalValueError
from ...text import Request


class AnswerabilityVeto(Veto[Answerability]):
    """Abstains from questions that nothing in the passages can satisfy.

    A detector implements `detect`, and `adetect` where it can be awaited.
    """

    name = "answerability"
    reason = Reason.FALSE_PREMISE.value

    @abstractmethod
    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The verdict on one question; may find it undecided, and often should."""

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        """As `detect`, by default on another thread: long passages take a while."""
        return await call_on_thread(lambda: self.detect(question, list(passages)))

    def measure(self, request: Request) -> Answerability:
        """The verdict on one question."""
        return self.detect(request.question, request.passages)

    async def ameasure(self, request: Request) -> Answerability:
        """As `measure`, without blocking the event loop."""
        return await self.adetect(request.question, request.passages)

    def check(self, value: Any, request: Request) -> Answerability:
        """The verdict with plain numbers, its passages rising and once each.

        Raises:
            SignalValueError: another type, or values that it cannot have.
        """
        if not isinstance(value, Answerability):
            raise self._wrong(f"the detector returned {type(value).__name__}")
        try:
            premise = Premise(value.premise)
            fault = None if value.fault is None else PremiseFault(value.fault)
        except ValueError:
            raise self._wrong("the detector returned an unknown verdict") from None
        if fault is not None and premise is not Premise.UNANSWERABLE:
            raise self._wrong(f"the detector found a fault and {premise.value}")
        probability = plain(value.probability)
        if probability is not None:
            is_number = isinstance(probability, int | float) and not isinstance(probability, bool)
            if not is_number or not 0.0 <= probability <= 1.0:
                raise self._wrong("the probability is not in [0, 1]")
            probability = float(probability)
        if not isinstance(value.passages, Iterable):
            raise self._wrong("the passages are not indices")
        count = len(request.passages)
        indices: list[Any] = [plain(index) for index in value.passages]
        if not all(type(index) is int and 0 <= index < count for index in indices):
            raise self._wrong(f"a passage beyond the {count} given")
        return Answerability(premise, fault, probability, tuple(sorted(set(indices))))

    def strength(self, value: Answerability) -> float:
        """1 for an unanswerable question, otherwise 0."""
        return float(value.premise is Premise.UNANSWERABLE)

    def decision_fields(self, value: Answerability, request: Request) -> dict[str, Any]:
        """The verdict, with the positions of its passages among those given."""
        passages = tuple(request.positions[index] for index in value.passages)
        return {"answerability": replace(value, passages=passages)}

    def _wrong(self, detail: str) -> SignalValueError:
        return SignalValueError(self.name, detail)
