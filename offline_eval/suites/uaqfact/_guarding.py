"""Guards in front of the model, from their policies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....guard import Guard
from ....guard.contracts import (
    ConfidenceEstimator,
    ConflictDetector,
    LanguageModel,
    RelevanceScorer,
)
from ....guard.errors import InputError
from ....guard.policy import Policy
from ....guard.signals.answerability import PremiseChecker
from ....guard.signals.confidence import load_estimator
from ....guard.signals.conflict import AnswerConflict, PassageConflict
from ....guard.signals.relevance import LexicalScorer, load_scorer
from ...systems import load_guard_choices

# The published set is a snapshot of that year: its periods reach up to it.
SNAPSHOT = 2024


def premise_guard(*, closed_world: bool = True, now: int | None = SNAPSHOT) -> Guard:
    """A guard that follows every context unless the question's premise is false by it.

    Any passage is relevant enough for its policy, so that what it changes is the look at the
    premise alone. Needs no model and no calibration.

    Args:
        closed_world: whether the facts of a question are all there are, as those of the set
            are meant; see `PremiseChecker`.
        now: the year in which the facts were written down.
    """
    scorer = LexicalScorer()
    return Guard(
        Policy(scorer=scorer.fingerprint, relevance_threshold=0.0),
        scorer=scorer,
        answerability=PremiseChecker(closed_world=closed_world, now=now),
        # Neither a fault nor a busy machine is to look like good judgement.
        on_error="raise",
        deadlines=dict.fromkeys(("answerability", "relevance")),
        metrics=False,
    )


def premise_sha256(*, closed_world: bool = True, now: int | None = SNAPSHOT) -> str:
    """What tells two versions of that guard apart."""
    fingerprint = PremiseChecker(closed_world=closed_world, now=now).fingerprint
    return hashlib.sha256(fingerprint.model_dump_json().encode("utf-8")).hexdigest()


_DEFAULT_ESTIMATOR = "sampled_consistency"
# The built-in guard that looks at a question's premise alone.
PREMISE = "premise"
_SIGNALS = ("relevance", "confidence", "conflict")


@dataclass(frozen=True, slots=True)
class LoadedGuards:
    """Guards by name.

    Attributes:
        guards: ready to decide.
        sha256: of the files that their policies were read from.
    """

    guards: Mapping[str, Guard]
    sha256: Mapping[str, str]


def load_guards(
    specs: Sequence[str | os.PathLike[str]],
    model: LanguageModel | None,
    *,
    scorer: str | None = None,
) -> LoadedGuards:
    """Guards by the files of their policies, or the folders of calibrated runs.

    A signal that fails is a failed question here, not an abstention, and no signal has a
    deadline: neither a broken model nor a busy machine is to look like good judgement.

    Args:
        specs: of the guards, `premise` for the built-in one; none gives none.
        model: whose confidence is measured where a policy asks for it; None for logged replies.
        scorer: of relevance, by name or folder; by default the one that each policy names.

    Raises:
        InputError: a policy cannot be read or asks about a model that cannot be asked, or there is
            no such scorer.
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
    """
    guards: dict[str, Guard] = {}
    sha256: dict[str, str] = {}
    scorers: dict[str, RelevanceScorer] = {}
    policies = [spec for spec in specs if os.fspath(spec) != PREMISE]
    if len(policies) < len(specs):
        guards[PREMISE] = premise_guard()
        sha256[PREMISE] = premise_sha256()
    for choice in load_guard_choices(policies) if policies else ():
        if choice.policy is None:
            continue
        name = scorer or choice.policy.scorer.kind
        if name not in scorers:
            scorers[name] = load_scorer(name)
        # Said before the guard asks for parts that a model elsewhere would have to give.
        choice.policy.require_scorer(scorers[name].fingerprint)
        guards[choice.name] = _guard(choice.policy, scorers[name], model)
        sha256[choice.name] = choice.sha256
    return LoadedGuards(guards, sha256)


def _guard(policy: Policy, scorer: RelevanceScorer, model: LanguageModel | None) -> Guard:
    estimator: ConfidenceEstimator | None = None
    detector: ConflictDetector | None = None
    if policy.needs_estimator or (policy.check_conflict and policy.may_follow):
        if model is None:
            raise InputError(
                "the policy asks how sure the model itself is, and a log cannot be asked",
                where="--guard with --model replay",
                hint="name that model with --model, or use a policy without answers from memory",
            )
        if policy.needs_estimator:
            estimator = _estimator(policy, model)
        if policy.check_conflict:
            between_passages = policy.conflict_between != "memory"
            detector = PassageConflict(model) if between_passages else AnswerConflict(model)
    return Guard(
        policy,
        scorer=scorer,
        estimator=estimator,
        conflict_detector=detector,
        on_error=dict.fromkeys(_SIGNALS, "raise"),
        deadlines=dict.fromkeys(_SIGNALS),
        metrics=False,
    )


def _estimator(policy: Policy, model: LanguageModel) -> ConfidenceEstimator:
    if policy.estimator is not None:
        return load_estimator(policy.estimator.kind, model)
    return load_estimator(_DEFAULT_ESTIMATOR, model, threshold=policy.confidence_threshold)
