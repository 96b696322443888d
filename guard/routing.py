"""Route one question: which signal to measure next, and which route follows.

    vetoes ─► relevance ─┬─ ≥ τ_r ─► (conflict, if asked for) ─► follow_context, or abstain
                         └─ < τ_r ─► confidence ─┬─ ≥ τ_p and allowed ─► answer, no context
                                                 └─ otherwise ─► abstain

`next_signal` and `decide_route` are pure functions of a policy's fields and signals: the first
names the signal that the decision still depends on, so that no costlier one is measured than
needed; the second decides once there is none. `decision_flow` is a generator around them: it
yields each measurement that it needs and is sent the outcome. The sync, async and batch forms of
the guard only differ in how they measure, so they cannot disagree on the decision.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, FiniteFloat, model_validator

from .artefacts import (
    Guarantee,
    Histogram,
    Probability,
    Retrieval,
    SupportPolicy,
    VetoBinding,
    require_fingerprint,
)
from .contracts import ConflictBetween, finite_or_none
from .decision import Decision, Found, Mode, OnError, Reason, Route, Scenario, SignalName
from .errors import KnowgateError, PolicyError, QuestionError, UnsupportedLanguageError
from .fingerprint import Artefact, Fingerprint, aggregator, misfit
from .text import Request, in_other_language

if TYPE_CHECKING:
    from ._signal import Signal, Veto

SCHEMA_VERSION = 1
# Of the questions of a calibration, the largest share that programs may have made without the
# policy being called `generated`.
MOST_GENERATED = 0.1
PolicyState = Literal["true", "false", "changed", "costs", "generated"]


class IdentityCalibrator(Artefact):
    """The score itself, clipped to [0, 1]."""

    kind: Literal["identity"] = "identity"

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return min(1.0, max(0.0, score))


class PlattCalibrator(Artefact):
    """Logistic curve `1 / (1 + exp(-(a·score + b)))`.

    Source: Platt 1999, Probabilistic outputs for support vector machines.

    Example:
        >>> PlattCalibrator(a=2.0, b=-1.0).apply(0.5)
        0.5
    """

    kind: Literal["platt"] = "platt"
    a: FiniteFloat = Field(gt=0)
    b: FiniteFloat

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return _sigmoid(self.a * score + self.b)


class TemperatureCalibrator(Artefact):
    """A probability whose log-odds are divided by a temperature.

    Source: Guo et al. 2017, On calibration of modern neural networks.
    """

    kind: Literal["temperature"] = "temperature"
    temperature: FiniteFloat = Field(gt=0)

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a `score` that is a probability itself."""
        p = min(1.0, max(0.0, score))
        if p in (0.0, 1.0):
            return p
        return _sigmoid(math.log(p / (1.0 - p)) / self.temperature)


