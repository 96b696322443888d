"""Settings of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from .._parts import SuiteSettings
from ._cases import BEYOND_KINDS, PAPER_KINDS, ContextKind
from ._choosing import ALL_METHODS, check_methods
from ._guard_policy import require_share
from ._knowledge import Sampling
from ._microworld import MICROWORLD

# Needs no training, and is the best of the bundled scorers on contexts of about 100 words that
# were retrieved wrongly: AUROC .991 on the microworld.
_GUARD_SCORER = "late_interaction"


class UniKnowSettings(SuiteSettings):
    """Settings of a run of the suite.

    Raises:
        InputError: a method is unknown, or a probability or the sampling is out of range.
    """

    data: str = Field(
        MICROWORLD,
        description="microworld, facts (the bundled list of short questions), or a file of "
        "questions (MRQA, SQuAD or JSON lines).",
    )
    model: str = Field(
        "embedded",
        description="embedded, smollm2, a model folder, gguf:FILE, a hub name, provider:model, or "
        "python:module:attribute.",
    )
    methods: tuple[str, ...] = Field(
        (ALL_METHODS,), description="all, or names of methods with commas between them."
    )
    knowledge: Path | None = Field(
        None,
        description="File that stores what models know, shared by runs; by default in the run "
        "folder.",
    )
    limit: Annotated[int | None, Field(ge=1, description="Use at most that many questions.")] = None
    questions_per_side: Annotated[
        int | None,
        Field(
            ge=1,
            description="Evaluate at most that many known and as many unknown questions, evenly "
            "spaced over the data set.",
        ),
    ] = None
    defined_only: bool = Field(
        False,
        description="Leave out questions that the model answers rightly at times; they count in "
        "Acc and Rely only.",
    )
    samples: int = Field(10, description="Closed-book answers that settle what the model knows.")
    tau: float = Field(0.7, description="Share of right answers from which on a question is known.")
    temperature: float = Field(1.0, description="Temperature of these answers.")
    risk: float = Field(
        0.1,
        description="Share that guards may let through where neither context nor model has the "
        "answer.",
    )
    delta: float = Field(
        0.1, description="Probability that the guarantee of the guards fails by chance."
    )
    ablations: bool = Field(False, description="Also train lm_uniknow on other data.")
    beyond: bool = Field(
        False, description="Also use contexts of several passages, and untrue ones."
    )
    passages_per_context: Annotated[
        int, Field(ge=2, description="Passages of the contexts with several.")
    ] = 4
    scorer: str = Field(
        _GUARD_SCORER, description="Scorer of the guards, by name, folder or judge:MODEL."
    )
    answer_tokens: Annotated[
        int, Field(ge=1, description="The most tokens an answer of a local model may have.")
    ] = 24
    rank: Annotated[
        int | None, Field(ge=1, description="Rank of trained adapters; by default what suits.")
    ] = None
    epochs: Annotated[
        int | None, Field(ge=1, description="Epochs of training; by default what suits.")
    ] = None
    training_steps: Annotated[
        int | None, Field(ge=1, description="Steps after which each training ends; by default all.")
    ] = None
    learning_rate: Annotated[
        float | None, Field(gt=0, description="Peak rate of training; by default what suits.")
    ] = None
    dtype: str = Field(
        "auto", description="Precision of a local model: auto, or a torch name, e.g. bfloat16."
    )
    seed: int = Field(0, description="Random seed.")

    @field_validator("methods", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        return [name.strip() for text in value for name in text.split(",") if name.strip()]

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_methods(self.methods)
        for name in ("risk", "delta"):
            require_share(name, getattr(self, name))
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
