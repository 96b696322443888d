"""Stored policies: the digest over what decides and what is promised, checked on loading."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ._artefacts import LATER_FIELDS, Guarantee, GuaranteedRisk, PolicyPoint
from ._leak_test import LeakTest, binomial_tail, hoeffding_bentkus, whole
from ._policy_fields import PolicyFields
from .errors import PolicyError
from .read_models import first_fault

# Between two ways to sum the same tail.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-12
# The test of a leak that gave way to `LeakTest`.
_FORMER_TEST = "exact test of one question per passage, averaged over all ways of drawing them"
# Share of the level that the first stage of a cascade is tested at by itself, likewise.
_FIRST_STAGE, _FIRST_STAGE_SHARE = "first_stage", 0.2
# Questions that must not pass: their source was left out, or nothing answers them.
_LEAKS = ("leak", "unanswerable")
# From this bound on nothing is said, so nothing has to be certified.
_NO_BOUND = 1.0 - 1e-6


_OF_RELEVANCE = ("scorer", "aggregator", "relevance_calibrator")
_OF_CONFIDENCE = ("estimator", "confidence_calibrator")


def measured_by(policy: PolicyFields) -> str:
    """SHA-256 of what gives the numbers that a policy's certified thresholds are compared with.

    A leak says nothing about answers from memory, whose confidence may be added later.
    """
    names = _OF_RELEVANCE if _is_leak(policy.guarantee) else (*_OF_RELEVANCE, *_OF_CONFIDENCE)
    parts = {name: getattr(policy, name) for name in names}
    fields = {
        name: part.model_dump(mode="json") if isinstance(part, BaseModel) else part
        for name, part in parts.items()
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def fault_of(policy: PolicyFields) -> str | None:
    """Name what the evidence of a policy's guarantee does not bear out; None where it holds.

    A guarantee that certifies nothing, or none at all, promises nothing that could be false.
    """
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified:
        return None
    if guarantee.method == _FORMER_TEST:
        return "its leak was certified by a test that is no longer used"
    if guarantee.chosen is None or not guarantee.risks:
        return "it names no chosen point, or no counts for it"
    if guarantee.measured_by != measured_by(policy):
        return "its scorer, aggregator or calibrators are not those that were certified"
    chosen = guarantee.path[guarantee.chosen]
    if not _serves(policy, chosen):
        return "the thresholds are not those of the chosen point of its path"
    return _fault_of_counts(guarantee, chosen) or next(_false_p_values(guarantee, chosen), None)


def _serves(policy: PolicyFields, chosen: PolicyPoint) -> bool:
    """Whether the policy decides by the thresholds of this point."""
    leak = _is_leak(policy.guarantee)
    if policy.relevance_threshold != chosen.relevance:
        return False
    # A leak says nothing about answers from memory, whose threshold may be declared.
    if policy.confidence_threshold != chosen.confidence and not leak:
        return False
    abstains = policy.check_conflict and policy.on_conflict == "abstain"
    return leak or abstains == (chosen.on_conflict == "abstain")


def _is_leak(guarantee: Guarantee | None) -> bool:
    return guarantee is not None and any(risk.kind in _LEAKS for risk in guarantee.risks)


def _fault_of_counts(guarantee: Guarantee, chosen: PolicyPoint) -> str | None:
    risks = guarantee.risks
    main = min(risks, key=lambda risk: risk.kind != "selective")
    if (guarantee.risk, guarantee.n) != (main.bound, main.n):
        return "its bound or its number of questions is not the one that was tested"
    if guarantee.errors != min(main.n, whole(main.loss)):
        return "its errors are not those that were counted"
    by_kind = {risk.kind: risk for risk in risks}
    for kind, groups in _counts_by_group(guarantee).items():
        if kind != _FIRST_STAGE and not _add_up(groups, by_kind.get(kind, main)):
            return "its counts by passage do not add up to its questions and errors"
    if not all(_add_up(risk.groups, risk) for risk in risks if risk.kind != "cost"):
        return "its counts by group do not add up to its questions and errors"
    covers = _covers(guarantee)
    tested = [
        risk.p_value
        for risk in risks
        if risk.kind != _FIRST_STAGE and (not covers or risk.kind == "abstention")
    ]
    if not _same(chosen.p_value, max(tested)):
        return "the p-value of the chosen point is not that of its counts"
    for risk in risks:
        if risk.bound < _NO_BOUND and risk.p_value > _level(guarantee, risk) * (1 + _RELATIVE):
            return f"p-value {risk.p_value:.3g} of the risk {risk.kind!r} certifies nothing"
    return None


def _add_up(groups: tuple[tuple[int, int, int], ...], risk: GuaranteedRisk) -> bool:
    if not groups:
        return True
    return (
        sum(size * count for size, _, count in groups) == risk.n
        and sum(wrong * count for _, wrong, count in groups) == whole(risk.loss)
        and not any(wrong > size or not size for size, wrong, _ in groups)
    )


def _level(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """The level at which one bound has to pass."""
    if any(one.kind == _FIRST_STAGE for one in guarantee.risks):
        first = _FIRST_STAGE_SHARE * guarantee.level
        return first if risk.kind == _FIRST_STAGE else guarantee.level - first
    if not _covers(guarantee):
        return guarantee.level
    # Half for the coverage, half for the bounds on the risk of all points.
    half = guarantee.level / 2
    return half if risk.kind == "abstention" else half / len(guarantee.path)


def _false_p_values(guarantee: Guarantee, chosen: PolicyPoint) -> Iterator[str]:
    for risk in guarantee.risks:
        closed = {"follow": chosen.relevance, "answer": chosen.confidence}
        if risk.p_value == 0.0 and risk.n == 0 and closed.get(risk.kind, 0.0) is None:
            continue  # the route is closed, so that nothing can go wrong by it
        found = _p_value(guarantee, risk)
        if not _same(found, risk.p_value):
            yield (
                f"the counts of the risk {risk.kind!r} give p-value {found:.3g}, "
                f"not {risk.p_value:.3g}"
            )


def _p_value(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """P-value of "the bound is broken", from the counts of one risk."""
    if risk.loss > risk.n * (1 + 1e-12):
        return 1.0
    if passages := _counts_by_group(guarantee).get(risk.kind):
        sizes = [size for size, _, count in passages for _ in range(count)]
        return LeakTest.of(sizes, risk.bound).p_value_of(passages)
    if risk.kind != "cost" or set((risk.losses or {}).values()) <= {0.0, 1.0}:
        by_question = binomial_tail(whole(risk.loss), risk.n, risk.bound)
    else:
        by_question = hoeffding_bentkus(risk.loss, risk.n, risk.bound)
    return max(by_question, _by_group(guarantee, risk)) if risk.groups else by_question


def _by_group(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """P-value of the test in which each group counts once."""
    groups = sum(count for _, _, count in risk.groups)
    if risk.kind != "abstention" and _covers(guarantee):
        # The bound is the smallest that this test bears out, as it falls when the bound rises.
        total = math.fsum(count * wrong / size for size, wrong, count in risk.groups)
        return hoeffding_bentkus(total, groups, risk.bound)
    return LeakTest.of_groups(groups, risk.largest_group, risk.bound).p_value_of(risk.groups)


def _counts_by_group(guarantee: Guarantee) -> dict[str, tuple[tuple[int, int, int], ...]]:
    return {
        "leak": guarantee.passages,
        "unanswerable": guarantee.unanswerable_topics,
        _FIRST_STAGE: guarantee.first_stage_passages,
    }


def _covers(guarantee: Guarantee) -> bool:
    return any(risk.kind == "abstention" for risk in guarantee.risks)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


_Policy = TypeVar("_Policy", bound=PolicyFields)

_DIGEST = "digest"
_UNCHECKED = frozenset({"created_by"})
_HINT = "write it with `knowgate calibrate`"


def policy_text(policy: PolicyFields) -> str:
    """The policy as indented JSON; a calibrated one with its digest."""
    text = _body(policy)
    if not policy.calibrated:
        return text  # nothing is promised, and its writer may go on editing it
    fields = json.loads(text)
    return json.dumps({**fields, _DIGEST: _digest(fields)}, ensure_ascii=False, indent=2)


def _body(policy: PolicyFields) -> str:
    # An older knowgate rejects fields it does not know, so one that says nothing new stays out.
    silent: dict[str, Any] = {}
    if policy.conflict_between == "memory":
        silent["conflict_between"] = True
    if policy.guarantee is not None:
        unused = Guarantee.model_fields.keys() - policy.guarantee.model_fields_set
        silent["guarantee"] = dict.fromkeys(unused & LATER_FIELDS, True)
    return policy.model_dump_json(indent=2, exclude=silent)


def _digest(fields: dict[str, Any]) -> str:
    """Hash of everything in a policy but the program that wrote it."""
    hashed = {name: value for name, value in fields.items() if name not in _UNCHECKED}
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def checked(
    kind: type[_Policy], value: dict[str, Any], *, where: str, allow_changed: bool
) -> _Policy:
    """Make a policy of parsed JSON, and check it against its digest and its evidence.

    Args:
        kind: the class of the policy.
        value: a JSON object.
        where: named in errors.
        allow_changed: return a changed policy without its guarantee rather than reject it.

    Raises:
        PolicyError: a field is wrong, or the policy is not as it was calibrated.
    """
    digest = value.get(_DIGEST)
    fields = {name: field for name, field in value.items() if name != _DIGEST}
    fault = None
    try:
        try:
            found = _parsed(kind, fields)
        except (PolicyError, ValidationError):
            if not allow_changed:
                raise
            # Only the guarantee may be at odds with the thresholds.
            found, fault = _parsed(kind, {**fields, "guarantee": None}), "its guarantee is invalid"
    except PolicyError as error:
        raise PolicyError(error.what, where=where, hint=error.hint) from None
    except RecursionError:
        raise PolicyError("nested too deeply", where=where, hint=_HINT) from None
    except ValidationError as error:
        raise PolicyError(first_fault(error), where=where, hint=_HINT) from None
    fault = fault or _change(found, digest)
    if fault is None:
        return found
    if not allow_changed:
        raise PolicyError(
            f"the policy is not as it was calibrated: {fault}",
            where=where,
            hint="calibrate again, or load it without its guarantee: "
            "Policy.load(path, allow_changed=True)",
        )
    return _without_guarantee(found, fault)


def _parsed(kind: type[_Policy], fields: dict[str, Any]) -> _Policy:
    # As JSON, where `strict` takes lists for tuples and text for routes, but neither
    # true nor "0.5" for a number.
    return kind.model_validate_json(json.dumps(fields), strict=True)


def _change(policy: PolicyFields, digest: object) -> str | None:
    """What of a policy is not as it was when it was calibrated; None where all is."""
    if digest is None:
        return "it has no digest" if policy.calibrated else None
    if digest != _digest(json.loads(_body(policy))):
        return "its digest is that of other content"
    return fault_of(policy)


def _without_guarantee(policy: _Policy, why: str) -> _Policy:
    note = f"Changed after its calibration ({why}): nothing is guaranteed. {policy.note}"
    changes = {"guarantee": None, "calibration_set_sha256": None, "changed": True}
    return policy.model_copy(update={**changes, "note": note.strip()})
