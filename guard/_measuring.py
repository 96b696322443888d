"""The three signals that decide the route, and how one signal is measured under its deadline."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from ._failures import Failures, Patience
from ._metrics import MetricsOfGuard
from ._signal import RoutingSignal, Signal, SignalSpans, plain
from .contracts import (
    BatchConfidenceEstimator,
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    ConflictExaminer,
    ConflictFinding,
    RelevanceScorer,
    SetScore,
    View,
)
from .deadlines import DeadlineRunner, Turns, asked_to_stop, call_here, within
from .decision import SignalName
from .errors import (
    DeadlineExceededError,
    KnowgateError,
    PolicyError,
    SignalValueError,
    UnsupportedLanguageError,
)
from .fingerprint import JOINT, Fingerprint, RelevanceStage, aggregator, output_scale
from .process import Budget, cpu_count
from .routing import IdentityCalibrator, Measure, Outcome, PolicyFields
from .text import Request, TextWithMetadata, clean_text


def routing_signals(
    policy: PolicyFields,
    scorer: RelevanceScorer | None,
    estimator: ConfidenceEstimator | None,
    detector: ConflictDetector | None,
) -> dict[SignalName, RoutingSignal[Any]]:
    """The signals that `policy` can ask for, by name.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        PolicyError: the policy needs a part that was not given, or a part of another kind.
    """
    found: dict[SignalName, RoutingSignal[Any]] = {}
    if scorer is not None:
        found[SignalName.RELEVANCE] = RelevanceSignal(policy, scorer)
    elif policy.may_follow:
        raise PolicyError("the policy needs a relevance scorer", hint="pass scorer=…")
    if estimator is not None:
        found[SignalName.CONFIDENCE] = ConfidenceSignal(policy, estimator)
    elif policy.needs_estimator:
        raise PolicyError("the policy needs a confidence estimator", hint="pass estimator=…")
    if detector is not None:
        found[SignalName.CONFLICT] = ConflictSignal(policy, detector)
    elif policy.check_conflict and policy.may_follow:
        raise PolicyError("the policy checks conflicts", hint="pass conflict_detector=…")
    return found


def _has(part: object, *names: str) -> bool:
    # Looked up by name: `isinstance` would ask for the fingerprint, which may take long.
    return all(callable(getattr(part, name, None)) for name in names)


# -- relevance ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relevance:
    """Raw scores of the passages, the raw value of all of them, and the stage it rests on."""

    scores: Sequence[float]
    raw: float
    stage: RelevanceStage | None = None


class RelevanceSignal(RoutingSignal[Relevance]):
    """How far the passages suffice, by a `RelevanceScorer`.

    Questions are measured one after the other, or in one call of the scorer.

    Attributes:
        on_unread: called with a passage whose end the scorer does not read, once per question;
            on the thread that measures.
    """

    name = SignalName.RELEVANCE.value
    deadline = 10.0
    concurrent = False

    def __init__(self, policy: PolicyFields, scorer: RelevanceScorer) -> None:
        found = scorer.fingerprint
        policy.require_scorer(found.probed(scorer) if policy.scorer.is_probed else found)
        self.on_unread: Callable[[str], None] | None = None
        self._joint = policy.aggregator == JOINT
        if self._joint and policy.may_follow and not _has(scorer, "score_set", "score_sets"):
            raise PolicyError(
                f"the policy judges passages together (aggregator {JOINT!r}), and a "
                f"{type(scorer).__name__} has no score_set and score_sets",
                hint="use a scorer that has them, or another aggregator",
            )
        self._scorer = scorer
        forms = ("ascore_set", "ascore_sets") if self._joint else ("ascore", "ascore_pairs")
        self._awaited = _has(scorer, *forms)
        self.checks_deadline = _checks_deadline(scorer)
        # Bundled scorers check theirs on a CPU, also those that need a thread of their own.
        self.at_once = cpu_count() if getattr(scorer, "checks_deadline", False) else None
        self._reads_metadata = bool(getattr(scorer, "reads_metadata", False))
        self._aggregate = aggregator(policy.aggregator)
        self._calibrator = policy.relevance_calibrator
        # A cosine is clipped to [0, 1]; what else lies outside was never a probability.
        self._must_be_probability = (
            isinstance(self._calibrator, IdentityCalibrator) and output_scale(policy.scorer) is None
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """The scorer's."""
        return self._scorer.fingerprint

    def has(self, form: str) -> bool:
        """Whether the scorer can be awaited; several questions are always one call."""
        return form == "measure_many" or self._awaited

    def measure(self, request: Request) -> Any:
        """The scores of one question's passages, or their `SetScore`.

        Raises:
            UnsupportedLanguageError: the scorer does not know the question's language.
        """
        self._prepare(request)
        return self._form("score", "score_set")(request.question, self._passages(request))

    async def ameasure(self, request: Request) -> Any:
        """As `measure`, without blocking the event loop."""
        if not self._awaited:
            return await super().ameasure(request)
        self._prepare(request)
        return await self._form("ascore", "ascore_set")(request.question, self._passages(request))

    def measure_many(self, requests: Sequence[Request]) -> list[Any]:
        """The scores of several questions, in one call of the scorer."""
        refused, asked = self._supported(requests)
        if not asked:
            return list(refused)
        found = self._form("score_pairs", "score_sets")(*self._asked(asked))
        return self._parted(found, refused, asked)

    async def ameasure_many(self, requests: Sequence[Request]) -> Sequence[Any]:
        """As `measure_many`, without blocking the event loop."""
        if not self._awaited:
            return await super().ameasure_many(requests)
        refused, asked = self._supported(requests)
        if not asked:
            return list(refused)
        found = await self._form("ascore_pairs", "ascore_sets")(*self._asked(asked))
        return self._parted(found, refused, asked)

    def _form(self, single: str, joint: str) -> Any:
        """The scorer's method of one of these names: for passages one by one, or together."""
        return getattr(self._scorer, joint if self._joint else single)

    def _asked(self, requests: Sequence[Request]) -> tuple[Sequence[Any], ...]:
        """What the scorer's form for several questions takes."""
        if self._joint:
            return [one.question for one in requests], [self._passages(one) for one in requests]
        return ([(one.question, text) for one in requests for text in self._passages(one)],)

    def _passages(self, request: Request) -> Sequence[str]:
        """The texts, with the metadata of their documents for a scorer that reads it."""
        if not self._reads_metadata:
            return request.passages
        pairs = zip(request.passages, request.documents, strict=True)
        return tuple(TextWithMetadata.of(text, document) for text, document in pairs)

    def _prepare(self, request: Request) -> None:
        if (unsupported := self._unsupported(request)) is not None:
            raise unsupported
        self._tell_unread(request)

    def _supported(
        self, requests: Sequence[Request]
    ) -> tuple[list[UnsupportedLanguageError | None], list[Request]]:
        """An error or None for each request, and the requests without one."""
        refused = [self._unsupported(request) for request in requests]
        asked = [one for one, error in zip(requests, refused, strict=True) if error is None]
        for one in asked:
            self._tell_unread(one)
        return refused, asked

    def _parted(
        self,
        found: Any,
        refused: Sequence[UnsupportedLanguageError | None],
        asked: Sequence[Request],
    ) -> list[Any]:
        """What the scorer returned for the questions asked, in the order of all."""
        if self._joint:
            parts = list(found)
            if len(parts) != len(asked):
                raise self._wrong(f"{len(parts)} values for {len(asked)} questions")
        else:
            following = iter(self._scores(found, sum(len(one.passages) for one in asked)))
            parts = [[next(following) for _ in one.passages] for one in asked]
        each = iter(parts)
        return [next(each) if error is None else error for error in refused]

    def check(self, value: Any, request: Request) -> Relevance:
        """The scores as finite floats, with the value of all passages together."""
        count = len(request.passages)
        if self._joint:
            if not isinstance(value, SetScore):
                raise self._wrong(f"the scorer returned {type(value).__name__}")
            scores = self._scores(value.scores, count)
            found = Relevance(scores, self._scores([value.joint], 1)[0], value.stage)
        else:
            scores = self._scores(value, count)
            found = Relevance(scores, self._aggregate(scores))
        if self._must_be_probability and not 0.0 <= found.raw <= 1.0:
            raise self._wrong(
                "the scorer's value is not within [0, 1], and the policy has no calibrator "
                "(write it with Policy.for_scorer, or calibrate one)"
            )
        return found

    def level(self, value: Relevance) -> float:
        """The calibrated probability that the passages suffice."""
        return self._calibrator.apply(value.raw)

    def decision_fields(self, value: Relevance, request: Request) -> dict[str, Any]:
        """The raw value, and the score of each passage given; None for one without text."""
        scores: list[float | None] = [None] * request.given
        for position, score in zip(request.positions, value.scores, strict=True):
            scores[position] = score
        found = {
            "raw_relevance": value.raw if math.isfinite(value.raw) else None,
            "scores": tuple(scores),
        }
        return found if value.stage is None else {**found, "relevance_stage": value.stage}

    def _tell_unread(self, request: Request) -> None:
        reads_whole = getattr(self._scorer, "reads_whole", None)
        if reads_whole is None or self.on_unread is None:
            return
        for passage in request.passages:
            if not reads_whole(passage):
                self.on_unread(passage)
                return

    def _unsupported(self, request: Request) -> UnsupportedLanguageError | None:
        supports = getattr(self._scorer, "supports", None)
        found = True if supports is None else plain(supports(request.question))
        if not isinstance(found, bool):
            raise self._wrong(f"supports returned {type(found).__name__}")
        if found:
            return None
        detail = (
            "the scorer does not know the question's language: take one that does, e.g. "
            "`--scorer multilingual`"
        )
        return UnsupportedLanguageError(self.name, detail)

    def _scores(self, scores: Any, count: int) -> list[float]:
        # A mapping gives its keys, a set any order, bytes their codes, a generator no end.
        ordered = isinstance(scores, Sequence) and not isinstance(scores, str | bytes | bytearray)
        if not ordered and getattr(scores, "ndim", None) != 1:
            raise self._wrong(f"the scorer returned a {type(scores).__name__}, not a sequence")
        if len(scores) != count:
            raise self._wrong(f"{len(scores)} scores for {count} passages")
        try:
            values = [as_score(score) for score in scores]
        except (TypeError, ValueError, OverflowError):
            raise self._wrong("the scorer did not return numbers") from None
        if not all(map(math.isfinite, values)):
            raise self._wrong("the scorer returned NaN or infinity")
        return values

    def _wrong(self, detail: str) -> SignalValueError:
        return SignalValueError(self.name, detail)


