"""Route one question: which signal to measure next, and which route follows.

    vetoes ─► relevance ─┬─ ≥ τ_r ─► (conflict, if asked for) ─► follow_context, or abstain
                         └─ < τ_r ─► confidence ─┬─ ≥ τ_p and allowed ─► answer, no context
                                                 └─ otherwise ─► abstain

`next_signal` and `decide_route` are pure functions of policy and signals: the first names
the signal that the decision still depends on, so that no costlier one is measured than
needed; the second decides once there is none. `decision_flow` is a generator around them
without any input or output: it yields each measurement it needs and is sent the outcome.
The sync, async and batch forms of the guard only differ in how they measure, so they
cannot disagree on the decision.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._language import in_other_language
from ._policy_fields import PolicyFields, finite_or_none
from ._signal import Request, Signal, SignalSpans
from .decision import Decision, Found, Mode, OnError, Reason, Route, Scenario, SignalName
from .errors import (
    InputError,
    InputTooLargeError,
    KnowgateError,
    PassageError,
    QuestionError,
    UnsupportedLanguageError,
)
from .text import InputLimits

if TYPE_CHECKING:
    from ._routing_signals import RoutingSignal
    from ._vetoes import BoundVeto

__all__ = [
    "Signals",
    "decide_route",
]


@dataclass(frozen=True, slots=True)
class Signals:
    """Calibrated signals as far as they were measured.

    Attributes:
        relevance: in [0, 1], None when not measured or failed.
        confidence: in [0, 1], None when not measured or failed.
        conflict: True when answers differ that the policy compares.
        failed: signals that were asked for and could not be measured.
        nothing_retrieved: there was no passage to judge; relevance is then 0.
    """

    relevance: float | None = None
    confidence: float | None = None
    conflict: bool | None = None
    failed: frozenset[SignalName] = frozenset()
    nothing_retrieved: bool = False

    @classmethod
    def replay(
        cls,
        policy: PolicyFields,
        relevance: float | None,
        confidence: float | None,
        conflict: bool | None = None,
        *,
        nothing_retrieved: bool = False,
    ) -> Signals:
        """The signals a guard would have measured, given what each would have said.

        A signal that the policy asks for and that is None or not finite counts
        as failed; one that it does not ask for is left out.
        """
        available = {
            SignalName.RELEVANCE: finite_or_none(relevance),
            SignalName.CONFIDENCE: finite_or_none(confidence),
            SignalName.CONFLICT: conflict,
        }
        signals = cls(0.0 if nothing_retrieved else None, nothing_retrieved=nothing_retrieved)
        while (name := next_signal(policy, signals)) is not None:
            signals = signals.with_value(name, available[name])
        return signals

    def with_value(self, name: SignalName, value: float | bool | None) -> Signals:
        """A copy in which `name` has `value`, or has failed where `value` is None."""
        # Not by `replace`, which takes longer than all else here; a decision calls this often.
        relevance, confidence, conflict = self.relevance, self.confidence, self.conflict
        failed = self.failed
        if value is None:
            failed |= {name}
        elif name is SignalName.RELEVANCE:
            relevance = float(value)
        elif name is SignalName.CONFIDENCE:
            confidence = float(value)
        else:
            conflict = bool(value)
        return Signals(relevance, confidence, conflict, failed, self.nothing_retrieved)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a question goes, and why."""

    route: Route
    reason: Reason | str
    scenario: Scenario | None


def next_signal(policy: PolicyFields, signals: Signals) -> SignalName | None:
    """The signal to measure next, or None when the decision is fixed."""
    if signals.failed or not (policy.may_follow or policy.may_answer):
        return None
    if policy.may_follow and signals.relevance is None:
        return SignalName.RELEVANCE
    if not _sufficient(policy, signals):
        wanted = policy.may_answer and signals.confidence is None
        return SignalName.CONFIDENCE if wanted else None
    if not policy.check_conflict:
        return None
    if policy.conflict_with_memory and signals.confidence is None:
        return SignalName.CONFIDENCE
    # Passages can contradict each other whatever the model itself knows.
    wanted = policy.conflict_between != "memory" or _confident(policy, signals)
    return SignalName.CONFLICT if wanted and signals.conflict is None else None


