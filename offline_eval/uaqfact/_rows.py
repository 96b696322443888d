"""What the files of a run of this suite hold, line by line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...guard import Route
from ..ookb import InputFile, RowError
from ._items import Answerability, QuestionType

SUITE = "uaqfact"
MODEL_SYSTEM = "model"
# Folder within a run's: the questions that it asked.
QUESTIONS = "questions"

Form = Literal["question", "choice", "clue", "facts", "retrieved"]
"""How a question is put: alone (task 1), with options (task 2), after its reasoning, with
the facts behind it, or with retrieved facts (task 3)."""


class _Stored(BaseModel):
    # Unknown fields are left alone: a later writer may add some without a new schema.
    model_config = ConfigDict(frozen=True, extra="ignore")


class UaqManifest(_Stored):
    """`manifest.json`.

    Attributes:
        created_by: program and version that began the run.
        settings: what decides its rows.
        systems: the model, and guards in front of it.
        inputs: files that it was made from.
        quirks: what was odd in them.
        rows: how many the finished run has.
    """

    suite: Literal["uaqfact"]
    created_by: str = ""
    settings: dict[str, Any] = {}
    systems: tuple[str, ...]
    inputs: tuple[InputFile, ...] = ()
    quirks: tuple[str, ...] = ()
    rows: Annotated[int, Field(ge=0)]


class UaqRow(_Stored):
    """A line of `rows.jsonl`: what one system said to one question in one form.

    Attributes:
        row_id: `<system>/<form>/<key>`.
        key: of the item.
        kind: None for task 2.
        response: None exactly where there is an error, or where options were scored.
        letter: task 2: the chosen option, None where none could be read.
        right: task 2: whether it is the right one.
        shots: few-shot examples in the prompt.
        route: of the guard, None without one.
        reason: of the guard's decision, empty without one.
    """

    row_id: Annotated[str, Field(min_length=1)]
    system: str
    form: Form
    key: str
    language: str
    type: QuestionType
    kind: Answerability | None = None
    response: str | None = None
    letter: str | None = None
    right: bool | None = None
    shots: int = 0
    route: Route | None = None
    reason: str = ""
    error: RowError | None = None

    @property
    def task(self) -> int:
        """1, 2 or 3."""
        return {"question": 1, "choice": 2}.get(self.form, 3)


def row_id(system: str, form: str, key: str) -> str:
    """How a row is told from others."""
    return f"{system}/{form}/{key}"
