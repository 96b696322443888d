"""The flow of one question through the guard: vetoes first, then what the route depends on.

`decision_flow` is a generator without any input or output: it yields each measurement it needs
and is sent the outcome. The sync, async and batch forms of the guard only differ in how they
measure, so they cannot disagree on the decision.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ._signal import Signal, SignalSpans
from .decision import Decision, Found, Mode, OnError, Reason, Route, SignalName
from .errors import (
    InputTooLargeError,
    KnowgateError,
    PassageError,
    QuestionError,
    UnsupportedLanguageError,
)
from .routing import PolicyFields
from .text import Request, in_other_language

if TYPE_CHECKING:
    from ._routing_signals import RoutingSignal


import re
from collections.abc import Iterable

from ._signal import Veto
from .errors import InputError, PolicyError
from .routing import RouteChoice, Signals, decide_route, is_confident, next_signal

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Reasons of the guard that a bundled veto gives; no other reason of the guard may be one.
_VETO_REASONS = frozenset({Reason.FALSE_PREMISE, Reason.ANSWERABILITY_FAILED})
_RESERVED_NAMES = frozenset({*SignalName, "input", "language", "total"})
_MAX_VETOES = 16


@dataclass(frozen=True, slots=True)
class BoundVeto:
    """A veto with the threshold that the policy sets for it.

    Attributes:
        threshold: the guard abstains from this strength on (inclusive).
        reason: of the abstention.
        failure_reason: of an abstention because the veto could not be measured.
    """

    veto: Veto[Any]
    threshold: float
    reason: Reason | str
    failure_reason: Reason | str


def bound_vetoes(policy: PolicyFields, vetoes: Iterable[Veto[Any]]) -> tuple[BoundVeto, ...]:
    """The vetoes with their thresholds, those that cost least first.

    Raises:
        InputError: something is not a veto, or its name or reason cannot be used.
        FingerprintMismatchError: a veto is not the one that the policy is bound to.
        PolicyError: a veto is missing, or the policy is not bound to it.
    """
    if not isinstance(vetoes, Iterable):
        raise InputError("vetoes are not a collection", hint="pass vetoes=(veto,)")
    given: dict[str, Veto[Any]] = {}
    for veto in vetoes:
        _require_usable(veto)
        if veto.name in given:
            raise InputError(f"two vetoes are named {veto.name!r}", where="vetoes")
        given[veto.name] = veto
    bindings = {binding.name: binding for binding in policy.vetoes}
    if len(given) > _MAX_VETOES:
        raise InputError(f"{len(given)} vetoes", where="vetoes", hint=f"at most {_MAX_VETOES}")
    if unbound := sorted(set(given) - set(bindings)):
        raise PolicyError(
            f"the policy is not bound to the veto {', '.join(unbound)}",
            hint="bind it with policy.with_veto(veto, threshold=…)",
        )
    if missing := sorted(set(bindings) - set(given)):
        raise PolicyError(
            f"the policy needs the veto {', '.join(missing)}", hint="pass vetoes=(veto,)"
        )
    bound = []
    for name, veto in given.items():
        bindings[name].require(veto.fingerprint)
        bound.append(
            BoundVeto(
                veto, bindings[name].threshold, _reason(veto.reason), _reason(f"{name}_failed")
            )
        )
    return tuple(sorted(bound, key=lambda one: one.veto.cost))


def _reason(text: str) -> Reason | str:
    return Reason(text) if text in set(Reason) else text


def _require_usable(veto: object) -> None:
    if not isinstance(veto, Veto):
        raise InputError(
            f"a {type(veto).__name__} is not a veto", where="vetoes", hint="derive it from Veto"
        )
    # Both become metric labels, whose values must be few and plain.
    for what in ("name", "reason"):
        value = getattr(veto, what, None)
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            raise InputError(
                f"the {what} of a {type(veto).__name__} is {value!r}",
                where="vetoes",
                hint="use at most 40 lower-case letters, digits and underscores",
            )
    taken = veto.name in _RESERVED_NAMES
    if taken or (veto.reason in set(Reason) and veto.reason not in _VETO_REASONS):
        raise InputError(
            f"the {'name' if taken else 'reason'} of a {type(veto).__name__} is taken",
            where="vetoes",
            hint="choose another one",
        )


# -- the flow of one question ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measure:
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
Flow = Generator[Measure, Outcome, Decision]


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

    def apply_veto(self, bound: BoundVeto, outcome: Outcome) -> RouteChoice | None:
        """The choice that a veto leads to; None where the other signals decide."""
        veto = bound.veto
        value, self.seconds[veto.name] = outcome
        if isinstance(value, Failure):
            action = self.settings.on_error[veto.name]
            if action is OnError.RAISE:
                raise value.error
            self.failed_vetoes.add(veto.name)
            follows = action is OnError.FOLLOW_CONTEXT
            return None if follows else RouteChoice(Route.ABSTAIN, bound.failure_reason, None)
        for name, found in veto.decision_fields(value, self.request).items():
            # Several vetoes add to one mapping.
            both = isinstance(found, dict) and name in self.fields
            self.fields[name] = self.fields[name] | found if both else found
        if veto.strength(value) < bound.threshold:
            return None
        return RouteChoice(Route.ABSTAIN, bound.reason, None)

    def apply_signal(self, name: SignalName, outcome: Outcome) -> RouteChoice | None:
        """Record a routing signal; return the choice if its failure decides."""
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
            return RouteChoice(route, Reason.UNSUPPORTED_LANGUAGE, None)
        reason = Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT
        return RouteChoice(Route.FOLLOW_CONTEXT, reason, None) if follows else None

    def request_for(self, name: SignalName) -> Request:
        """The request with the closed-book answer, for conflict."""
        answer = self.fields.get("closed_book_answer")
        # An answer that the model is not confident of contradicts nothing.
        if (
            name is SignalName.CONFLICT
            and answer
            and is_confident(self.settings.policy, self.signals)
        ):
            return replace(self.request, closed_book_answer=answer)
        return self.request

    def explained(self, choice: RouteChoice) -> RouteChoice:
        """The same route, with the reason that it is another language where it is."""
        if choice.reason is not Reason.INSUFFICIENT_CONTEXT:
            return choice
        asked = self.request
        other = in_other_language(asked.question, asked.passages)
        return replace(choice, reason=Reason.OTHER_LANGUAGE) if other else choice

    def decision(self, choice: RouteChoice) -> Decision:
        """The decision under `choice`."""
        follows = choice.route is Route.FOLLOW_CONTEXT
        failed = {name.value for name in self.signals.failed} | self.failed_vetoes
        return Decision(
            route=choice.route,
            reason=choice.reason,
            scenario=choice.scenario,
            relevance=self.signals.relevance,
            confidence=self.signals.confidence,
            conflict=self.signals.conflict,
            kept=self._kept() if follows else (),
            found=self._found() if choice.route is Route.ABSTAIN else None,
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
        return unread.decision(RouteChoice(Route.ABSTAIN, unread_reason(request), None))
    flow = _Flow(settings, request)
    if not request.passages:
        flow.signals = Signals(relevance=0.0, nothing_retrieved=True)
    # A policy that can only abstain needs no veto.
    vetoes = settings.vetoes if settings.vetoes and next_signal(policy, flow.signals) else ()
    for bound in vetoes:
        if request.passages or not bound.veto.needs_passages:
            choice = flow.apply_veto(bound, (yield Measure(bound.veto, request, span)))
            if choice is not None:
                return flow.decision(choice)
    while (name := next_signal(policy, flow.signals)) is not None:
        outcome = yield Measure(settings.signals[name], flow.request_for(name), span)
        choice = flow.apply_signal(name, outcome)
        if choice is not None:
            return flow.decision(choice)
    return flow.decision(flow.explained(decide_route(policy, flow.signals)))