def decide_route(policy: PolicyFields, signals: Signals) -> Verdict:
    """The verdict for `signals` for which `next_signal` is None."""
    if not (policy.may_follow or policy.may_answer):
        return Verdict(Route.ABSTAIN, Reason.NO_THRESHOLD, None)
    for name, reason in _FAILURES.items():
        if name in signals.failed:
            return Verdict(Route.ABSTAIN, reason, None)
    if _sufficient(policy, signals):
        return _with_context(policy, signals)
    if policy.may_answer and _confident(policy, signals):
        return Verdict(Route.ANSWER, Reason.CONFIDENT_MEMORY, Scenario.PARAMETRIC_ONLY)
    scenario = None if signals.confidence is None else Scenario.UNKNOWN
    if signals.nothing_retrieved:
        return Verdict(Route.ABSTAIN, Reason.NOTHING_RETRIEVED, scenario)
    if policy.may_answer:
        return Verdict(Route.ABSTAIN, Reason.NEITHER_KNOWS, scenario)
    return Verdict(Route.ABSTAIN, Reason.INSUFFICIENT_CONTEXT, scenario)


_FAILURES = {
    SignalName.RELEVANCE: Reason.RELEVANCE_FAILED,
    SignalName.CONFIDENCE: Reason.CONFIDENCE_FAILED,
    SignalName.CONFLICT: Reason.CONFLICT_FAILED,
}


def _with_context(policy: PolicyFields, signals: Signals) -> Verdict:
    scenario = _scenario_with_context(policy, signals)
    if not signals.conflict:
        return Verdict(Route.FOLLOW_CONTEXT, Reason.SUFFICIENT_CONTEXT, scenario)
    if policy.on_conflict == "abstain":
        return Verdict(Route.ABSTAIN, Reason.CONFLICT, scenario)
    if policy.on_conflict == "show_both":
        return Verdict(Route.FOLLOW_CONTEXT, Reason.CONFLICT_SHOWS_BOTH, scenario)
    return Verdict(Route.FOLLOW_CONTEXT, Reason.CONFLICT_FOLLOWS_CONTEXT, scenario)


def _scenario_with_context(policy: PolicyFields, signals: Signals) -> Scenario | None:
    if signals.confidence is None or policy.confidence_threshold is None:
        # Whether the model knows it too was not asked: three scenarios are possible.
        return None
    if not _confident(policy, signals):
        return Scenario.EXTERNAL_ONLY
    if signals.conflict is None:
        return None
    # Of two passages that differ, one at least differs from what the model says.
    return Scenario.CONFLICT if signals.conflict else Scenario.AGREEMENT


def _sufficient(policy: PolicyFields, signals: Signals) -> bool:
    threshold = policy.relevance_threshold
    return (
        policy.may_follow
        and threshold is not None
        and signals.relevance is not None
        and not signals.nothing_retrieved
        and signals.relevance >= threshold
    )


def _confident(policy: PolicyFields, signals: Signals) -> bool:
    threshold = policy.confidence_threshold
    return (
        threshold is not None and signals.confidence is not None and signals.confidence >= threshold
    )


# -- the flow of one question ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Need:
    """A signal to be measured for one question.

    Attributes:
        span: of the decision, under which that of the signal begins; None without tracing.
    """

    signal: Signal[Any]
    request: Request
    span: SignalSpans | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a measurement that failed."""

    error: KnowgateError


# A checked value or a `Failure`, and the seconds that it took.
Outcome = tuple[Any, float]
Flow = Generator[Need, Outcome, Decision]


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What all flows of one guard share.

    Attributes:
        signals: those that decide the route.
        vetoes: with their thresholds, in the order in which they are measured.
        on_error: signal name → action; also for `input` and `language`.
    """

    policy: PolicyFields
    signals: Mapping[SignalName, RoutingSignal[Any]]
    vetoes: tuple[BoundVeto, ...]
    on_error: Mapping[str, OnError]
    mode: Mode


