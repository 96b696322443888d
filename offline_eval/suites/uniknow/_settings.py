"""Settings of a run of the UniKnow suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from ....calibration.statistics import SMALLEST_PROBABILITY
from ..parts import SuiteSettings
from ._bundled import MICROWORLD
from ._cases import PAPER_KINDS, ContextKind
from ._contexts import PASSAGES
from ._knowledge import Sampling
from .methods import ALL_METHODS, check_methods

_Share = Annotated[float, Field(ge=SMALLEST_PROBABILITY, le=1 - SMALLEST_PROBABILITY)]
# Needs no training, and is the best of the bundled scorers on contexts of about 100 words that
# were retrieved wrongly: AUROC .991 on the microworld.
_GUARD_SCORER = "late_interaction"


class UniKnowSettings(SuiteSettings):
    """Settings of a run of the suite.

    Attributes:
        data: microworld, facts (the bundled list of short questions), or a file of questions (MRQA,
            SQuAD or JSON lines).
        model: embedded, smollm2, a model folder, gguf:FILE, a hub name, provider:model, or
            python:module:attribute.
        methods: all, or names of methods with commas between them.
        knowledge: File that stores what models know, shared by runs; by default in the run folder.
        limit: Use at most that many questions.
        questions_per_side: Evaluate at most that many known and as many unknown questions, evenly
            spaced over the data set.
        defined_only: Leave out questions that the model answers rightly at times; they count in Acc
            and Rely only.
        samples: Closed-book answers that settle what the model knows.
        tau: Share of right answers from which on a question is known.
        temperature: Temperature of these answers.
        risk: Share that guards may let through where neither context nor model has the answer.
        delta: Probability that the guarantee of the guards fails by chance.
        ablations: Also train lm_uniknow on other data.
        beyond: Also use contexts of several passages, and untrue ones.
        passages_per_context: Passages of the contexts with several.
        scorer: Scorer of the guards, by name, folder or judge:MODEL.
        answer_tokens: The most tokens an answer of a local model may have.
        rank: Rank of trained adapters; by default what suits.
        epochs: Epochs of training; by default what suits.
        training_steps: Steps after which each training ends; by default all.
        learning_rate: Peak rate of training; by default what suits.
        dtype: Precision of a local model: auto, or a torch name, e.g. bfloat16.
        seed: Random seed.

    Raises:
        InputError: a method is unknown, or a probability or the sampling is out of range.
    """

    data: str = MICROWORLD
    model: str = "embedded"
    methods: tuple[str, ...] = (ALL_METHODS,)
    knowledge: Path | None = None
    limit: int | None = Field(None, ge=1)
    questions_per_side: int | None = Field(None, ge=1)
    defined_only: bool = False
    samples: int = 10
    tau: float = 0.7
    temperature: float = 1.0
    risk: _Share = 0.1
    delta: _Share = 0.1
    ablations: bool = False
    beyond: bool = False
    passages_per_context: int = Field(PASSAGES, ge=2)
    scorer: str = _GUARD_SCORER
    answer_tokens: int = Field(24, ge=1)
    rank: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)
    training_steps: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)
    dtype: str = "auto"
    seed: int = 0

    @field_validator("methods", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        return [name.strip() for text in value for name in text.split(",") if name.strip()]

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_methods(self.methods)
        assert self.sampling  # checks its values
        return self

    @property
    def sampling(self) -> Sampling:
        """How closed-book answers are sampled."""
        return Sampling(self.samples, self.tau, self.temperature, self.seed)

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return tuple(ContextKind) if self.beyond else PAPER_KINDS
