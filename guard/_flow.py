"""One question's way through the guard, without any input or output.

`decision_flow` is a generator: it yields what it needs measured and is sent
what came of it. The sync, async and batch forms of the guard only differ in
how they fulfil a need, so they cannot disagree on what follows from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .contracts import Answerability, Confidence, ConflictFinding, Premise, SetScore, View
from .decision import Decision, Mode, OnError, Reason, Route, SignalName
from .errors import InputError, KnowgateError, QuestionError, UnsupportedLanguageError
from .policy import Aggregator, Policy, finite_or_none
from .routing import Signals, Verdict, decide_route, next_signal
from .text import passage_texts, question_text


@dataclass(frozen=True, slots=True)
class Need:
    """A signal to be measured for one question."""

    signal: SignalName
    question: str
    passages: tuple[str, ...]
    closed_book_answer: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A need that could not be met."""

    error: KnowgateError


Outcome = Sequence[float] | SetScore | Confidence | ConflictFinding | Answerability | bool | Failure
Flow = Generator[Need, tuple[Outcome, float], Decision]


@dataclass(slots=True)
class _Trace:
    """What one flow has gathered; lives in the generator's locals only."""

    signals: Signals = field(default_factory=Signals)
    scores: tuple[float | None, ...] = ()
    raw_relevance: float | None = None
    closed_book_answer: str | None = None
    views: tuple[View, ...] = ()
    answerability: Answerability | None = None
    premise_failed: bool = False
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What all flows of one guard share."""

    policy: Policy
    aggregate: Aggregator
    on_error: Mapping[SignalName, OnError]
    on_invalid_input: OnError
    on_unsupported_language: OnError
    mode: Mode
    asks_answerability: bool = False


def decision_flow(settings: FlowSettings, question: object, passages: object) -> Flow:
    """Decide one question; yields needs, receives (outcome, seconds), returns the decision.

    Raises:
        KnowgateError: a signal failed, or the input is unreadable, and the guard
            was told to raise then.
    """
    trace = _Trace()
    try:
        text, texts = _read(question, passages)
    except QuestionError:
        if settings.on_invalid_input is OnError.RAISE:
            raise
        return _decision(settings, trace, Verdict(Route.ABSTAIN, Reason.INVALID_INPUT, None), ())
    usable = tuple(i for i, passage in enumerate(texts) if passage.strip())
    kept_texts = tuple(texts[i] for i in usable)
    trace.scores = (None,) * len(texts)
    if not usable:
        trace.signals = Signals(relevance=0.0, nothing_retrieved=True)
    # Where no route is open the verdict would change nothing.
    if settings.asks_answerability and usable and next_signal(settings.policy, trace.signals):
        found = yield Need(SignalName.ANSWERABILITY, text, kept_texts)
        verdict = _premise(settings, trace, found, usable)
        if verdict is not None:
            return _decision(settings, trace, verdict, usable)
    while (name := next_signal(settings.policy, trace.signals)) is not None:
        need = Need(name, text, kept_texts, _memory(settings.policy, trace))
        outcome, seconds = yield need
        trace.seconds[name.value] = seconds
        if isinstance(outcome, Failure):
            if isinstance(outcome.error, UnsupportedLanguageError):
                return _unsupported(settings, trace, outcome.error, usable)
            action = settings.on_error[name]
            if action is OnError.RAISE:
                raise outcome.error
            trace.signals = trace.signals.with_value(name, None)
            if action is OnError.FOLLOW_CONTEXT and usable and settings.policy.may_follow:
                verdict = Verdict(Route.FOLLOW_CONTEXT, Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT, None)
                return _decision(settings, trace, verdict, usable)
        else:
            _take(settings, trace, name, outcome, usable)
    return _decision(settings, trace, decide_route(settings.policy, trace.signals), usable)


def _premise(
    settings: FlowSettings, trace: _Trace, found: tuple[Outcome, float], usable: tuple[int, ...]
) -> Verdict | None:
    """What follows from the look at the premise alone; None: the signals decide."""
    name = SignalName.ANSWERABILITY
    outcome, trace.seconds[name.value] = found
    if isinstance(outcome, Failure):
        action = settings.on_error[name]
        if action is OnError.RAISE:
            raise outcome.error
        trace.premise_failed = True
        if action is OnError.FOLLOW_CONTEXT:
            # The look at the premise is an addition: the guard decides as it would without it.
            return None
        return Verdict(Route.ABSTAIN, Reason.ANSWERABILITY_FAILED, None)
    if isinstance(outcome, Answerability):
        decided_by = tuple(usable[index] for index in outcome.passages)
        trace.answerability = replace(outcome, passages=decided_by)
        if outcome.premise is Premise.UNANSWERABLE:
            return Verdict(Route.ABSTAIN, Reason.FALSE_PREMISE, None)
    return None


def _unsupported(
    settings: FlowSettings, trace: _Trace, error: UnsupportedLanguageError, usable: tuple[int, ...]
) -> Decision:
    # No signal failed, the scorer works: a case of its own, with a route of its own.
    action = settings.on_unsupported_language
    if action is OnError.RAISE:
        raise error
    follows = action is OnError.FOLLOW_CONTEXT and settings.policy.may_follow
    route = Route.FOLLOW_CONTEXT if follows else Route.ABSTAIN
    return _decision(settings, trace, Verdict(route, Reason.UNSUPPORTED_LANGUAGE, None), usable)


def _read(question: object, passages: object) -> tuple[str, list[str]]:
    try:
        return question_text(question), passage_texts(passages)
    except QuestionError:
        raise
    except Exception as error:  # noqa: BLE001 - a caller's object may raise anything when read
        raise QuestionError(f"reading the input raised {type(error).__name__}") from None


def _memory(policy: Policy, trace: _Trace) -> str:
    # What the model says without being confident of it contradicts nothing.
    threshold, confidence = policy.confidence_threshold, trace.signals.confidence
    if threshold is None or confidence is None or confidence < threshold:
        return ""
    return trace.closed_book_answer or ""


def _take(
    settings: FlowSettings,
    trace: _Trace,
    name: SignalName,
    outcome: Sequence[float] | SetScore | Confidence | ConflictFinding | Answerability | bool,
    usable: tuple[int, ...],
) -> None:
    policy = settings.policy
    if isinstance(outcome, Confidence):
        trace.closed_book_answer = outcome.answer
        value = policy.confidence_calibrator.apply(outcome.value)
        trace.signals = trace.signals.with_value(name, value)
    elif isinstance(outcome, ConflictFinding):
        trace.views = outcome.at(usable).views
        trace.signals = trace.signals.with_value(name, outcome.counts(policy.conflict_between))
    elif isinstance(outcome, bool):
        trace.signals = trace.signals.with_value(name, outcome)
    elif not isinstance(outcome, Answerability):
        joint = outcome.joint if isinstance(outcome, SetScore) else None
        of_passages = outcome.scores if isinstance(outcome, SetScore) else outcome
        scores: list[float | None] = list(trace.scores)
        for index, score in zip(usable, of_passages, strict=True):
            scores[index] = score
        trace.scores = tuple(scores)
        raw = settings.aggregate(of_passages) if joint is None else joint
        trace.raw_relevance = finite_or_none(raw)
        value = policy.relevance_calibrator.apply(raw)
        trace.signals = trace.signals.with_value(name, value)


def _failed_names(trace: _Trace) -> tuple[str, ...]:
    names = {name.value for name in trace.signals.failed}
    if trace.premise_failed:
        names.add(SignalName.ANSWERABILITY.value)
    return tuple(sorted(names))


def _decision(
    settings: FlowSettings, trace: _Trace, verdict: Verdict, usable: tuple[int, ...]
) -> Decision:
    signals = trace.signals
    return Decision(
        route=verdict.route,
        reason=verdict.reason,
        scenario=verdict.scenario,
        relevance=signals.relevance,
        raw_relevance=trace.raw_relevance,
        confidence=signals.confidence,
        conflict=signals.conflict,
        answerability=trace.answerability,
        kept=usable if verdict.route is Route.FOLLOW_CONTEXT else (),
        scores=trace.scores,
        closed_book_answer=trace.closed_book_answer,
        views=trace.views,
        failed_signals=_failed_names(trace),
        mode=settings.mode,
        timings=trace.seconds,
    )


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
                hint="give one collection of passages per question",
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
        raise InputError(f"the {what} are one text", hint="give a list, one item per question")
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InputError(
            f"the {what} are a {type(values).__name__}", hint="give a list, one item per question"
        )
    return values if isinstance(values, list | tuple) else list(values)