@dataclass(slots=True)
class _Flow:
    """What was measured for one question; lives in the generator's locals only."""

    settings: FlowSettings
    request: Request
    signals: Signals = field(default_factory=Signals)
    fields: dict[str, Any] = field(default_factory=dict)
    failed_vetoes: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)

    def apply_veto(self, bound: BoundVeto, outcome: Outcome) -> Verdict | None:
        """The verdict that a veto leads to; None where the other signals decide."""
        veto = bound.veto
        value, self.seconds[veto.name] = outcome
        if isinstance(value, Failure):
            action = self.settings.on_error[veto.name]
            if action is OnError.RAISE:
                raise value.error
            self.failed_vetoes.add(veto.name)
            follows = action is OnError.FOLLOW_CONTEXT
            return None if follows else Verdict(Route.ABSTAIN, bound.failure_reason, None)
        for name, found in veto.decision_fields(value, self.request).items():
            # Several vetoes add to one mapping.
            both = isinstance(found, dict) and name in self.fields
            self.fields[name] = self.fields[name] | found if both else found
        if veto.strength(value) < bound.threshold:
            return None
        return Verdict(Route.ABSTAIN, bound.reason, None)

    def apply_signal(self, name: SignalName, outcome: Outcome) -> Verdict | None:
        """Record a routing signal; return the verdict if its failure decides."""
        settings, policy = self.settings, self.settings.policy
        value, self.seconds[name.value] = outcome
        if not isinstance(value, Failure):
            signal = settings.signals[name]
            self.fields.update(signal.decision_fields(value, self.request))
            self.signals = self.signals.with_value(name, signal.level(value))
            return None
        # In an unknown language no signal failed: the scorer works, and has its own action.
        unsupported = isinstance(value.error, UnsupportedLanguageError)
        action = settings.on_error["language" if unsupported else name.value]
        if action is OnError.RAISE:
            raise value.error
        if not unsupported:
            self.signals = self.signals.with_value(name, None)
        follows = action is OnError.FOLLOW_CONTEXT and policy.may_follow and self.request.passages
        if unsupported:
            route = Route.FOLLOW_CONTEXT if follows else Route.ABSTAIN
            return Verdict(route, Reason.UNSUPPORTED_LANGUAGE, None)
        reason = Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT
        return Verdict(Route.FOLLOW_CONTEXT, reason, None) if follows else None

    def request_for(self, name: SignalName) -> Request:
        """The request with the closed-book answer, for conflict."""
        answer = self.fields.get("closed_book_answer")
        # An answer that the model is not confident of contradicts nothing.
        if (
            name is SignalName.CONFLICT
            and answer
            and _confident(self.settings.policy, self.signals)
        ):
            return replace(self.request, closed_book_answer=answer)
        return self.request

    def explained(self, verdict: Verdict) -> Verdict:
        """The same route, with the reason that it is another language where it is."""
        if verdict.reason is not Reason.INSUFFICIENT_CONTEXT:
            return verdict
        asked = self.request
        other = in_other_language(asked.question, asked.passages)
        return replace(verdict, reason=Reason.OTHER_LANGUAGE) if other else verdict

    def decision(self, verdict: Verdict) -> Decision:
        """The decision under `verdict`."""
        follows = verdict.route is Route.FOLLOW_CONTEXT
        failed = {name.value for name in self.signals.failed} | self.failed_vetoes
        return Decision(
            route=verdict.route,
            reason=verdict.reason,
            scenario=verdict.scenario,
            relevance=self.signals.relevance,
            confidence=self.signals.confidence,
            conflict=self.signals.conflict,
            kept=self._kept() if follows else (),
            found=self._found() if verdict.route is Route.ABSTAIN else None,
            failed_signals=tuple(sorted(failed)),
            mode=self.settings.mode,
            timings=self.seconds,
            **({"scores": (None,) * self.request.given} | self.fields),
        )

    def _kept(self) -> tuple[int, ...]:
        """Positions of the passages that belong into the prompt."""
        positions = self.request.positions
        policy = self.settings.policy
        if policy.kept_margin is None or self.signals.conflict:
            return positions  # the views of a conflict speak of all of them
        return tuple(positions[i] for i in policy.kept(self._scores()))

    def _found(self) -> Found | None:
        """The passages of a question that is not answered, nearest first."""
        documents, scores = self.request.documents, self._scores()
        if not documents:
            return None
        # Ties, and passages that were not scored, stay in the order given.
        ranks = [-math.inf if score is None else score for score in scores]
        order = sorted(range(len(documents)), key=lambda i: -ranks[i])
        return Found(
            documents=tuple(documents[i] for i in order), scores=tuple(scores[i] for i in order)
        )

    def _scores(self) -> list[float | None]:
        """The raw score of each passage that has text; None where it was not measured."""
        scores = self.fields.get("scores")
        return [None if scores is None else scores[i] for i in self.request.positions]


