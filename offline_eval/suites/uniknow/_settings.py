"""Settings of a run."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ....calibration.training.scenarios import ScenarioTrainingSettings
from ....guard.errors import InputError
from ._cases import BEYOND_KINDS, PAPER_KINDS, ContextKind
from ._choosing import ALL_METHODS, check_methods
from ._guard_policy import require_share
from ._knowledge import Sampling

_LEAST = {"limit": 1, "questions_per_side": 1, "passages_per_context": 2}


class UniKnowSettings(BaseModel):
    """Settings of a run; they go into its manifest.

    Attributes:
        methods: names of methods, or `all` for those that the model allows.
        limit: at most that many questions of the data set; None for all.
        questions_per_side: at most that many known and as many unknown questions are
            evaluated; None for all.
        samples: answers of a full estimate of knowledge.
        tau: share of right ones from which on a question is known.
        temperature: of these samples.
        risk: share of the questions that neither side answers which a guard may let
            through, in (0, 1).
        delta: probability in (0, 1) that this guarantee fails by chance.
        ablations: also train `lm_uniknow` with other shares of abstention, and with
            contexts left out.
        beyond: also use the kinds of contexts beyond the paper.
        passages_per_context: of the kinds with several passages, at least 2.
        training: of trained methods.
        preference_training: of `dpo`.
        seed: random seed.

    Raises:
        InputError: a value is out of range, or a method is unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[str, ...] = (ALL_METHODS,)
    limit: int | None = None
    questions_per_side: int | None = None
    samples: int = 10
    tau: float = 0.7
    temperature: float = 1.0
    risk: float = 0.1
    delta: float = 0.1
    ablations: bool = False
    beyond: bool = False
    passages_per_context: int = 4
    training: ScenarioTrainingSettings = Field(default_factory=ScenarioTrainingSettings)
    preference_training: ScenarioTrainingSettings = Field(default_factory=ScenarioTrainingSettings)
    seed: int = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_methods(self.methods)
        for name in ("risk", "delta"):
            require_share(name, getattr(self, name))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"must be at least {least}, not {value}", where=name, hint=f"use {least}"
                )
        assert self.sampling  # checks its values
        return self

    @property
    def sampling(self) -> Sampling:
        """How closed-book answers are sampled."""
        return Sampling(self.samples, self.tau, self.temperature, self.seed)

    @property
    def asks_for_all(self) -> bool:
        """Whether methods that the model does not allow are left out instead of rejected."""
        return ALL_METHODS in self.methods

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return (*PAPER_KINDS, *BEYOND_KINDS) if self.beyond else PAPER_KINDS
