"""The guard in front of a system: what it decides, and what the user then gets."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from ...adapters.langchain import ChatModelLM
from ...guard import Guard
from ...guard.contracts import (
    ConfidenceEstimator,
    ConflictDetector,
    Generation,
    LanguageModel,
    RelevanceScorer,
)
from ...guard.decision import Decision
from ...guard.errors import InputError
from ...guard.files import file_sha256
from ...guard.policy import Policy
from ...guard.signals.confidence import load_estimator
from ...guard.signals.conflict import AnswerConflict, PassageConflict
from ...guard.signals.relevance import load_scorer
from ..run import read_manifest, read_ookb_run
from ._models import CallMeter, ModelUnderTest

OFF = "off"
_CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class GuardChoice:
    """One guard, or none.

    Attributes:
        name: `off`, or the name of the policy's file or of the run's folder.
        policy: None for `off`.
        sha256: of the file with the policy; empty for `off`.
        fitted_on: normalised texts of the questions that the policy was fitted on; None
            where nobody can tell.
    """

    name: str = OFF
    policy: Policy | None = None
    sha256: str = ""
    fitted_on: frozenset[str] | None = None

    def held_out(self, question: str) -> bool | None:
        """Whether the policy has not seen the question; None where nobody can tell."""
        if self.fitted_on is None:
            return None
        return normalised(question) not in self.fitted_on


def normalised(question: str) -> str:
    """A question's text without what does not tell two questions apart."""
    return " ".join(question.split()).casefold()


def load_guard_choices(specs: Sequence[str | os.PathLike[str]]) -> tuple[GuardChoice, ...]:
    """Guards by `off`, the file of a policy, or the folder of a calibrated run.

    Args:
        specs: a calibrated run of this suite also tells which questions its policy was
            fitted on; they are known again by their text.

    Raises:
        InputError: a policy that cannot be read, a run without one, or one guard twice.
    """
    found: list[GuardChoice] = []
    for spec in specs or (OFF,):
        choice = GuardChoice() if os.fspath(spec) == OFF else _loaded(Path(spec))
        same = [other for other in found if other.sha256 == choice.sha256]
        if same:
            raise InputError(
                "is named twice" if choice.policy else "stands there twice",
                where=f"--guard {os.fspath(spec)}",
                hint="name each guard once",
            )
        taken = {other.name for other in found}
        if choice.name in taken:
            # Two policies of one file name, from two folders.
            parent = Path(spec).absolute().parent.name
            choice = _renamed(choice, f"{parent}/{choice.name}", taken)
        found.append(choice)
    return tuple(found)


def held_out_of(choices: Sequence[GuardChoice], question: str) -> bool | None:
    """Whether no policy among `choices` has seen a question.

    Returns:
        False where one has; None where one cannot tell, or there is no policy at all.
    """
    told = [choice.held_out(question) for choice in choices if choice.policy is not None]
    if False in told:
        return False
    return None if None in told or not told else True


def _loaded(path: Path) -> GuardChoice:
    if not path.is_dir():
        policy = Policy.load(path)
        return GuardChoice(path.stem, policy, file_sha256(path))
    manifest = read_manifest(path)
    if manifest.get("suite") != "ookb" or manifest.get("holds") is not None:
        raise InputError(
            "is no run that a policy of this suite is calibrated on",
            where=str(path),
            hint="name its policy.json, or a run of `knowgate eval ookb --scorer …`",
        )
    if not (path / _CALIBRATION).is_file():
        raise InputError(
            "no policy was calibrated on this run",
            where=str(path),
            hint=f"do so with `knowgate calibrate --run {path} --out policy.json`",
        )
    run = read_ookb_run(path)
    assert run.calibration is not None
    return GuardChoice(
        name=path.resolve().name,
        policy=run.calibration.policy,
        sha256=file_sha256(path / _CALIBRATION),
        fitted_on=frozenset(
            normalised(run.questions[name].question)
            for name in run.calibration.calibration_questions
        ),
    )


def _renamed(choice: GuardChoice, name: str, taken: set[str]) -> GuardChoice:
    number, found = 2, name
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return GuardChoice(found, choice.policy, choice.sha256, choice.fitted_on)


_DEFAULT_ESTIMATOR = "sampled_consistency"
# A failed signal is a failed call here, to be seen and tried again; what a serving guard
# abstains from by itself (a question it cannot read) it abstains from here as well.
_ON_ERROR = {"relevance": "raise", "confidence": "raise", "conflict": "raise"}
# How busy the machine is must not decide which questions are abstained from.
_DEADLINES: Mapping[str, float | None] = {"relevance": None, "confidence": None, "conflict": None}