def _checks_deadline(part: object) -> bool:
    # Not inherited: a subclass may add work of its own that checks nothing.
    return "checks_deadline" in vars(type(part)) and bool(getattr(part, "checks_deadline", False))


# -- confidence -----------------------------------------------------------------------


class ConfidenceSignal(RoutingSignal[Confidence]):
    """Whether the model itself would answer rightly, by a `ConfidenceEstimator`."""

    name = SignalName.CONFIDENCE.value
    deadline = 60.0

    def __init__(self, policy: PolicyFields, estimator: ConfidenceEstimator) -> None:
        policy.require_estimator(estimator.fingerprint)
        self._estimator = _stopping_at_threshold(policy, estimator)
        self.checks_deadline = _checks_deadline(self._estimator)
        self._calibrator = policy.confidence_calibrator

    @property
    def fingerprint(self) -> Fingerprint:
        """The estimator's."""
        return self._estimator.fingerprint

    def has(self, form: str) -> bool:
        """Whether the estimator takes several questions at once."""
        many = _has(self._estimator, "estimate_many", "aestimate_many")
        return form == "ameasure" or many

    def measure(self, request: Request) -> Confidence:
        """The estimator's confidence for one question."""
        return self._estimator.estimate(request.question)

    async def ameasure(self, request: Request) -> Confidence:
        """As `measure`, without blocking the event loop."""
        return await self._estimator.aestimate(request.question)

    def measure_many(self, requests: Sequence[Request]) -> Sequence[Confidence | KnowgateError]:
        """The confidence for several questions; an error in place of one that failed."""
        return self._batch_estimator.estimate_many(
            [request.question for request in requests], on_error="return"
        )

    async def ameasure_many(
        self, requests: Sequence[Request]
    ) -> Sequence[Confidence | KnowgateError]:
        """As `measure_many`, without blocking the event loop."""
        return await self._batch_estimator.aestimate_many(
            [request.question for request in requests], on_error="return"
        )

    def check(self, value: Any, request: Request) -> Confidence:
        """The confidence, its value a float within [0, 1], its answer clean text."""
        if not isinstance(value, Confidence):
            raise SignalValueError(self.name, f"the estimator returned {type(value).__name__}")
        number: Any = plain(value.value)
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            raise SignalValueError(self.name, "the value is not within [0, 1]")
        answer: Any = value.answer
        if not isinstance(answer, str):
            raise SignalValueError(self.name, f"the answer is a {type(answer).__name__}, not text")
        return replace(value, value=float(number), answer=clean_text(answer))

    def level(self, value: Confidence) -> float:
        """The calibrated probability that the closed-book answer is right."""
        return self._calibrator.apply(value.value)

    def decision_fields(self, value: Confidence, request: Request) -> dict[str, Any]:
        """The closed-book answer."""
        return {"closed_book_answer": value.answer}

    @property
    def _batch_estimator(self) -> BatchConfidenceEstimator:
        return cast("BatchConfidenceEstimator", self._estimator)


