"""Measure the signals of a decision, each under its deadline; relevance is the first of them."""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ._failures import Patience, log_failure, not_asked
from ._metrics import MetricsOfGuard
from ._signal import Signal, Veto
from .contracts import Confidence, RelevanceScorer, SetScore, checked_scorer, plain
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
    AllWorkersBusyError,
    DeadlineExceededError,
    KnowgateError,
    PolicyError,
    SignalValueError,
    UnsupportedLanguageError,
)
from .fingerprint import JOINT, aggregator, default_aggregator, output_scale
from .process import cpu_count
from .routing import IdentityCalibrator, Measure, Outcome, PolicyFields, Send, at_once
from .text import Request, TextWithMetadata

# The passages of several questions.
_TextSets = Sequence[Sequence[str]]


def has_methods(part: object, *names: str) -> bool:
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
        self.awaited = has_methods(scorer, "ascore_sets" if joint else "ascore_pairs")

    @classmethod
    def usual(cls, scorer: RelevanceScorer) -> SetReader:
        """Ask a scorer as policies for it do by default."""
        joint = default_aggregator(scorer.fingerprint.kind) == JOINT
        return cls(scorer, joint=joint and has_methods(scorer, "score_sets"))

    def measure(self, questions: Sequence[str], passages: _TextSets) -> list[SetScore]:
        """The scores and the value of each question; those of sets as they come."""
        if not questions:
            return []
        ask = getattr(self.scorer, "score_sets" if self.joint else "score_pairs")
        return self._read(ask(*self._asked(questions, passages)), passages)

    async def ameasure(self, questions: Sequence[str], passages: _TextSets) -> list[SetScore]:
        """As `measure`, without blocking the event loop."""
        if not self.awaited:
            return await call_on_thread(lambda: self.measure(questions, passages))
        if not questions:
            return []
        ask = getattr(self.scorer, "ascore_sets" if self.joint else "ascore_pairs")
        return self._read(await ask(*self._asked(questions, passages)), passages)

    def _asked(self, questions: Sequence[str], passages: _TextSets) -> tuple[Sequence[Any], ...]:
        if self.joint:
            return questions, passages
        pairs = zip(questions, passages, strict=True)
        return ([(question, text) for question, texts in pairs for text in texts],)

    def _read(self, found: Any, passages: _TextSets) -> list[SetScore]:
        if self.joint:
            values = list(found)
            if len(values) != len(passages):
                raise _wrong(f"{len(values)} values for {len(passages)} questions")
            return values
        scores, end = _scores(found, sum(map(len, passages))), 0
        values = []
        for texts in passages:
            start, end = end, end + len(texts)
            own = tuple(scores[start:end])
            values.append(SetScore(own, self._aggregate(own)))
        return values


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


class RelevanceSignal(Signal[SetScore]):
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
        joint = policy.aggregator == JOINT
        found = checked_scorer(scorer, () if joint else ("score_pairs",)).fingerprint
        policy.require_scorer(found.probed(scorer) if policy.scorer.is_probed else found)
        self.on_unread: Callable[[str], None] | None = None
        if joint and policy.may_follow and not has_methods(scorer, "score_set", "score_sets"):
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

    def has(self, form: str) -> bool:
        """Whether the scorer can be awaited; several questions are always one call."""
        return form == "measure_many" or self._reader.awaited

    def measure(self, request: Request) -> SetScore:
        """The scores of one question's passages, and their value.

        Raises:
            UnsupportedLanguageError: the scorer does not know the question's language.
        """
        self._prepare(request)
        return self._reader.measure([request.question], [self._passages(request)])[0]

    async def ameasure(self, request: Request) -> SetScore:
        """As `measure`, without blocking the event loop."""
        self._prepare(request)
        return (await self._reader.ameasure([request.question], [self._passages(request)]))[0]

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

    def _prepare(self, request: Request) -> None:
        if (error := self._unsupported(request)) is not None:
            raise error
        self._tell_unread(request)

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


def as_score(value: Any) -> float:
    """A scorer's number as a float, which may be NaN or infinite.

    Raises:
        TypeError: it is text, a truth value, a complex number or a list; `float` would read the
            text "0.5", take True for 1, drop the imaginary part and flatten a list of one.
    """
    if getattr(value, "ndim", None) == 0:
        # A scalar of a numerical library.
        value = value.item()
    if isinstance(value, str | bytes | bool | complex) or getattr(value, "ndim", 0) != 0:
        raise TypeError(type(value).__name__)
    return float(value)


# -- measuring ------------------------------------------------------------------------

_Result = TypeVar("_Result")


UNTRACED: AbstractContextManager[None] = nullcontext()


def level_of(signal: Signal[Any], value: Any) -> float | bool:
    """The level of a checked value: a veto's strength, whatever it may call `level` itself."""
    return Veto.level(signal, value) if isinstance(signal, Veto) else signal.level(value)


