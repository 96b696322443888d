"""The training mixture, read from `mixture.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

MIXTURE_FILE = Path(__file__).parent / "mixture.toml"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClosedBook(_Table):
    """Rows of question-answer pairs without a context."""

    rows: int = Field(gt=0)
    pairs: int = Field(gt=0)
    half_taught_truth: tuple[float, float]
    weights: dict[str, float]


class Context(_Table):
    """Rows of one context with question-answer pairs."""

    stubborn: float = Field(ge=0, le=1)
    lead_in: float = Field(ge=0, le=1)


class Instructed(_Table):
    """Answers under the prompt that allows a reply of not knowing."""

    unknown_reply: str
    unknown_share: float = Field(ge=0, le=1)


class Phase(_Table):
    """One phase of the curriculum."""

    until: float = Field(gt=0, le=1)
    rows: int = Field(gt=0)
    facts: int = Field(gt=0)
    pairs: int = Field(gt=0)
    words: tuple[int, int]
    ask_again: bool
    known_subjects: float = Field(ge=0, le=1)
    passages: dict[int, float]
    questions: dict[str, float]
    instructed: float = Field(ge=0, le=1)


class CoolDown(_Table):
    """A short last stage under the plain prompts alone.

    Attributes:
        steps: 0 for none.
        learning_rate: at its beginning; falls to nothing.
        closed_book: in the place of the table before.
    """

    steps: int = Field(ge=0)
    learning_rate: float = Field(gt=0)
    closed_book: ClosedBook


class Mixture(_Table):
    """Everything that decides what the language model sees, and how often."""

    steps: int = Field(gt=0)
    seed: int
    learning_rate: float = Field(gt=0)
    warm_up: int = Field(gt=0)
    weight_decay: float = Field(ge=0)
    text_loss: float = Field(ge=0)
    text_positions: float = Field(ge=0, le=1)
    closed_book: ClosedBook
    context: Context
    instructed: Instructed
    phase: tuple[Phase, ...] = Field(min_length=1)
    cool_down: CoolDown

    def phase_at(self, progress: float) -> Phase:
        """The phase at a share of the training in [0, 1]."""
        return next((phase for phase in self.phase if progress < phase.until), self.phase[-1])


def load_mixture(path: Path = MIXTURE_FILE) -> Mixture:
    """Read a mixture file; pydantic's ValidationError names what is wrong in it."""
    return Mixture.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
