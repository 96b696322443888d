"""Fulfilling one need: call the signal, check what it returned, type the failure."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ._flow import Failure, Need, Outcome
from .contracts import (
    Answerability,
    AnswerabilityDetector,
    BatchConfidenceEstimator,
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    ConflictExaminer,
    ConflictFinding,
    Premise,
    PremiseFault,
    RelevanceScorer,
    SetRelevanceScorer,
    SetScore,
    View,
)
from .deadlines import AllWorkersBusyError, DeadlineExceededError, TaskBrokeOffError
from .decision import SignalName
from .errors import (
    KnowgateError,
    LanguageModelTimeoutError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    UnsupportedLanguageError,
)
from .text import clean_text


def judges_sets(scorer: object) -> bool:
    """Whether a scorer judges several passages together."""
    # Looked up by name: `isinstance` would ask for the fingerprint, which may take long.
    return all(callable(getattr(scorer, name, None)) for name in ("score_set", "score_sets"))


def measured_relevance(scorer: RelevanceScorer, need: Need, *, joint: bool) -> Outcome:
    """What the scorer says of one question's passages, checked.

    Args:
        scorer: with `score_set` and `score_sets` where `joint` is asked for.
        need: a question with at least one passage.
        joint: whether all passages are judged together besides.

    Returns:
        The scores, a `SetScore` under `joint`, or a failure with an
        `UnsupportedLanguageError` where the scorer does not know the question's language.

    Raises:
        SignalValueError: the scorer returned something other than finite numbers.
    """
    if not _supported(scorer, need.question):
        return _unsupported()
    if joint:
        judged = cast("SetRelevanceScorer", scorer).score_set(need.question, need.passages)
        return checked_set(judged, len(need.passages))
    return checked_scores(scorer.score(need.question, need.passages), len(need.passages))


def measured_relevances(
    scorer: RelevanceScorer, needs: Sequence[Need], *, joint: bool
) -> list[Outcome]:
    """As `measured_relevance` for several questions, in one call of the scorer."""
    supported = [_supported(scorer, need.question) for need in needs]
    asked = [need for need, known in zip(needs, supported, strict=True) if known]
    found = iter(_scored(scorer, asked, joint=joint) if asked else [])
    return [next(found) if known else _unsupported() for known in supported]


def _scored(scorer: RelevanceScorer, needs: Sequence[Need], *, joint: bool) -> list[Outcome]:
    if joint:
        judged: Any = cast("SetRelevanceScorer", scorer).score_sets(
            [need.question for need in needs], [need.passages for need in needs]
        )
        if len(judged) != len(needs):
            raise SignalValueError("relevance", f"{len(judged)} values for {len(needs)} questions")
        return [
            checked_set(one, len(need.passages)) for one, need in zip(judged, needs, strict=True)
        ]
    pairs = [(need.question, passage) for need in needs for passage in need.passages]
    scores = iter(checked_scores(scorer.score_pairs(pairs), len(pairs)))
    return [[next(scores) for _ in need.passages] for need in needs]


def _unsupported() -> Failure:
    detail = "the scorer does not know the question's language"
    return Failure(UnsupportedLanguageError("relevance", detail))


def _supported(scorer: RelevanceScorer, question: str) -> bool:
    supports: Callable[[str], object] | None = getattr(scorer, "supports", None)
    if supports is None:
        return True
    found: Any = supports(question)
    found = found.item() if getattr(found, "ndim", None) == 0 else found
    if not isinstance(found, bool):
        raise SignalValueError("relevance", f"supports returned {type(found).__name__}")
    return found


def checked_set(judged: Any, count: int) -> SetScore:
    """The scores and the joint value as finite floats.

    Raises:
        SignalValueError: another type, wrong number of scores, NaN or infinite.
    """
    if not isinstance(judged, SetScore):
        raise SignalValueError("relevance", f"the scorer returned {type(judged).__name__}")
    return SetScore(
        tuple(checked_scores(judged.scores, count)), checked_scores([judged.joint], 1)[0]
    )


def checked_scores(scores: Any, count: int) -> list[float]:
    """The scores as finite floats.

    Raises:
        SignalValueError: wrong number of scores, not numbers, NaN or infinite.
    """
    try:
        values = [_number(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise SignalValueError("relevance", "the scorer did not return numbers") from None
    if len(values) != count:
        raise SignalValueError("relevance", f"{len(values)} scores for {count} passages")
    if not all(math.isfinite(value) for value in values):
        raise SignalValueError("relevance", "the scorer returned NaN or infinity")
    return values


def _number(score: Any) -> float:
    # float() would read the text "0.5", take True for 1, and flatten a column of one.
    if isinstance(score, str | bytes | bool) or getattr(score, "ndim", 0) != 0:
        raise TypeError
    return float(score)


logger = logging.getLogger("knowgate.guard")


@dataclass(frozen=True, slots=True)
class Instruments:
    """The parts that measure; a part that is missing fails its signal.

    Attributes:
        joint: whether the scorer judges a question's passages together.
    """

    scorer: RelevanceScorer | None
    estimator: ConfidenceEstimator | None
    conflict: ConflictDetector | None
    joint: bool = False
    answerability: AnswerabilityDetector | None = None

    def task(self, need: Need) -> Callable[[], Outcome]:
        """A blocking call that measures `need`."""
        if need.signal is SignalName.RELEVANCE and self.scorer is not None:
            scorer = self.scorer
            return lambda: measured_relevance(scorer, need, joint=self.joint)
        if need.signal is SignalName.CONFIDENCE and self.estimator is not None:
            estimator = self.estimator
            return lambda: checked_confidence(estimator.estimate(need.question))
        if need.signal is SignalName.CONFLICT and self.conflict is not None:
            detector = self.conflict
            if isinstance(detector, ConflictExaminer):
                examiner = detector
                return lambda: checked_finding(
                    examiner.examine(need.question, need.closed_book_answer, need.passages),
                    len(need.passages),
                )
            return lambda: checked_conflict(
                detector.detect(need.question, need.closed_book_answer, need.passages)
            )
        if need.signal is SignalName.ANSWERABILITY and self.answerability is not None:
            examined = self.answerability
            return lambda: checked_answerability(
                examined.detect(need.question, need.passages), len(need.passages)
            )
        raise SignalError(need.signal, "nothing was given to measure it with")

    def native(self, need: Need) -> Awaitable[Outcome] | None:
        """A coroutine that measures `need`, or None where only a blocking call can."""
        if need.signal is SignalName.CONFIDENCE and self.estimator is not None:
            return self._confidence(self.estimator, need)
        if need.signal is SignalName.CONFLICT and self.conflict is not None:
            return self._conflict(self.conflict, need)
        if need.signal is SignalName.ANSWERABILITY and self.answerability is not None:
            return self._answerability(self.answerability, need)
        return None

    def relevances(self, needs: Sequence[Need]) -> list[Outcome]:
        """The scores of several needs, in one blocking call."""
        if self.scorer is None:
            raise SignalError(SignalName.RELEVANCE, "nothing was given to measure it with")
        return measured_relevances(self.scorer, needs, joint=self.joint)

    @property
    def estimates_many(self) -> bool:
        """Whether the estimator takes several questions at once."""
        # Looked up by name: `isinstance` would ask for the fingerprint, which may take long.
        return all(
            callable(getattr(self.estimator, name, None))
            for name in ("estimate_many", "aestimate_many")
        )

    def confidences(self, needs: Sequence[Need]) -> list[Confidence | KnowgateError]:
        """The confidence of several needs, or why there is none, in one blocking call."""
        estimator = cast("BatchConfidenceEstimator", self.estimator)
        questions = [need.question for need in needs]
        return _each_checked(estimator.estimate_many(questions, on_error="return"), len(needs))

    async def aconfidences(self, needs: Sequence[Need]) -> list[Confidence | KnowgateError]:
        """As `confidences`, without blocking the event loop."""
        estimator = cast("BatchConfidenceEstimator", self.estimator)
        questions = [need.question for need in needs]
        found = await estimator.aestimate_many(questions, on_error="return")
        return _each_checked(found, len(needs))

    @staticmethod
    async def _confidence(estimator: ConfidenceEstimator, need: Need) -> Outcome:
        return checked_confidence(await estimator.aestimate(need.question))

    @staticmethod
    async def _answerability(detector: AnswerabilityDetector, need: Need) -> Outcome:
        found = await detector.adetect(need.question, need.passages)
        return checked_answerability(found, len(need.passages))

    @staticmethod
    async def _conflict(detector: ConflictDetector, need: Need) -> Outcome:
        asked = (need.question, need.closed_book_answer, need.passages)
        if isinstance(detector, ConflictExaminer):
            return checked_finding(await detector.aexamine(*asked), len(need.passages))
        return checked_conflict(await detector.adetect(*asked))


def checked_confidence(confidence: Any) -> Confidence:
    """The confidence, its value a float within [0, 1], its answer clean text.

    Raises:
        SignalValueError: another type, NaN, or off the scale.
    """
    if not isinstance(confidence, Confidence):
        raise SignalValueError("confidence", f"the estimator returned {type(confidence).__name__}")
    value: Any = _plain(confidence.value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise SignalValueError("confidence", "the value is not within [0, 1]")
    answer: Any = confidence.answer
    if not isinstance(answer, str):
        raise SignalValueError("confidence", f"the answer is a {type(answer).__name__}, not text")
    return replace(confidence, value=float(value), answer=clean_text(answer))


def _each_checked(found: Sequence[Any], count: int) -> list[Confidence | KnowgateError]:
    if len(found) != count:
        raise SignalValueError("confidence", f"{len(found)} values for {count} questions")
    checked: list[Confidence | KnowgateError] = []
    for one in found:
        try:
            checked.append(one if isinstance(one, KnowgateError) else checked_confidence(one))
        except SignalValueError as error:
            checked.append(error)
    return checked


def checked_answerability(found: Any, count: int) -> Answerability:
    """The verdict on a question's premise, with `count` passages.

    Raises:
        SignalValueError: another type, or values that it cannot have.
    """
    if not isinstance(found, Answerability):
        raise SignalValueError("answerability", f"the detector returned {type(found).__name__}")
    try:
        premise = Premise(found.premise)
        fault = None if found.fault is None else PremiseFault(found.fault)
    except ValueError:
        raise SignalValueError(
            "answerability", "the detector returned an unknown verdict"
        ) from None
    if fault is not None and premise is not Premise.UNANSWERABLE:
        raise SignalValueError("answerability", f"the detector found a fault and {premise.value}")
    probability = _plain(found.probability)
    if probability is not None and (
        isinstance(probability, bool)
        or not isinstance(probability, int | float)
        or not 0.0 <= probability <= 1.0
    ):
        raise SignalValueError("answerability", "the probability is not in [0, 1]")
    if not isinstance(found.passages, Iterable):
        raise SignalValueError("answerability", "the passages are no indices")
    indices: list[Any] = [_plain(index) for index in found.passages]
    if not all(
        isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count
        for index in indices
    ):
        raise SignalValueError("answerability", f"a passage beyond the {count} given")
    return Answerability(
        premise,
        fault,
        None if probability is None else float(probability),
        tuple(sorted(set(indices))),
    )


def checked_conflict(conflict: Any) -> bool:
    """The conflict flag.

    Raises:
        SignalValueError: not a bool.
    """
    conflict = _plain(conflict)
    if not isinstance(conflict, bool):
        raise SignalValueError("conflict", f"the detector returned {type(conflict).__name__}")
    return conflict


def checked_finding(finding: Any, count: int) -> ConflictFinding:
    """The finding about `count` passages, its answers clean text.

    Raises:
        SignalValueError: another type, or a view of a passage that is not there.
    """
    if not isinstance(finding, ConflictFinding):
        raise SignalValueError("conflict", f"the detector returned {type(finding).__name__}")
    views = []
    for view in finding.views:
        if not isinstance(view, View) or not isinstance(view.answer, str):
            raise SignalValueError("conflict", "the detector returned a view without an answer")
        if not all(isinstance(index, int) and 0 <= index < count for index in view.passages):
            raise SignalValueError("conflict", f"a view of a passage beyond the {count} given")
        views.append(replace(view, answer=clean_text(view.answer)))
    return replace(finding, conflict=checked_conflict(finding.conflict), views=tuple(views))


def _plain(value: Any) -> Any:
    # Arithmetic on numpy and torch numbers gives scalars of their own kind, which are as good.
    return value.item() if getattr(value, "ndim", None) == 0 else value


def failure_of(signal: SignalName, error: BaseException) -> Failure:
    """The typed failure for whatever a signal raised; logged without its text."""
    typed: KnowgateError
    if isinstance(error, DeadlineExceededError):
        typed = SignalTimeoutError(signal, "not done by its deadline")
    elif isinstance(error, AllWorkersBusyError):
        typed = SignalOverloadError(signal, "too many earlier calls are still under way")
    elif isinstance(error, KnowgateError):
        typed = error
    elif isinstance(error, TaskBrokeOffError):
        typed = SignalError(signal, f"ended with {type(error.__cause__).__name__}")
        typed.__cause__ = error.__cause__
    else:
        # The message of a foreign error may quote the question: only its type is kept.
        typed = SignalError(signal, f"raised {type(error).__name__}")
        typed.__cause__ = error
    logger.warning("%s signal failed: %s", signal.value, type(typed.__cause__ or typed).__name__)
    return Failure(typed)


ERROR_KINDS = ("timeout", "overload", "value", "language_model", "missing", "other")


def error_kind(error: KnowgateError) -> str:
    """One of `ERROR_KINDS`: a metric label with few values."""
    from .errors import LanguageModelError, MissingDependencyError

    if isinstance(error, SignalTimeoutError | LanguageModelTimeoutError):
        return "timeout"
    if isinstance(error, SignalOverloadError):
        return "overload"
    if isinstance(error, SignalValueError):
        return "value"
    if isinstance(error, LanguageModelError):
        return "language_model"
    if isinstance(error, MissingDependencyError):
        return "missing"
    return "other"


def keeps_hanging(outcomes: Sequence[tuple[Outcome, float]]) -> bool:
    """Whether two questions in a row, each alone, ran into the deadline: the scorer hangs.

    Without this a scorer that answers nothing would cost a deadline for every question.
    """
    last = [outcome for outcome, _ in outcomes[-2:]]
    return len(last) == 2 and all(
        isinstance(outcome, Failure) and isinstance(outcome.error, SignalTimeoutError)
        for outcome in last
    )
