"""Signals: what the guard measures about a question before it decides.

Relevance, confidence and conflict decide the route. Every other signal is a `Veto`: it can
only turn a route into `abstain`, with a reason of its own. A policy binds each veto by its
fingerprint and sets its threshold.

Example:
    >>> class QuestionLength(Veto[int]):
    ...     name, reason, needs_passages = "question_length", "question_too_long", False
    ...
    ...     @property
    ...     def fingerprint(self) -> Fingerprint:
    ...         return Fingerprint(kind="question_length")
    ...
    ...     def measure(self, request: Request) -> int:
    ...         return len(request.question)
    >>> from knowgate.guard import Guard, Policy
    >>> from knowgate.guard.testing import FakeScorer
    >>> scorer, veto = FakeScorer(default=0.9), QuestionLength()
    >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    >>> policy = policy.with_veto(veto, threshold=20)
    >>> guard = Guard(policy, scorer=scorer, vetoes=[veto], metrics=False)
    >>> guard.decide("When does the library open?", ["It opens at nine."]).reason
    'question_too_long'
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .artefacts import require_fingerprint
from .contracts import finite_or_none, plain
from .deadlines import call_on_thread
from .decision import OnError, Reason, SignalName
from .errors import InputError, KnowgateError, PolicyError, SignalValueError
from .fingerprint import Fingerprint
from .text import Request

if TYPE_CHECKING:
    from .artefacts import VetoBinding

Measured = TypeVar("Measured")


class Signal(ABC, Generic[Measured]):
    """One measured quantity. `measure` is all that a signal must implement.

    A signal whose measuring can be awaited overrides `ameasure` too; otherwise the async
    forms of the guard run `measure` on a worker thread. One that can measure several
    questions in one call overrides `measure_many` (and `ameasure_many`), which gives the
    same values as `measure`, with a `KnowgateError` in place of a value that failed.

    Attributes:
        name: its metric label, and its key in `GuardOptions`.
        deadline: seconds for one question; None for no limit. Options override it.
        on_error: what a failure leads to. Options override it.
        cost: relative to other vetoes; those that cost less are measured first.
        concurrent: whether questions may be measured side by side on several threads.
        at_once: of questions that may not be measured side by side, how many threads measure one
            each at the same time at most; None for as many as end well within the deadline.
            Options override it.
        checks_deadline: whether `measure` calls `guard.deadlines.check_deadline` often; the
            sync forms then run it on the caller's own thread, which costs less.
    """

    name: str
    deadline: float | None = 30.0
    on_error: OnError = OnError.ABSTAIN
    cost: float = 1.0
    concurrent: bool = True
    at_once: int | None = None
    checks_deadline: bool = False

    @abstractmethod
    def measure(self, request: Request) -> Measured:
        """Measure one question; called on a worker thread."""

    async def ameasure(self, request: Request) -> Measured:
        """As `measure`, without blocking the event loop; by default on a thread."""
        return await call_on_thread(lambda: self.measure(request))

    def measure_many(self, requests: Sequence[Request]) -> Sequence[Measured | KnowgateError]:
        """Measure several questions in one call; by default one after another."""
        found: list[Measured | KnowgateError] = []
        for request in requests:
            try:
                found.append(self.measure(request))
            except KnowgateError as error:
                found.append(error)
        return found

    async def ameasure_many(
        self, requests: Sequence[Request]
    ) -> Sequence[Measured | KnowgateError]:
        """As `measure_many`, without blocking the event loop; by default on a thread."""
        return await call_on_thread(lambda: self.measure_many(requests))

    def check(self, value: Any, request: Request) -> Measured:
        """Validate what was measured, and normalise it.

        Raises:
            SignalValueError: it is of another type, NaN, or off its scale.
        """
        checked: Measured = value
        return checked

    @abstractmethod
    def level(self, value: Measured) -> float | bool:
        """The calibrated level of a checked value."""

    @abstractmethod
    def decision_fields(self, value: Measured, request: Request) -> dict[str, Any]:
        """What the decision records of a checked value."""

    def has(self, form: str) -> bool:
        """Whether the signal implements `ameasure`, `measure_many` or `ameasure_many`."""
        return getattr(type(self), form) is not getattr(Signal, form)


class Veto(Signal[Measured]):
    """A signal that can only turn a route into `abstain`.

    The guard abstains where `strength` reaches the threshold that the policy binds the
    veto with. A failure counts under the reason `<name>_failed`; `follow_context` as
    `on_error` then goes on with the other signals.

    Attributes:
        reason: of the abstention: lower-case letters, digits and underscores, at most 40.
        threshold: bound in a policy unless another one is named.
        needs_passages: False to be asked also when nothing was retrieved.
    """

    reason: str
    threshold: float = 0.5
    needs_passages: bool = True

    @property
    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """What its values depend on; a policy is bound to it."""

    def check(self, value: Any, request: Request) -> Measured:
        """Validate what was measured: by default a finite number."""
        return as_number(value, self.name)  # type: ignore[return-value]

    def strength(self, value: Measured) -> float:
        """How strongly a checked value speaks for abstaining: by default the value itself."""
        return float(value)  # type: ignore[arg-type]

    def level(self, value: Measured) -> float:
        """The strength of a checked value."""
        return self.strength(value)

    def decision_fields(self, value: Measured, request: Request) -> dict[str, Any]:
        """What the decision records of a checked value: by default its strength by name."""
        return {"vetoes": {self.name: self.strength(value)}}


def as_number(value: Any, signal: str) -> float:
    """`value` as a finite float.

    Raises:
        SignalValueError: it is not a number, NaN or infinite.
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SignalValueError(signal, f"a {type(value).__name__} was measured, not a number")
    if finite_or_none(value) is None:
        raise SignalValueError(signal, "NaN or infinity was measured")
    return float(value)


