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
from .deadlines import (
    DeadlineRunner,
    Turns,
    asked_to_stop,
    call_here,
    call_on_thread,
    within,
)
from .decision import SignalName
from .errors import (
    DeadlineExceededError,
    KnowgateError,
    PolicyError,
    SignalValueError,
    UnsupportedLanguageError,
)
from .fingerprint import JOINT, Fingerprint, aggregator, default_aggregator, output_scale
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


def checks_its_deadline(part: object) -> bool:
    """Whether a part says of its own class that it checks its deadline."""
    # Not inherited: a subclass may add work of its own that checks nothing.
    return "checks_deadline" in vars(type(part)) and bool(getattr(part, "checks_deadline", False))


class SetReader:
    """Asks a scorer about questions with their passages, each by itself or all together.

    Args:
        scorer: what is asked.
        joint: whether it judges the passages of a question together.
        aggregate: makes one value of the scores of passages that are judged by themselves.

    Attributes:
        scorer, joint: as given.
        awaited: whether it can be awaited.
    """

    def __init__(
        self,
        scorer: RelevanceScorer,
        *,
        joint: bool,
        aggregate: Callable[[Sequence[float]], float] = max,
    ) -> None:
        self.scorer, self.joint, self._aggregate = scorer, joint, aggregate
        self.awaited = _has(scorer, "ascore_sets" if joint else "ascore_pairs")

    @classmethod
    def usual(cls, scorer: RelevanceScorer) -> SetReader:
        """Ask a scorer as policies for it do by default."""
        joint = default_aggregator(scorer.fingerprint.kind) == JOINT
        return cls(scorer, joint=joint and _has(scorer, "score_sets"))

    def measure(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """The scores and the value of each question; those of sets as they come."""
        if not questions:
            return []
        ask = getattr(self.scorer, "score_sets" if self.joint else "score_pairs")
        return self._read(ask(*self._asked(questions, passages)), passages)

    async def ameasure(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `measure`, without blocking the event loop."""
        if not self.awaited:
            return await call_on_thread(lambda: self.measure(questions, passages))
        if not questions:
            return []
        ask = getattr(self.scorer, "ascore_sets" if self.joint else "ascore_pairs")
        return self._read(await ask(*self._asked(questions, passages)), passages)

    def _asked(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> tuple[Sequence[Any], ...]:
        if self.joint:
            return questions, passages
        pairs = zip(questions, passages, strict=True)
        return ([(question, text) for question, texts in pairs for text in texts],)

    def _read(self, found: Any, passages: Sequence[Sequence[str]]) -> list[SetScore]:
        if self.joint:
            values = list(found)
            if len(values) != len(passages):
                raise _wrong(f"{len(values)} values for {len(passages)} questions")
            return values
        following = iter(_scores(found, sum(map(len, passages))))
        each = [tuple(next(following) for _ in texts) for texts in passages]
        return [SetScore(scores, self._aggregate(scores)) for scores in each]


def _scores(scores: Any, count: int) -> list[float]:
    # A mapping gives its keys, a set any order, bytes their codes, a generator no end.
    ordered = isinstance(scores, Sequence) and not isinstance(scores, str | bytes | bytearray)
    if not ordered and getattr(scores, "ndim", None) != 1:
        raise _wrong(f"the scorer returned a {type(scores).__name__}, not a sequence")
    if len(scores) != count:
        raise _wrong(f"{len(scores)} scores for {count} passages")
    try:
        values = [as_score(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise _wrong("the scorer did not return numbers") from None
    if not all(map(math.isfinite, values)):
        raise _wrong("the scorer returned NaN or infinity")
    return values


def _wrong(detail: str) -> SignalValueError:
    return SignalValueError(SignalName.RELEVANCE.value, detail)


class RelevanceSignal(RoutingSignal[SetScore]):
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
        joint = policy.aggregator == JOINT
        if joint and policy.may_follow and not _has(scorer, "score_set", "score_sets"):
            raise PolicyError(
                f"the policy judges passages together (aggregator {JOINT!r}), and a "
                f"{type(scorer).__name__} has no score_set and score_sets",
                hint="use a scorer that has them, or another aggregator",
            )
        self._scorer = scorer
        self._reader = SetReader(scorer, joint=joint, aggregate=aggregator(policy.aggregator))
        self.checks_deadline = checks_its_deadline(scorer)
        # Bundled scorers check theirs on a CPU, also those that need a thread of their own.
        self.at_once = cpu_count() if getattr(scorer, "checks_deadline", False) else None
        self._reads_metadata = bool(getattr(scorer, "reads_metadata", False))
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
        return form == "measure_many" or self._reader.awaited

    def measure(self, request: Request) -> SetScore:
        """The scores of one question's passages, and their value.

        Raises:
            UnsupportedLanguageError: the scorer does not know the question's language.
        """
        return _only(self.measure_many([request]))

    async def ameasure(self, request: Request) -> SetScore:
        """As `measure`, without blocking the event loop."""
        return _only(await self.ameasure_many([request]))

    def measure_many(self, requests: Sequence[Request]) -> list[SetScore | KnowgateError]:
        """The scores of several questions, in one call of the scorer."""
        refused, questions, passages = self._asked(requests)
        return _placed(self._reader.measure(questions, passages), refused)

    async def ameasure_many(self, requests: Sequence[Request]) -> list[SetScore | KnowgateError]:
        """As `measure_many`, without blocking the event loop."""
        refused, questions, passages = self._asked(requests)
        return _placed(await self._reader.ameasure(questions, passages), refused)

    def _asked(
        self, requests: Sequence[Request]
    ) -> tuple[Sequence[KnowgateError | None], list[str], list[Sequence[str]]]:
        """An error or None for each request; the questions without one, and their passages."""
        refused = [self._unsupported(request) for request in requests]
        asked = [one for one, error in zip(requests, refused, strict=True) if error is None]
        for one in asked:
            self._tell_unread(one)
        return refused, [one.question for one in asked], [self._passages(one) for one in asked]

    def _passages(self, request: Request) -> Sequence[str]:
        """The texts, with the metadata of their documents for a scorer that reads it."""
        if not self._reads_metadata:
            return request.passages
        pairs = zip(request.passages, request.documents, strict=True)
        return tuple(TextWithMetadata.of(text, document) for text, document in pairs)

    def check(self, value: Any, request: Request) -> SetScore:
        """The scores as finite floats, with the value of all passages together."""
        if not isinstance(value, SetScore):
            raise _wrong(f"the scorer returned {type(value).__name__}")
        found = value
        if self._reader.joint:
            scores = tuple(_scores(value.scores, len(request.passages)))
            found = replace(value, scores=scores, joint=_scores([value.joint], 1)[0])
        if self._must_be_probability and not 0.0 <= found.joint <= 1.0:
            raise _wrong(
                "the scorer's value is not within [0, 1], and the policy has no calibrator "
                "(write it with Policy.for_scorer, or calibrate one)"
            )
        return found

    def level(self, value: SetScore) -> float:
        """The calibrated probability that the passages suffice."""
        return self._calibrator.apply(value.joint)

    def decision_fields(self, value: SetScore, request: Request) -> dict[str, Any]:
        """The raw value, and the score of each passage given; None for one without text."""
        scores: list[float | None] = [None] * request.given
        for position, score in zip(request.positions, value.scores, strict=True):
            scores[position] = score
        raw = value.joint if math.isfinite(value.joint) else None
        found = {"raw_relevance": raw, "scores": tuple(scores)}
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
            raise _wrong(f"supports returned {type(found).__name__}")
        if found:
            return None
        detail = (
            "the scorer does not know the question's language: take one that does, e.g. "
            "`--scorer multilingual`"
        )
        return UnsupportedLanguageError(self.name, detail)


def _placed(
    found: Sequence[SetScore], refused: Sequence[KnowgateError | None]
) -> list[SetScore | KnowgateError]:
    """What the scorer returned for the questions asked, in the order of all."""
    each = iter(found)
    return [next(each) if error is None else error for error in refused]


def _only(found: Sequence[SetScore | KnowgateError]) -> SetScore:
    if isinstance(found[0], KnowgateError):
        raise found[0]
    return found[0]


# -- confidence -----------------------------------------------------------------------


class ConfidenceSignal(RoutingSignal[Confidence]):
    """Whether the model itself would answer rightly, by a `ConfidenceEstimator`."""

    name = SignalName.CONFIDENCE.value
    deadline = 60.0

    def __init__(self, policy: PolicyFields, estimator: ConfidenceEstimator) -> None:
        policy.require_estimator(estimator.fingerprint)
        self._estimator = _stopping_at_threshold(policy, estimator)
        self.checks_deadline = checks_its_deadline(self._estimator)
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
        self.checks_deadline = checks_its_deadline(detector)
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