@dataclass(frozen=True, eq=False)
class SignalRunner:
    """Measures signals within their deadlines; failures become outcomes and are counted.

    Each thing is written once, as a coroutine: the sync forms run one that waits for nothing.

    Args:
        deadlines: seconds by signal name; None for no limit.
        turns: by the name of signals whose questions wait for each other.
        pool: threads for calls that may get stuck.
        metrics: None for none.
        max_concurrency: measurements under way at once in a batch.
    """

    deadlines: Mapping[str, float | None]
    turns: Mapping[str, Turns]
    pool: DeadlineRunner
    metrics: MetricsOfGuard | None
    max_concurrency: int

    async def _called(
        self,
        signal: Signal[Any],
        form: str,
        asked: Any,
        check: Callable[[Any, Any], _Result],
        patience: Patience | None,
        *,
        awaits: bool,
    ) -> _Result:
        """What a signal measured, checked, once its turn has come.

        Args:
            signal: one that checks its deadline is called on the caller's own thread.
            form: of its methods, `measure` or `measure_many`.
            asked: a request, or several.
            check: takes what was measured, and what was asked.
            patience: of the batch that it is called for; None for a single decision.
            awaits: whether the event loop goes on meanwhile.
        """
        seconds, turns = self.deadlines[signal.name], self.turns.get(signal.name)
        # What a batch takes tells nothing of one question.
        told, waiting = (seconds, None) if patience is None else (None, patience.waiting)

        def task() -> _Result:
            return check(getattr(signal, form)(asked), asked)

        by = call_here if signal.checks_deadline else self.pool.call
        if not awaits and turns is None and patience is None:
            return by(task, seconds)

        async def native() -> _Result:
            return check(await getattr(signal, f"a{form}")(asked), asked)

        if turns is not None:
            await turns.atake(waiting) if awaits else turns.take(waiting)
        with (
            nullcontext() if turns is None else turns.turn(told),
            nullcontext(seconds) if patience is None else patience.measured(seconds) as left,
        ):
            if awaits and signal.has(f"a{form}"):
                return await within(native(), left)
            return await self.pool.acall(task, left) if awaits else by(task, left)

    async def measure(
        self, need: Measure, patience: Patience | None = None, *, awaits: bool
    ) -> Outcome:
        """The outcome of one need, measured under its span where the decision is traced.

        Args:
            need: a signal and a question.
            patience: of the batch that the question is one of.
            awaits: whether the event loop goes on meanwhile; else it waits for nothing.
        """
        signal, request = need.signal, need.request
        value: Any
        with UNTRACED if need.span is None else need.span.signal(signal) as record:
            started = time.perf_counter()
            try:
                if patience is not None and patience.over:
                    value = self._counted(
                        signal, not_asked(signal.name, patience, self.deadlines[signal.name])
                    )
                else:
                    value = await self._called(
                        signal, "measure", request, signal.check, patience, awaits=awaits
                    )
            except (Exception, asyncio.CancelledError) as error:
                if _is_the_callers(error, awaits=awaits):
                    raise
                if patience is not None and isinstance(error, DeadlineExceededError):
                    patience.missed += 1
                value = self._failed(signal, error, request)
            if record is not None:
                record(value)
            return self._outcome(need, value, time.perf_counter() - started)

    def _failed(self, signal: Signal[Any], error: BaseException, request: Request) -> KnowgateError:
        """The typed failure for whatever a signal raised."""
        if isinstance(error, UnsupportedLanguageError):
            # The signal works, so this does not count as its failure.
            return error
        seconds = self.deadlines[signal.name]
        return self._counted(signal, log_failure(signal.name, error, request, seconds))

    def _counted(self, signal: Signal[Any], error: KnowgateError) -> KnowgateError:
        if self.metrics is not None:
            self.metrics.count_error(signal.name, error)
        return error

    def _outcome(self, need: Measure, value: Any, seconds: float) -> Outcome:
        """What the decision needs of a checked value or a failure."""
        if isinstance(value, Confidence) and self.metrics is not None:
            self.metrics.count_samples(value)
        if not isinstance(value, KnowgateError):
            try:
                fields = need.signal.decision_fields(value, need.request)
                value = level_of(need.signal, value), fields
            except Exception as error:  # noqa: BLE001 - of a veto of one's own
                value = self._failed(need.signal, error, need.request)
        return value, seconds

    # -- many questions: together where a signal can, otherwise side by side -----------

    async def measure_batch(
        self,
        needs: Mapping[int, Measure],
        send: Send[Outcome],
        batch: dict[str, Patience],
        *,
        awaits: bool,
    ) -> None:
        """Send the outcomes of many needs, in order; those of one signal together where it can."""
        by_signal: dict[str, dict[int, Measure]] = {}
        for index, need in needs.items():
            by_signal.setdefault(need.signal.name, {})[index] = need
        side_by_side: dict[int, Measure] = {}
        outcomes: dict[int, Outcome] = {}
        for asked in by_signal.values():
            signal = next(iter(asked.values())).signal
            patience = self._patience(signal, batch)
            outcomes |= await self._jointly(asked, patience, awaits=awaits)
            singly = {index: need for index, need in asked.items() if index not in outcomes}
            if signal.concurrent:
                side_by_side |= singly
            else:
                # A call that hangs does not keep the others waiting.
                width = 2 if patience.missed else 1
                outcomes |= await self._singly(singly, batch, width, awaits=awaits)
        width = self.max_concurrency
        outcomes |= await self._singly(side_by_side, batch, width, awaits=awaits)
        for index in needs:
            send(index, outcomes[index])

    def _patience(self, signal: Signal[Any], batch: dict[str, Patience]) -> Patience:
        if signal.name not in batch:
            turns = self.turns.get(signal.name)
            wait = math.inf if turns is None else turns.longest
            first = self.max_concurrency if signal.concurrent else 1
            batch[signal.name] = Patience(self.deadlines[signal.name], wait, first)
        return batch[signal.name]

    async def _jointly(
        self, needs: Mapping[int, Measure], patience: Patience, *, awaits: bool
    ) -> dict[int, Outcome]:
        """Measure the needs of one signal in joint calls that end well within one deadline each.

        Once a call missed its deadline, those left are measured singly, so that what was done in
        time is kept.

        Returns:
            The outcomes so far; the other needs are to be measured singly.
        """
        outcomes: dict[int, Outcome] = {}
        indices, start = list(needs), 0
        asks = needs[indices[0]].signal.has("measure_many")
        while asks and start < len(indices) and not (patience.missed or patience.over):
            part = indices[start : start + patience.joined]
            asked, before = [needs[index] for index in part], patience.measuring.spent
            start += len(part)
            found = await self._together(asked, patience, awaits=awaits)
            outcomes.update(zip(part, found, strict=False))
            patience.plan((patience.measuring.spent - before) / len(part))
        return outcomes

    async def _singly(
        self, needs: Mapping[int, Measure], batch: dict[str, Patience], width: int, *, awaits: bool
    ) -> dict[int, Outcome]:
        """Measure needs singly, so many at once: as tasks of the event loop, or on threads."""
        room, found = asyncio.Semaphore(width), list[Outcome]()

        def measured(need: Measure) -> Coroutine[Any, Any, Outcome]:
            return self.measure(need, batch[need.signal.name], awaits=awaits)

        async def one(need: Measure) -> Outcome:
            async with room:
                return await measured(need)

        def here(context: contextvars.Context, need: Measure) -> Outcome:
            return context.run(at_once, measured(need))

        if awaits:
            found = await asyncio.gather(*map(one, needs.values()))
        elif needs:
            # Each in a copy of the caller's context, as tracing needs it.
            contexts = [contextvars.copy_context() for _ in needs]
            if width == 1:
                found = list(map(here, contexts, needs.values()))
            else:
                with ThreadPoolExecutor(min(width, len(needs))) as threads:
                    found = list(threads.map(here, contexts, needs.values()))
        return dict(zip(needs, found, strict=True))

    async def _together(
        self, needs: Sequence[Measure], patience: Patience, *, awaits: bool
    ) -> list[Outcome]:
        """Outcomes of one joint call; none where each need is to be measured singly.

        The call has the deadline of one question, whatever the number of needs.
        """
        if len(needs) == 1:
            return [await self.measure(needs[0], patience, awaits=awaits)]
        signal, requests = needs[0].signal, [need.request for need in needs]
        started, begun = time.perf_counter(), time.time_ns()

        values: list[Any]
        try:
            check = partial(_all_checked, signal)
            values = await self._called(
                signal, "measure_many", requests, check, patience, awaits=awaits
            )
        except AllWorkersBusyError as error:
            values = [error] * len(needs)
        except (Exception, asyncio.CancelledError) as error:
            if _is_the_callers(error, awaits=awaits):
                raise
            patience.missed += isinstance(error, DeadlineExceededError)
            # One question that is bad, or that takes too long, must not fail the others.
            return []
        share = (time.perf_counter() - started) / len(needs)
        found = []
        for need, value in zip(needs, values, strict=True):
            failed = isinstance(value, Exception)
            checked = self._failed(signal, value, need.request) if failed else value
            if need.span is not None:
                need.span.measured_jointly(signal, begun, checked)
            found.append(self._outcome(need, checked, share))
        return found


def _is_the_callers(error: BaseException, *, awaits: bool) -> bool:
    """Whether the caller cancelled this decision, and not the signal itself."""
    return awaits and isinstance(error, asyncio.CancelledError) and asked_to_stop()


def _all_checked(signal: Signal[Any], values: Any, requests: Sequence[Request]) -> list[Any]:
    if len(values) != len(requests):
        detail = f"{len(values)} values for {len(requests)} questions"
        raise SignalValueError(signal.name, detail)
    return [_checked(signal, *pair) for pair in zip(values, requests, strict=True)]


def _checked(signal: Signal[Any], value: Any, request: Request) -> Any:
    try:
        return value if isinstance(value, KnowgateError) else signal.check(value, request)
    except SignalValueError as error:
        return error