def unread_reason(error: QuestionError) -> Reason:
    """The reason of an abstention because the input could not be read."""
    if isinstance(error, InputTooLargeError):
        return Reason.INPUT_TOO_LARGE
    return Reason.INVALID_PASSAGES if isinstance(error, PassageError) else Reason.INVALID_INPUT


def decision_flow(
    settings: FlowSettings, request: Request | QuestionError, span: SignalSpans | None = None
) -> Flow:
    """Decide one question: yield measurements, receive outcomes, return the decision.

    Args:
        settings: of the guard.
        request: what was asked, or why it could not be read.
        span: of the decision, handed on with each need.

    Raises:
        KnowgateError: a signal failed, or the input is unreadable, and the guard
            was told to raise then.
    """
    policy = settings.policy
    if isinstance(request, QuestionError):
        if settings.on_error["input"] is OnError.RAISE:
            raise request
        unread = _Flow(settings, Request(""))
        return unread.decision(Verdict(Route.ABSTAIN, unread_reason(request), None))
    flow = _Flow(settings, request)
    if not request.passages:
        flow.signals = Signals(relevance=0.0, nothing_retrieved=True)
    # A policy that can only abstain needs no veto.
    vetoes = settings.vetoes if settings.vetoes and next_signal(policy, flow.signals) else ()
    for bound in vetoes:
        if request.passages or not bound.veto.needs_passages:
            verdict = flow.apply_veto(bound, (yield Need(bound.veto, request, span)))
            if verdict is not None:
                return flow.decision(verdict)
    while (name := next_signal(policy, flow.signals)) is not None:
        outcome = yield Need(settings.signals[name], flow.request_for(name), span)
        verdict = flow.apply_signal(name, outcome)
        if verdict is not None:
            return flow.decision(verdict)
    return flow.decision(flow.explained(decide_route(policy, flow.signals)))


# -- reading --------------------------------------------------------------------------


def read_request(
    question: object, passages: object, limits: InputLimits
) -> Request | QuestionError:
    """The request, or why there is none; nothing that a caller passes raises here."""
    try:
        text = limits.read_question(question)
        given, texts = limits.read_passages(passages)
    except QuestionError as error:
        return error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a caller's object may raise anything when read
        return QuestionError(f"reading the input raised {type(error).__name__}")
    kept = tuple(index for index, found in enumerate(texts) if found and not found.isspace())
    return Request(
        question=text,
        passages=tuple(texts[index] for index in kept),
        documents=tuple(given[index] for index in kept),
        positions=kept,
        given=len(given),
    )


def read_requests(
    questions: Iterable[object], passages: Iterable[object], limits: InputLimits
) -> list[Request | QuestionError]:
    """As `read_request`, for many questions with one collection of passages each.

    Raises:
        InputError: one of the two is no collection, they differ in length, or there are more
            questions than `limits` allow.
    """
    asked = _listed(questions, "questions", limits)
    found = _listed(passages, "passages", limits)
    if len(asked) != len(found):
        raise InputError(
            f"{len(asked)} questions but {len(found)} collections of passages",
            hint="give one collection of passages per question",
        )
    return [read_request(one, its, limits) for one, its in zip(asked, found, strict=True)]


def _listed(values: Any, what: str, limits: InputLimits) -> Sequence[Any]:
    if isinstance(values, str | bytes):
        raise InputError(f"the {what} are one text", hint="give a list, one item per question")
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InputError(
            f"the {what} are a {type(values).__name__}", hint="give a list, one item per question"
        )
    found: Sequence[Any]
    if isinstance(values, list | tuple):
        found = values
    else:
        found = list(islice(values, limits.questions + 1))
    if len(found) > limits.questions:
        raise InputError(
            f"more than {limits.questions} questions in one batch",
            hint="see questions in knowgate.guard.InputLimits",
        )
    return found