def _stopping_at_threshold(
    policy: PolicyFields, estimator: ConfidenceEstimator
) -> ConfidenceEstimator:
    """`estimator`, made to stop sampling where this policy's decision is fixed.

    Seven of the first seven samples fix "at least 0.7", but not yet "at least 0.9".
    An estimator that the policy was calibrated on, or whose values are calibrated
    again, stays as it is: the threshold then refers to its own values.
    """
    threshold = policy.confidence_threshold
    deciding_at = getattr(estimator, "deciding_at", None)
    raw = isinstance(policy.confidence_calibrator, IdentityCalibrator)
    if deciding_at is None or not threshold or policy.estimator is not None or not raw:
        return estimator
    found: ConfidenceEstimator = deciding_at(threshold)
    return found


# -- conflict -------------------------------------------------------------------------


class ConflictSignal(RoutingSignal[ConflictFinding | bool]):
    """Whether context and model, or passages, contradict each other, by a `ConflictDetector`."""

    name = SignalName.CONFLICT.value

    def __init__(self, policy: PolicyFields, detector: ConflictDetector) -> None:
        self._examines = isinstance(detector, ConflictExaminer)
        self._detector: Any = detector
        self.checks_deadline = _checks_deadline(detector)
        self._between = policy.conflict_between
        self._shows_views = policy.on_conflict == "show_both"
        if policy.check_conflict and policy.may_follow:
            self._require_fit(policy)

    def _require_fit(self, policy: PolicyFields) -> None:
        name = type(self._detector).__name__
        needs_views = policy.conflict_between != "memory" or policy.on_conflict == "show_both"
        if needs_views and not self._examines:
            raise PolicyError(
                "the policy needs a conflict detector that tells which answers there are, "
                f"and a {name} has no examine and aexamine",
                hint="pass conflict_detector=PassageConflict(…), for instance",
            )
        compares = getattr(self._detector, "compares_passages", True)
        if policy.conflict_between != "memory" and not compares:
            raise PolicyError(
                f"a {name} does not compare passages with each other, as the policy asks",
                hint="pass conflict_detector=PassageConflict(…)",
            )

    @property
    def fingerprint(self) -> Fingerprint:
        """The detector's class; policies are not bound to it."""
        return Fingerprint(kind=type(self._detector).__name__)

    def measure(self, request: Request) -> ConflictFinding | bool:
        """What the detector finds about one question."""
        find = self._detector.examine if self._examines else self._detector.detect
        found: ConflictFinding | bool = find(*self._asked(request))
        return found

    async def ameasure(self, request: Request) -> ConflictFinding | bool:
        """As `measure`, without blocking the event loop."""
        find = self._detector.aexamine if self._examines else self._detector.adetect
        found: ConflictFinding | bool = await find(*self._asked(request))
        return found

    @staticmethod
    def _asked(request: Request) -> tuple[str, str, Sequence[str]]:
        return request.question, request.closed_book_answer, request.passages

    def check(self, value: Any, request: Request) -> ConflictFinding | bool:
        """The finding with its answers as clean text, or the flag."""
        if not self._examines:
            return self._flag(value)
        if not isinstance(value, ConflictFinding):
            raise SignalValueError(self.name, f"the detector returned {type(value).__name__}")
        views = []
        count = len(request.passages)
        for view in value.views:
            if not isinstance(view, View) or not isinstance(view.answer, str):
                raise SignalValueError(self.name, "the detector returned a view without an answer")
            if not all(isinstance(index, int) and 0 <= index < count for index in view.passages):
                raise SignalValueError(self.name, f"a view of a passage beyond the {count} given")
            views.append(replace(view, answer=clean_text(view.answer)))
        found = replace(value, conflict=self._flag(value.conflict), views=tuple(views))
        if self._shows_views and self.level(found) and not any(v.answer.strip() for v in views):
            raise SignalValueError(self.name, "a conflict without the answers that are to be shown")
        return found

    def level(self, value: ConflictFinding | bool) -> bool:
        """Whether there is a conflict of the kind that the policy looks for."""
        return value if isinstance(value, bool) else value.counts(self._between)

    def decision_fields(self, value: ConflictFinding | bool, request: Request) -> dict[str, Any]:
        """The views, with the positions of their passages among those given."""
        return {} if isinstance(value, bool) else {"views": value.at(request.positions).views}

    def _flag(self, value: Any) -> bool:
        flag = plain(value)
        if not isinstance(flag, bool):
            raise SignalValueError(self.name, f"the detector returned {type(flag).__name__}")
        return flag


