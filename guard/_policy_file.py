"""Stored policies: the digest over what decides and what is promised, checked on loading."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from pydantic import ValidationError

from ._artefacts import LATER_FIELDS, Guarantee
from ._evidence import fault_of
from ._policy_fields import PolicyFields
from .errors import PolicyError
from .read_models import first_fault

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