_meter: ContextVar[CallMeter | None] = ContextVar("knowgate_reply_meter", default=None)


class Scorers:
    """Relevance scorers by name, each loaded once.

    Args:
        name: of the scorer for all policies; None for the one that each policy names.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._loaded: dict[str, RelevanceScorer] = {}
        self._lock = threading.Lock()

    def of(self, policy: Policy) -> RelevanceScorer:
        """The scorer of a policy.

        Raises:
            InputError: there is none of that name.
            FingerprintMismatchError: it is not the one that the policy was fitted on.
        """
        name = self._name or policy.scorer.kind
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_scorer(name)
        policy.require_scorer(self._loaded[name].fingerprint)
        return self._loaded[name]


def make_guard(policy: Policy, scorers: Scorers, model: ModelUnderTest | None) -> Guard:
    """A guard for one model under test.

    Args:
        policy: what it serves by.
        scorers: of relevance.
        model: whose confidence is measured where the policy asks for it; None where no
            model is at hand, as with logged replies.

    Raises:
        FingerprintMismatchError: scorer or estimator is not the calibrated one.
        InputError: the policy asks about a model that cannot be asked.
    """
    estimator: ConfidenceEstimator | None = None
    detector: ConflictDetector | None = None
    if policy.needs_estimator or (policy.check_conflict and policy.may_follow):
        lm = _language_model(policy, model)
        if policy.needs_estimator:
            estimator = _estimator(policy, lm)
        if policy.check_conflict:
            tells = policy.conflict_between != "memory"
            detector = PassageConflict(lm) if tells else AnswerConflict(lm)
    return Guard(
        policy,
        scorer=scorers.of(policy),
        estimator=estimator,
        conflict_detector=detector,
        on_error=_ON_ERROR,
        deadlines=_DEADLINES,
        metrics=False,
    )


async def decide(
    guard: Guard, question: str, passages: Sequence[str], meter: CallMeter
) -> Decision:
    """The guard's decision; what it asks of language models is counted."""

    async def deciding(_: object) -> Decision:
        return await guard.adecide(question, list(passages))

    token = _meter.set(meter)
    try:
        # Inside a runnable, so that LangChain counts the calls to this decision.
        step: Runnable[Any, Decision] = RunnableLambda(deciding)
        return await step.ainvoke(None, RunnableConfig(callbacks=[meter]))
    finally:
        _meter.reset(token)


def _estimator(policy: Policy, lm: LanguageModel) -> ConfidenceEstimator:
    if policy.estimator is not None:
        return load_estimator(policy.estimator.kind, lm)
    return load_estimator(_DEFAULT_ESTIMATOR, lm, threshold=policy.confidence_threshold)


def _language_model(policy: Policy, model: ModelUnderTest | None) -> LanguageModel:
    if model is None:
        raise InputError(
            "the policy asks how sure the model itself is, and a log cannot be asked",
            where="--guard with --replay",
            hint="name that model with --model, as the logs call it, or use a policy calibrated "
            "without answers from memory",
        )
    runnable = model.asked
    if isinstance(runnable, HuggingFaceChatModel):
        return _CountedLM(runnable.lm)
    if isinstance(runnable, BaseChatModel):
        # The runner of the calls bounds and repeats; here each is tried once.
        return ChatModelLM(runnable, timeout=None, max_attempts=1)
    raise InputError(
        "the policy asks how sure the model itself is, and this is no chat model",
        where=model.name,
        hint="use a policy calibrated without answers from memory, or name a chat model",
    )


class _CountedLM:
    """A local language model whose calls count for the reply that they are made for."""

    def __init__(self, lm: HuggingFaceLM) -> None:
        self._lm = lm

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self._lm.fingerprint

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As the model does."""
        found = self._lm.generate(prompts, n=n, temperature=temperature, seed=seed)
        self._count(prompts, found)
        return found

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As the model does."""
        found = await self._lm.agenerate(prompts, n=n, temperature=temperature, seed=seed)
        self._count(prompts, found)
        return found

    def _count(self, prompts: Sequence[str], found: Sequence[Sequence[Generation]]) -> None:
        meter = _meter.get()
        if meter is None:
            return
        for prompt, row in zip(prompts, found, strict=True):
            read = len(self._lm.token_ids(prompt)) * len(row)
            meter.add(len(row), read, sum(len(one.token_logprobs or ()) for one in row))