def as_score(value: Any) -> float:
    """A scorer's number as a float, which may be NaN or infinite.

    Raises:
        TypeError: it is text, a truth value, a complex number or a list; `float` would read the
            text "0.5", take True for 1, drop the imaginary part and flatten a list of one.
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # a scalar of a numerical library
    if isinstance(value, str | bytes | bool | complex) or getattr(value, "ndim", 0) != 0:
        raise TypeError(type(value).__name__)
    return float(value)


# -- measuring ------------------------------------------------------------------------

# Yields what to run, and is sent the result or thrown the error; the sync and async forms
# only differ in how they run it.
_Result = TypeVar("_Result")
Steps = Generator[Any, Any, _Result]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a signal.

    Attributes:
        signal: what is called; one that checks its deadline is on the caller's own thread.
        task: makes the call, blocking.
        native: makes it as a coroutine, where the signal has that form.
        form: the name of the signal's method that it awaits.
        seconds: its deadline; None for no limit.
        turns: what it waits for before its deadline begins; None for nothing.
        patience: of the batch that it is made for; None for a single decision.
    """

    signal: Signal[Any]
    task: Callable[[], Any]
    native: Callable[[], Awaitable[Any]]
    form: str
    seconds: float | None
    turns: Turns | None
    patience: Patience | None

    def run(self, pool: DeadlineRunner) -> Any:
        """What the signal returns, once its turn has come."""
        by = call_here if self.signal.checks_deadline else pool.call
        call: Callable[[], Any]
        if self.patience is None:
            call = partial(by, self.task, self.seconds)
        else:
            call = partial(self._timed, by)
        return call() if self.turns is None else self.turns.call(call, *self._terms())

    async def arun(self, pool: DeadlineRunner) -> Any:
        """As `run`, without blocking the event loop."""
        call = partial(self._atimed, pool)
        if self.turns is None:
            return await call()
        return await self.turns.acall(call, *self._terms())

    def _terms(self) -> tuple[float | None, Budget | None]:
        """The deadline of a single decision, and what a batch may wait for turns.

        What a batch takes tells nothing of one question.
        """
        return (self.seconds, None) if self.patience is None else (None, self.patience.waiting)

    def _timed(self, by: Callable[..., Any]) -> Any:
        with self._time() as seconds:
            return by(self.task, seconds)

    async def _atimed(self, pool: DeadlineRunner) -> Any:
        with self._time() as seconds:
            if self.signal.has(self.form):
                return await within(self.native(), seconds)
            return await pool.acall(self.task, seconds)

    @contextmanager
    def _time(self) -> Iterator[float | None]:
        """The seconds that the call has, which is the block; counted as the batch's.

        Raises:
            DeadlineExceededError: the batch has no time left.
        """
        if self.patience is None or self.seconds is None:
            yield self.seconds
            return
        with self.patience.measuring:
            if not self.patience.measuring.left:
                raise DeadlineExceededError
            yield self.patience.seconds


