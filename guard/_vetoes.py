"""Check the vetoes given to a guard against those that its policy is bound to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ._policy_fields import PolicyFields
from ._signal import Veto
from .decision import Reason, SignalName
from .errors import InputError, PolicyError

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Reasons of the guard that a bundled veto gives; no other reason of the guard may be one.
_VETO_REASONS = frozenset({Reason.FALSE_PREMISE, Reason.ANSWERABILITY_FAILED})
_RESERVED_NAMES = frozenset({*SignalName, "input", "language", "total"})
_MOST_VETOES = 16


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
    if len(given) > _MOST_VETOES:
        raise InputError(f"{len(given)} vetoes", where="vetoes", hint=f"at most {_MOST_VETOES}")
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