class StepCalibrator(Artefact):
    """A non-decreasing step table, as isotonic regression and Venn–Abers give.

    Attributes:
        edges: strictly increasing scores at which the next value begins.
        values: probabilities, one more than `edges`.

    Example:
        >>> StepCalibrator(edges=(0.5,), values=(0.1, 0.8)).apply(0.5)
        0.8
    """

    kind: Literal["step"] = "step"
    edges: tuple[FiniteFloat, ...]
    values: tuple[Probability, ...]

    @model_validator(mode="after")
    def _monotone(self) -> StepCalibrator:
        if len(self.values) != len(self.edges) + 1:
            raise ValueError("values must be one longer than edges")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        if any(b < a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise ValueError("values must not decrease")
        return self

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return self.values[bisect_right(self.edges, score)]


Calibrator = Annotated[
    IdentityCalibrator | PlattCalibrator | TemperatureCalibrator | StepCalibrator,
    Field(discriminator="kind"),
]


def _sigmoid(x: float) -> float:
    # One formula nearly everywhere: it is non-decreasing to the last bit, which e / (1 + e) is
    # not. Far out, where exp(-x) would overflow, the 1 is lost in it anyway.
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else math.exp(x)


class PolicyFields(Artefact):
    """The fields of a policy; see `Policy`."""

    LEFT_OUT = ("changed", "generated", "vetoes", "note", "kept_margin", "retrieval", "support")

    schema_version: int = SCHEMA_VERSION
    created_by: str = ""
    scorer: Fingerprint
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    relevance_calibrator: Calibrator = Field(default_factory=IdentityCalibrator)
    confidence_calibrator: Calibrator = Field(default_factory=IdentityCalibrator)
    relevance_threshold: Probability | None
    confidence_threshold: Probability | None = None
    allowed_routes: tuple[Route, ...] = (Route.FOLLOW_CONTEXT, Route.ABSTAIN)
    check_conflict: bool = False
    conflict_between: ConflictBetween = "memory"
    on_conflict: Literal["follow_context", "show_both", "abstain"] = "follow_context"
    guarantee: Guarantee | None = None
    calibration_set_sha256: str | None = None
    histograms: dict[str, Histogram] = Field(default_factory=dict)
    vetoes: tuple[VetoBinding, ...] = ()
    note: str = ""
    changed: bool = False
    kept_margin: Annotated[FiniteFloat, Field(ge=0)] | None = None
    retrieval: Retrieval | None = None
    generated: Probability = 0.0
    support: SupportPolicy | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PolicyFields:
        aggregator(self.aggregator)
        if len({veto.name for veto in self.vetoes}) < len(self.vetoes):
            raise ValueError("two vetoes have the same name")
        if self.conflict_with_memory and self.confidence_threshold is None:
            raise ValueError(
                "check_conflict needs a confidence_threshold: a conflict is one only where "
                'the model itself is confident (or conflict_between "passages")'
            )
        if self.may_follow and (
            why := misfit(self.scorer, self.aggregator, self.relevance_calibrator.kind)
        ):
            raise PolicyError(why, hint="write it with Policy.for_scorer, or calibrate one")
        if self.guarantee is not None and not self.guarantee.certified and self.may_follow:
            raise ValueError(
                "the guarantee says that no threshold was certified, so relevance_threshold "
                "must be null (or the guarantee, for a policy of your own)"
            )
        return self

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted on a calibration set, rather than written by hand."""
        return self.guarantee is not None or self.calibration_set_sha256 is not None

    @property
    def rests_on_generated(self) -> bool:
        """Whether programs made more than a tenth of the questions it was calibrated on."""
        return self.generated > MOST_GENERATED

    @property
    def state(self) -> PolicyState:
        """Value of the metric label `calibrated`; `costs`: fitted, and nothing is guaranteed."""
        if self.changed:
            return "changed"
        if not self.calibrated:
            return "false"
        if self.rests_on_generated:
            return "generated"
        return "costs" if self.guarantee is None else "true"

    @property
    def may_follow(self) -> bool:
        """Whether any context can be followed under this policy."""
        return self.relevance_threshold is not None and Route.FOLLOW_CONTEXT in self.allowed_routes

    @property
    def may_answer(self) -> bool:
        """Whether the model may ever answer from its own knowledge."""
        return self.confidence_threshold is not None and Route.ANSWER in self.allowed_routes

    @property
    def needs_estimator(self) -> bool:
        """Whether serving this policy can ask for confidence."""
        return self.may_answer or (self.conflict_with_memory and self.may_follow)

    @property
    def conflict_with_memory(self) -> bool:
        """Whether the model's own answer takes part in the look for a conflict."""
        return self.check_conflict and self.conflict_between != "passages"

    def require_scorer(self, fingerprint: Fingerprint) -> None:
        """Reject a scorer other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        what = "scorer it was calibrated on (one in a folder by its path: `--scorer DIR`, "
        what += "`scorer=load_scorer(DIR)`)"
        hint = f"use the {what}, or calibrate this one with `knowgate calibrate`"
        require_fingerprint(self.scorer, fingerprint, "scorer", hint)

    def require_estimator(self, fingerprint: Fingerprint) -> None:
        """Reject an estimator other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        if self.estimator is not None:
            what = "confidence estimator"
            hint = f"use the {what} it was calibrated on, or run `knowgate calibrate` with this one"
            require_fingerprint(self.estimator, fingerprint, what, hint)

    def kept(self, scores: Sequence[float | None]) -> list[int]:
        """Indices of the passages that bear on the question by their own raw scores.

        Args:
            scores: of the passages; None for one that was not scored, which is left out
                where others were scored.

        Returns:
            All indices where the policy has no `kept_margin`, or nothing was scored. A passage
            that would be followed if it were the only one is always kept; and what lies far
            below the best is held against the second best where there are three or more, so
            that one passage alone, whoever wrote it, pushes no other out of the prompt.
        """
        known = [score for score in scores if score is not None]
        if self.kept_margin is None or not known:
            return list(range(len(scores)))
        least, margin = kept_reference(known), self.kept_margin
        passes, calibrate = self.relevance_threshold, self.relevance_calibrator.apply
        # As `Policy.kept_margin_of` computes it, to the last bit.
        return [
            i
            for i, score in enumerate(scores)
            if score is not None
            and (least - score <= margin or (passes is not None and calibrate(score) >= passes))
        ]


def kept_reference(scores: Sequence[float]) -> float:
    """The score that others are held against: the second best of three or more, or the best.

    Equal scores count once: a text that was retrieved twice is one.

    Example:
        >>> kept_reference([3.0, 1.0, 0.5]), kept_reference([3.0, 3.0, 1.0])
        (1.0, 3.0)
    """
    different = sorted(set(scores))
    return different[-2] if len(different) > 2 else different[-1]


__all__ = ["decide_route"]


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
class RouteChoice:
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
    wanted = policy.conflict_between != "memory" or is_confident(policy, signals)
    return SignalName.CONFLICT if wanted and signals.conflict is None else None


def decide_route(policy: PolicyFields, signals: Signals) -> RouteChoice:
    """The verdict for `signals` for which `next_signal` is None."""
    if not (policy.may_follow or policy.may_answer):
        return RouteChoice(Route.ABSTAIN, Reason.NO_THRESHOLD, None)
    for name in SignalName:
        if name in signals.failed:
            return RouteChoice(Route.ABSTAIN, Reason(f"{name.value}_failed"), None)
    if _sufficient(policy, signals):
        return _with_context(policy, signals)
    if policy.may_answer and is_confident(policy, signals):
        return RouteChoice(Route.ANSWER, Reason.CONFIDENT_MEMORY, Scenario.PARAMETRIC_ONLY)
    scenario = None if signals.confidence is None else Scenario.UNKNOWN
    if signals.nothing_retrieved:
        return RouteChoice(Route.ABSTAIN, Reason.NOTHING_RETRIEVED, scenario)
    if policy.may_answer:
        return RouteChoice(Route.ABSTAIN, Reason.NEITHER_KNOWS, scenario)
    return RouteChoice(Route.ABSTAIN, Reason.INSUFFICIENT_CONTEXT, scenario)


def _with_context(policy: PolicyFields, signals: Signals) -> RouteChoice:
    scenario: Scenario | None = None
    # Whether the model knows it too was not asked otherwise: three scenarios are possible.
    if signals.confidence is not None and policy.confidence_threshold is not None:
        if not is_confident(policy, signals):
            scenario = Scenario.EXTERNAL_ONLY
        elif signals.conflict is not None:
            # Of two passages that differ, one at least differs from what the model says.
            scenario = Scenario.CONFLICT if signals.conflict else Scenario.AGREEMENT
    if not signals.conflict:
        return RouteChoice(Route.FOLLOW_CONTEXT, Reason.SUFFICIENT_CONTEXT, scenario)
    if policy.on_conflict == "abstain":
        return RouteChoice(Route.ABSTAIN, Reason.CONFLICT, scenario)
    shows = policy.on_conflict == "show_both"
    reason = Reason.CONFLICT_SHOWS_BOTH if shows else Reason.CONFLICT_FOLLOWS_CONTEXT
    return RouteChoice(Route.FOLLOW_CONTEXT, reason, scenario)


def _sufficient(policy: PolicyFields, signals: Signals) -> bool:
    threshold, relevance = policy.relevance_threshold, signals.relevance
    if not policy.may_follow or threshold is None or relevance is None:
        return False
    return relevance >= threshold and not signals.nothing_retrieved


def is_confident(policy: PolicyFields, signals: Signals) -> bool:
    threshold, confidence = policy.confidence_threshold, signals.confidence
    return threshold is not None and confidence is not None and confidence >= threshold


# -- the flow of one question ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measure:
    """A signal to be measured for one question.

    Attributes:
        span: the `DecisionSpan` under which that of the signal begins; None without tracing.
    """

    signal: Signal[Any]
    request: Request
    span: Any = None


# What a generator yields, what it is sent, and what it returns.
_Asked = TypeVar("_Asked")
_Sent = TypeVar("_Sent")
_Returned = TypeVar("_Returned")
# Sends an answer to the flow of a number; an error is raised in it.
Send = Callable[[int, _Sent | KnowgateError], None]


def at_once(body: Coroutine[Any, Any, _Returned]) -> _Returned:
    """What a coroutine returns that waits for nothing, without an event loop."""
    try:
        body.send(None)
    except StopIteration as stop:
        found: _Returned = stop.value
        return found
    raise RuntimeError("the sync form of a call waits for an event loop")


async def adrive(
    flow: Generator[_Asked, _Sent, _Returned], answer: Callable[[_Asked], Awaitable[_Sent]]
) -> _Returned:
    """What `flow` returns, when it is sent the answer to everything it yields."""
    try:
        asked = next(flow)
        while True:
            asked = flow.send(await answer(asked))
    except StopIteration as stop:
        found: _Returned = stop.value
        return found


async def adrive_all(
    flows: Sequence[Generator[_Asked, _Sent, _Returned]],
    answer: Callable[[dict[int, _Asked], Send[_Sent]], Awaitable[None]],
    *,
    raising: bool = False,
) -> list[_Returned | KnowgateError]:
    """What each of `flows` returns, or its error, when all are sent their answers in step.

    `answer` sends each flow, which nobody has begun, by its number the answer to what it asks. With
    `raising` the first error is raised, rather than returned in its place.
    """
    found: dict[int, _Returned | KnowgateError] = {}
    asked: dict[int, _Asked] = {}

    def send(number: int, one: _Sent | KnowgateError | None) -> None:
        flow, failed = flows[number], isinstance(one, KnowgateError)
        try:
            # Sending None starts a flow.
            asked[number] = flow.throw(one) if failed else flow.send(one)  # type: ignore[arg-type]
        except StopIteration as stop:
            found[number] = stop.value
        except KnowgateError as error:
            if raising:
                raise
            found[number] = error

    for number in range(len(flows)):
        send(number, None)
    while asked:
        waiting, asked = asked, {}
        await answer(waiting, send)
    return [found[number] for number in range(len(flows))]


# What a signal reads of a checked value, or its error, and the seconds that it took.
Outcome = tuple[Any, float]
Flow = Generator[Measure, Outcome, Decision]


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What all flows of one guard share.

    Attributes:
        signals: those that decide the route.
        vetoes: with their thresholds and reasons, in the order in which they are measured.
        on_error: signal name → action; also for `input` and `language`.
    """

    policy: PolicyFields
    signals: Mapping[SignalName, Signal[Any]]
    vetoes: tuple[tuple[Veto[Any], float, str], ...]
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

    def apply_veto(
        self, veto: tuple[Veto[Any], float, str], outcome: Outcome
    ) -> RouteChoice | None:
        """The choice that a veto leads to; None where the other signals decide."""
        signal, threshold, reason = veto
        name = signal.name
        value, self.seconds[name] = outcome
        if isinstance(value, KnowgateError):
            action = self.settings.on_error[name]
            if action is OnError.RAISE:
                raise value
            self.failed_vetoes.add(name)
            follows = action is OnError.FOLLOW_CONTEXT
            return None if follows else RouteChoice(Route.ABSTAIN, f"{name}_failed", None)
        strength, fields = value
        for field_name, found in fields.items():
            # Several vetoes add to one mapping.
            both = isinstance(found, dict) and field_name in self.fields
            self.fields[field_name] = self.fields[field_name] | found if both else found
        if strength < threshold:
            return None
        return RouteChoice(Route.ABSTAIN, reason, None)

    def apply_signal(self, name: SignalName, outcome: Outcome) -> RouteChoice | None:
        """Record a routing signal; return the choice if its failure decides."""
        settings, policy = self.settings, self.settings.policy
        value, self.seconds[name.value] = outcome
        if not isinstance(value, KnowgateError):
            level, fields = value
            self.fields.update(fields)
            self.signals = self.signals.with_value(name, level)
            return None
        # In an unknown language no signal failed: the scorer works, and has its own action.
        unsupported = isinstance(value, UnsupportedLanguageError)
        action = settings.on_error["language" if unsupported else name.value]
        if action is OnError.RAISE:
            raise value
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
        confident = is_confident(self.settings.policy, self.signals)
        if not answer or name is not SignalName.CONFLICT or not confident:
            return self.request
        return replace(self.request, closed_book_answer=answer)

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
            # The views of a conflict speak of all of them.
            return positions
        return tuple(positions[i] for i in policy.kept(self._scores()))

    def _found(self) -> Found | None:
        """The passages of a question that is not answered, nearest first."""
        documents, scores = self.request.documents, self._scores()
        if not documents:
            return None
        # Ties, and passages that were not scored, stay in the order given.
        ranks = [-math.inf if score is None else score for score in scores]
        order = sorted(range(len(documents)), key=lambda i: -ranks[i])
        nearest = tuple(documents[i] for i in order)
        return Found(documents=nearest, scores=tuple(scores[i] for i in order))

    def _scores(self) -> list[float | None]:
        """The raw score of each passage that has text; None where it was not measured."""
        scores = self.fields.get("scores")
        return [None if scores is None else scores[i] for i in self.request.positions]


def decision_flow(
    settings: FlowSettings,
    request: Request | QuestionError,
    span: Any = None,
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
        return unread.decision(RouteChoice(Route.ABSTAIN, Reason(request.reason), None))
    flow = _Flow(settings, request)
    if not request.passages:
        flow.signals = Signals(relevance=0.0, nothing_retrieved=True)
    # A policy that can only abstain needs no veto.
    vetoes = settings.vetoes if settings.vetoes and next_signal(policy, flow.signals) else ()
    for veto in vetoes:
        if request.passages or not veto[0].needs_passages:
            choice = flow.apply_veto(veto, (yield Measure(veto[0], request, span)))
            if choice is not None:
                return flow.decision(choice)
    while (name := next_signal(policy, flow.signals)) is not None:
        outcome = yield Measure(settings.signals[name], flow.request_for(name), span)
        choice = flow.apply_signal(name, outcome)
        if choice is not None:
            return flow.decision(choice)
    choice = decide_route(policy, flow.signals)
    if choice.reason is Reason.INSUFFICIENT_CONTEXT and in_other_language(
        request.question, request.passages
    ):
        choice = replace(choice, reason=Reason.OTHER_LANGUAGE)
    return flow.decision(choice)
