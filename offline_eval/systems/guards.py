"""Guards by name, and the decision of the guard in front of a system under test."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from shlex import quote

from ...guard import Guard, GuardOptions
from ...guard.contracts import (
    ConfidenceEstimator,
    ConflictDetector,
    LanguageModel,
    RelevanceScorer,
)
from ...guard.errors import InputError
from ...guard.files import file_sha256, text_sha256
from ...guard.policy import Policy
from ...guard.registry import PYTHON
from ...guard.signals.answerability import PremiseChecker
from ...guard.signals.confidence import load_estimator
from ...guard.signals.conflict import AnswerConflict, PassageConflict
from ...guard.signals.relevance import LexicalScorer, load_scorer
from ...guard.signals.relevance.registry import completed_scorer
from ..run.measured_run import MeasuredRun
from .factory import load_object, require_kind

OFF = "off"
PREMISE = "premise"
_DEFAULT_ESTIMATOR = "sampled_consistency"
_SIGNALS = ("relevance", "confidence", "conflict")
# The published UAQFact set was written down in that year: its periods reach up to it.
_SNAPSHOT = 2024


@dataclass(frozen=True, slots=True)
class GuardChoice:
    """A guard named on the command line, or none; small enough to travel to other processes.

    Attributes:
        name: `off`, `premise`, `python:module:attribute`, or the name of the policy's file or
            of the run's folder.
        policy: None for `off`.
        sha256: of what decides; empty for `off`.
        fitted_on: normalised texts of the questions that the policy was fitted on; None
            where unknown.
    """

    name: str = OFF
    policy: Policy | None = None
    sha256: str = ""
    fitted_on: frozenset[str] | None = None

    def held_out(self, question: str) -> bool | None:
        """Whether the policy was fitted without the question; None where unknown."""
        if self.fitted_on is None:
            return None
        return normalised(question) not in self.fitted_on

    @staticmethod
    def load(specs: Sequence[str | os.PathLike[str]]) -> tuple[GuardChoice, ...]:
        """Read the guards that a command line names; none named means `off`.

        Args:
            specs: `off`; `premise` (checks the premise of the question alone); the file of a
                policy; the folder of a calibrated run of the ookb suite, which also tells
                which questions its policy was fitted on; or `python:module:attribute`, a
                `Guard` or a function that makes one.

        Raises:
            InputError: a policy that cannot be read, a run without one, or the same guard twice.
        """
        found: dict[str, GuardChoice] = {}
        for spec in specs or (OFF,):
            choice = _choice(os.fspath(spec))
            if any(other.sha256 == choice.sha256 for other in found.values()):
                raise InputError(
                    "is named twice",
                    where=f"--guard {os.fspath(spec)}",
                    hint="name each guard once",
                )
            # Two policies of one file name, from two folders.
            longer = f"{Path(spec).absolute().parent.name}/{choice.name}"
            names = chain((choice.name, longer), (f"{longer}-{number}" for number in count(2)))
            free = next(name for name in names if name not in found)
            found[free] = replace(choice, name=free)
        return tuple(found.values())

    @staticmethod
    def load_guards(
        specs: Sequence[str | os.PathLike[str]],
        model: LanguageModel | None,
        *,
        scorer: str | None = None,
    ) -> dict[str, tuple[Guard, str]]:
        """Load the guards that a command line names: by name, with the sha256 of what decides.

        Args:
            specs: as `GuardChoice.load` takes them; `off` adds no guard.
            model: whose confidence is measured where a policy asks for it; None for logged replies.
            scorer: of relevance, by name or folder; by default the one that each policy names.

        Raises:
            InputError: a policy that cannot be read, that needs a model which cannot be asked, or
                no such scorer.
            FingerprintMismatchError: scorer or estimator is not the calibrated one.
        """
        choices = [one for one in GuardChoice.load(specs) if one.policy is not None]
        scorer_of = scorer_loader(scorer)
        asked = None if model is None else lambda: model
        return {one.name: (build_guard(one, scorer_of, asked), one.sha256) for one in choices}


def normalised(question: str) -> str:
    """The question without case and extra spaces, to compare questions by."""
    return " ".join(question.split()).casefold()


def _choice(spec: str) -> GuardChoice:
    if spec == OFF:
        return GuardChoice()
    if spec == PREMISE:
        checker, scorer = _premise_checker(), LexicalScorer().fingerprint
        policy = Policy(scorer=scorer, relevance_threshold=0.0).with_veto(checker)
        sha256 = text_sha256(checker.fingerprint.model_dump_json())
        return GuardChoice(spec, policy, sha256, frozenset())
    if spec.startswith(PYTHON):
        policy = own_guard(spec).policy
        return GuardChoice(spec, policy, text_sha256(policy.model_dump_json()))
    path = Path(spec)
    if path.is_dir():
        return _of_run(path)
    return GuardChoice(path.stem, Policy.load(path), file_sha256(path))


def _of_run(path: Path) -> GuardChoice:
    run = MeasuredRun.read(path)
    found = run.calibration
    if found is None:
        hint = f"do so with `knowgate calibrate --run {quote(str(path))} --out policy.json`"
        raise InputError("no policy was calibrated on this run", where=str(path), hint=hint)
    texts = (normalised(run.questions[name].question) for name in found.calibration_questions)
    fitted_on = None if found.given_policy else frozenset(texts)
    name, sha256 = path.resolve().name, file_sha256(path / "calibration.json")
    return GuardChoice(name, found.policy, sha256, fitted_on)


def scorer_loader(name: str | None = None) -> Callable[[Policy], RelevanceScorer]:
    """Return what finds the scorer of a policy; each is loaded once.

    Args:
        name: of the scorer for all policies; None for the one that each policy names.
    """
    loaded: dict[str, RelevanceScorer] = {}

    def scorer_of(policy: Policy) -> RelevanceScorer:
        """Raise an InputError where there is none, or it is not the one that was calibrated."""
        key = name or policy.scorer.model_dump_json(exclude={"probe"})
        if key not in loaded:
            loaded[key] = load_scorer(name or policy.scorer)
        found = completed_scorer(policy.scorer, loaded[key])
        policy.require_scorer(found.fingerprint)
        return found

    return scorer_of


def build_guard(
    choice: GuardChoice,
    scorer_of: Callable[[Policy], RelevanceScorer],
    model: Callable[[], LanguageModel] | None,
) -> Guard:
    """Build the guard of a choice, for one model under test.

    A failed signal is a failed call here, not an abstention, and no signal has a deadline:
    neither a broken model nor a busy machine may look like good judgement.

    Args:
        choice: any but `off`.
        scorer_of: loads the relevance scorer of a policy.
        model: makes the model whose confidence is measured, called only where the policy asks
            for it; None for logged replies.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        InputError: the policy needs a model that cannot be asked.
    """
    policy = choice.policy
    assert policy is not None
    if choice.name.startswith(PYTHON):
        return own_guard(choice.name)
    # Any passage is relevant enough for the policy of the premise check, which decides alone.
    # The policy of a file of that name has no vetoes.
    vetoes = [_premise_checker()] if choice.name == PREMISE and policy.vetoes else []
    scorer = LexicalScorer() if vetoes else scorer_of(policy)
    estimator: ConfidenceEstimator | None = None
    detector: ConflictDetector | None = None
    if policy.needs_estimator or (policy.check_conflict and policy.may_follow):
        if model is None:
            raise InputError(
                "the policy asks how sure the model itself is, and a log cannot be asked",
                where="--guard",
                hint="name that model with --model (as the logs call it), or use a policy "
                "calibrated without answers from memory",
            )
        lm = model()
        if policy.estimator is not None and policy.needs_estimator:
            estimator = load_estimator(policy.estimator.kind, lm)
        elif policy.needs_estimator:
            threshold = policy.confidence_threshold
            estimator = load_estimator(_DEFAULT_ESTIMATOR, lm, threshold=threshold)
        if policy.check_conflict:
            between_passages = policy.conflict_between != "memory"
            detector = PassageConflict(lm) if between_passages else AnswerConflict(lm)
    return Guard(
        policy,
        scorer=scorer,
        estimator=estimator,
        conflict_detector=detector,
        vetoes=vetoes,
        options=GuardOptions(
            on_error="raise" if vetoes else dict.fromkeys(_SIGNALS, "raise"),
            deadlines=dict.fromkeys((*_SIGNALS, *(veto.name for veto in vetoes))),
        ),
        metrics=False,
    )


def _premise_checker() -> PremiseChecker:
    # Closed world: the passages are taken to hold all facts, as those of UAQFact do.
    return PremiseChecker(closed_world=True, now=_SNAPSHOT)


def own_guard(spec: str) -> Guard:
    """Load a guard of the user's own.

    Args:
        spec: `module:attribute`, with or without `python:` in front.

    Raises:
        InputError: it names something else.
    """
    found = load_object(f"{PYTHON}{spec.removeprefix(PYTHON)}")
    guard: Guard = require_kind(found, Guard, "a Guard", f"--guard {spec}")
    return guard