# -- vetoes that a policy is bound to --------------------------------------------------

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Those of the guard, but for the two that a bundled veto gives.
_RESERVED_REASONS = frozenset(Reason) - {Reason.FALSE_PREMISE, Reason.ANSWERABILITY_FAILED}
_RESERVED_NAMES = frozenset({*SignalName, "input", "language", "total"})
_MAX_VETOES = 16


def bound_vetoes(
    bindings: Sequence[VetoBinding],
    vetoes: Iterable[Veto[Any]],
) -> tuple[tuple[Veto[Any], float, str], ...]:
    """The vetoes with their thresholds and reasons, those that cost least first.

    The guard abstains from a threshold on (inclusive).

    Raises:
        InputError: something is not a veto, or its name or reason cannot be used.
        FingerprintMismatchError: a veto is not the one that the policy is bound to.
        PolicyError: a veto is missing, or the policy is not bound to it.
    """
    if not isinstance(vetoes, Iterable):
        raise InputError("vetoes are not a collection", hint="pass vetoes=(veto,)")
    given: dict[str, Veto[Any]] = {}
    for veto in vetoes:
        require_usable(veto)
        if veto.name in given:
            raise InputError(f"two vetoes are named {veto.name!r}", where="vetoes")
        given[veto.name] = veto
    bound = {binding.name: binding for binding in bindings}
    if len(given) > _MAX_VETOES:
        raise InputError(f"{len(given)} vetoes", where="vetoes", hint=f"at most {_MAX_VETOES}")
    if unbound := ", ".join(sorted(set(given) - set(bound))):
        hint = "bind it with policy.with_veto(veto, threshold=…)"
        raise PolicyError(f"the policy is not bound to the veto {unbound}", hint=hint)
    if missing := ", ".join(sorted(set(bound) - set(given))):
        hint = "pass vetoes=(veto,); to a command --guard python:module:attribute"
        raise PolicyError(f"the policy needs the veto {missing}", hint=hint)
    found = []
    for name, veto in given.items():
        hint = f"pass the veto {name} that the policy is bound to, or bind this one"
        require_fingerprint(bound[name].fingerprint, veto.fingerprint, f"veto {name}", hint)
        found.append((veto, bound[name].threshold, str(veto.reason)))
    return tuple(sorted(found, key=lambda one: one[0].cost))


def require_usable(veto: object) -> None:
    """Reject what is not a veto, or has a name or reason that cannot be used.

    Raises:
        InputError: naming what is wrong.
    """
    if not isinstance(veto, Veto):
        raise InputError(
            f"a {type(veto).__name__} is not a veto", where="vetoes", hint="derive it from Veto"
        )
    kind = type(veto).__name__
    # Both become metric labels, whose values must be few and plain.
    for what, reserved in (("name", _RESERVED_NAMES), ("reason", _RESERVED_REASONS)):
        value = getattr(veto, what, None)
        fault, hint = "", "use at most 40 lower-case letters, digits and underscores"
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            fault = f"is {value!r}"
        elif value in reserved:
            fault, hint = "is taken", "choose another one"
        if fault:
            raise InputError(f"the {what} of a {kind} {fault}", where="vetoes", hint=hint)
