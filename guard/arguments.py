"""Checking what a guard and its signals are made of."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from ._measure import judges_sets
from .contracts import (
    ConfidenceEstimator,
    ConflictDetector,
    ConflictExaminer,
    LanguageModel,
    RelevanceScorer,
)
from .decision import Mode, OnError, SignalName
from .errors import InputError, PolicyError
from .policy import JOINT, IdentityCalibrator, Policy

DEFAULT_DEADLINES: Mapping[str, float | None] = MappingProxyType(
    {"answerability": 30.0, "relevance": 10.0, "confidence": 60.0, "conflict": 30.0}
)
_Choice = TypeVar("_Choice", Mode, OnError)


def require_parts(
    policy: Policy,
    scorer: RelevanceScorer | None,
    estimator: ConfidenceEstimator | None,
    conflict_detector: ConflictDetector | None,
) -> None:
    """Refuse parts that are missing, or that the policy was not calibrated on.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        PolicyError: the policy asks for a signal that nothing was given to measure.
    """
    if policy.may_follow and scorer is None:
        raise PolicyError("the policy needs a relevance scorer", hint="pass scorer=…")
    if scorer is not None:
        policy.require_scorer(scorer.fingerprint)
        _require_joint(policy, scorer)
    if policy.needs_estimator and estimator is None:
        raise PolicyError("the policy needs a confidence estimator", hint="pass estimator=…")
    if estimator is not None:
        policy.require_estimator(estimator.fingerprint)
    if policy.check_conflict and policy.may_follow:
        _require_detector(policy, conflict_detector)


def _require_joint(policy: Policy, scorer: RelevanceScorer) -> None:
    if policy.aggregator == JOINT and policy.may_follow and not judges_sets(scorer):
        raise PolicyError(
            f"the policy judges passages together (aggregator {JOINT!r}), and a "
            f"{type(scorer).__name__} has no score_set and score_sets",
            hint="use a scorer that has them, or another aggregator",
        )


def _require_detector(policy: Policy, conflict_detector: ConflictDetector | None) -> None:
    if conflict_detector is None:
        raise PolicyError("the policy checks conflicts", hint="pass conflict_detector=…")
    tells = policy.conflict_between != "memory" or policy.on_conflict == "show_both"
    if tells and not isinstance(conflict_detector, ConflictExaminer):
        raise PolicyError(
            "the policy needs a conflict detector that tells which answers there are, "
            f"and a {type(conflict_detector).__name__} has no examine and aexamine",
            hint="pass conflict_detector=PassageConflict(…), for instance",
        )
    if policy.conflict_between != "memory" and not getattr(
        conflict_detector, "compares_passages", True
    ):
        raise PolicyError(
            f"a {type(conflict_detector).__name__} does not compare passages with each other, "
            "as the policy asks",
            hint="pass conflict_detector=PassageConflict(…)",
        )


def decided_by(policy: Policy, estimator: ConfidenceEstimator | None) -> ConfidenceEstimator | None:
    """`estimator`, stopping where this policy's decision is fixed and no sooner.

    Seven of the first seven samples fix "at least 0.7", but not yet "at least 0.9".
    An estimator that the policy was calibrated on, or whose values are calibrated
    anew, stays as it is: the threshold then speaks of its own values.
    """
    threshold = policy.confidence_threshold
    deciding_at = getattr(estimator, "deciding_at", None)
    raw = isinstance(policy.confidence_calibrator, IdentityCalibrator)
    if deciding_at is None or not threshold or policy.estimator is not None or not raw:
        return estimator
    found: ConfidenceEstimator = deciding_at(threshold)
    return found


def error_actions(
    on_error: OnError | str | Mapping[str, OnError | str],
) -> dict[str, OnError]:
    """What each signal's failure leads to, and unreadable input, and an unknown language.

    Raises:
        InputError: an unknown signal or action.
    """
    names = [*(name.value for name in SignalName), "input", "language"]
    if isinstance(on_error, str):
        action = choice(OnError, on_error, "on_error")
        return dict.fromkeys(names, action)
    if not isinstance(on_error, Mapping):
        raise InputError("on_error is neither an action nor a mapping from signal to action")
    unknown = set(on_error) - set(names)
    if unknown:
        raise InputError(
            f"on_error names no signal: {', '.join(sorted(map(str, unknown)))}",
            hint=f"one of: {', '.join(names)}",
        )
    return {
        name: choice(OnError, on_error.get(name, OnError.ABSTAIN), "on_error") for name in names
    }


def merged_deadlines(deadlines: Mapping[str, float | None]) -> dict[str, float | None]:
    """`DEFAULT_DEADLINES` with `deadlines` in their place.

    Raises:
        InputError: an unknown signal, or neither positive seconds nor None.
    """
    if not isinstance(deadlines, Mapping):
        raise InputError("deadlines are no mapping from signal to seconds")
    unknown = set(deadlines) - set(DEFAULT_DEADLINES)
    if unknown:
        raise InputError(
            f"deadlines name no signal: {', '.join(sorted(map(str, unknown)))}",
            hint=f"one of: {', '.join(DEFAULT_DEADLINES)}",
        )
    merged = {**DEFAULT_DEADLINES, **deadlines}
    for name, seconds in merged.items():
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < seconds < math.inf):
            raise InputError(f"the deadline of {name} must be positive seconds or None")
    return merged


def choice(kind: type[_Choice], value: str, what: str) -> _Choice:
    """The member of `kind` with this value.

    Raises:
        InputError: there is none; `what` is named.
    """
    try:
        return kind(value)
    except ValueError:
        raise InputError(
            f"{what} {value!r} is unknown", hint=f"one of: {', '.join(kind)}"
        ) from None


def checked_language_model(model: LanguageModel) -> LanguageModel:
    """`model`, refused here and now rather than by each decision.

    Raises:
        InputError: it does not have what a `LanguageModel` has.
    """
    nowhere = object()
    for name in ("fingerprint", "generate", "agenerate"):
        # Looked up without asking for it: a fingerprint may hash gigabytes of weights.
        if inspect.getattr_static(model, name, nowhere) is nowhere and not hasattr(model, name):
            raise InputError(
                f"a {type(model).__name__} is no language model of the guard (it has no {name})",
                hint="wrap a LangChain model in knowgate.adapters.langchain.ChatModelLM",
            )
    return model
