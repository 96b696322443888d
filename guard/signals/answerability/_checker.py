"""Find questions with a false premise from what the passages state, without a language model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ..._signal import Veto, plain
from ...contracts import Answerability, Premise, PremiseFault
from ...deadlines import call_on_thread
from ...decision import Reason
from ...errors import SignalValueError
from ...fingerprint import Fingerprint
from ...text import Request, clean_text
from ._phrases import read_phrase
from ._questions import check_halves, check_options
from ._statements import Statement, plain_text, read_statements
from ._when import check_time, impossible_by_itself


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


_VERSION = 2
# A longer question contains material of its own, which is not to be judged.
_LONGEST_QUESTION = 1000
# More statements than one question retrieves in practice; reading on would only cost time.
_MOST_STATEMENTS = 5000
# Words that tell which lines of a passage can be of use.
_SOUGHT = 12


class PremiseChecker(AnswerabilityVeto):
    """Call a question unanswerable only where the passages decide it.

    It takes a question's conditions apart — two options, a period, two conditions that one
    thing must meet — and looks for what the passages state about each. English and Chinese;
    other questions, and those without such conditions, are left undecided.

    Args:
        closed_world: whether sentences and triples are taken to tell all there is: what they
            do not state does not hold. Without it they count as complete only where they say
            so ("the only …"), or where there can be but one (a mother, a birthplace), and two
            options are ruled out by proper names only, never by sentences. A question with its
            answer ("The mother of Ann is? Mary") counts as complete, unless its list is so long
            that it may have been cut: ten answers and more, of two lists five and more without
            a closed world.
        now: the year in which the passages were written, where known. A time that reaches it
            is not ruled out by what has ended before: something else may have begun since.

    Example:
        >>> checker = PremiseChecker()
        >>> found = checker.detect("Who leads Rill and is also the mother of Ann?",
        ...     ["Who leads Rill? Bo Rask", "The mother of Ann is? Mary Lund"])
        >>> found.premise.value, found.fault.value, found.passages
        ('unanswerable', 'empty_intersection', (0, 1))
    """

    def __init__(self, *, closed_world: bool = False, now: int | None = None) -> None:
        self._closed_world, self._now = closed_world, now

    @property
    def fingerprint(self) -> Fingerprint:
        """What its verdicts depend on."""
        return Fingerprint(
            kind="premise_checker",
            settings={"version": _VERSION, "closed_world": self._closed_world, "now": self._now},
        )

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The verdict on one question; `undecided` where the passages do not settle it."""
        asked = plain_text(clean_text(question)).replace("\n", " ").strip()
        if not asked or len(asked) > _LONGEST_QUESTION:
            return Answerability(Premise.UNDECIDED)
        texts = [clean_text(passage) for passage in passages]
        if impossible_by_itself(asked, "\n".join(texts)):
            return Answerability(Premise.UNANSWERABLE, PremiseFault.IMPOSSIBLE_TIME)
        read = read_statements(texts, _sought(asked))
        statements = list(islice(read, _MOST_STATEMENTS + 1))
        if len(statements) > _MOST_STATEMENTS:
            return Answerability(Premise.UNDECIDED)
        return self._judged(asked, statements)

    def _judged(self, question: str, statements: Sequence[Statement]) -> Answerability:
        if not statements:
            return Answerability(Premise.UNDECIDED)
        answerable = None
        closed = self._closed_world
        for found in (
            check_options(question, statements, closed_world=closed),
            check_time(question, statements, closed_world=closed, now=self._now),
            check_halves(question, statements, closed_world=closed),
        ):
            if found is not None and found.premise is Premise.UNANSWERABLE:
                return found
            if found is not None and found.premise is Premise.ANSWERABLE:
                answerable = answerable or found
        return answerable or Answerability(Premise.UNDECIDED)


def _sought(question: str) -> frozenset[str]:
    """The question's longest words, of which every statement of use has one."""
    texts = read_phrase(question).texts
    if not any(text.isascii() for text in texts):
        return frozenset(texts)
    chosen = sorted(dict.fromkeys(texts), key=len, reverse=True)[:_SOUGHT]
    return frozenset(chosen) | {text for text in texts if not text.isascii()}