class SignalRunner:
    """Measures signals within their deadlines; failures become outcomes and are counted.

    Args:
        deadlines: seconds by signal name; None for no limit.
        turns: by the name of signals whose questions wait for each other.
        pool: threads for calls that may get stuck.
        metrics: None for none.
    """

    def __init__(
        self,
        deadlines: Mapping[str, float | None],
        turns: Mapping[str, Turns],
        pool: DeadlineRunner,
        metrics: MetricsOfGuard | None,
    ) -> None:
        self._deadlines, self._turns, self._pool, self._metrics = deadlines, turns, pool, metrics
        self._failures = Failures(deadlines, metrics)

    def measure(self, need: Measure) -> Outcome:
        """The outcome of one need."""
        return self.run(self.single(need))

    async def ameasure(self, need: Measure) -> Outcome:
        """As `measure`, without blocking the event loop."""
        return await self.arun(self.single(need))

    def run(self, steps: Steps[_Result]) -> _Result:
        """Run what the steps yield, on this thread or under deadlines on others."""
        try:
            step = next(steps)
            while True:
                try:
                    result = step.run(self._pool)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - an outcome
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)
        finally:
            steps.close()  # a span must end where it began

    async def arun(self, steps: Steps[_Result]) -> _Result:
        """As `run`, without blocking the event loop."""
        try:
            step = next(steps)
            while True:
                try:
                    result = await step.arun(self._pool)
                except (Exception, asyncio.CancelledError) as error:
                    if isinstance(error, asyncio.CancelledError) and asked_to_stop():
                        raise  # the caller cancelled this decision, not the signal itself
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            return cast("_Result", stop.value)
        finally:
            steps.close()

    def single(self, need: Measure, patience: Patience | None = None) -> Steps[Outcome]:
        """Measure one need, under its span where the decision is traced."""
        untraced = self._untraced(need, patience)
        return untraced if need.span is None else self._traced(need, need.span, untraced)

    @staticmethod
    def _traced(need: Measure, span: SignalSpans, untraced: Steps[Outcome]) -> Steps[Outcome]:
        with span.signal(need.signal) as record:
            outcome = yield from untraced
            record(outcome[0])
            return outcome

    def _untraced(self, need: Measure, patience: Patience | None) -> Steps[Outcome]:
        signal, request = need.signal, need.request
        if patience is not None and patience.over:
            return self._failures.not_asked(signal, patience), 0.0
        started = time.perf_counter()

        async def native() -> Any:
            return signal.check(await signal.ameasure(request), request)

        try:
            value = yield Call(
                signal,
                lambda: signal.check(signal.measure(request), request),
                native,
                "ameasure",
                self._deadlines[signal.name],
                self._turns.get(signal.name),
                patience,
            )
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all become outcomes
            if patience is not None and isinstance(error, DeadlineExceededError):
                patience.missed += 1
            value = self._failures.of(signal, error, request)
        if isinstance(value, Confidence):
            self._count_samples(value)
        return value, time.perf_counter() - started

    def _count_samples(self, confidence: Confidence) -> None:
        if self._metrics is not None:
            self._metrics.count_samples(confidence)
