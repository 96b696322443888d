"""Settings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, field_validator

from .._parts import SuiteSettings
from ._items import MICROWORLD, EvidenceKind, Task
from ._rows import AnswerForm, BeliefSource


class ConflictSettings(SuiteSettings):
    """What decides the rows of a run.

    Raises:
        ValueError: a value is out of range, or no kind of evidence contradicts.
    """

    data: str = Field(
        MICROWORLD,
        description="microworld, or a file or folder: ConflictQA, WikiContradict, or JSON lines "
        "with question and answers.",
    )
    replies: Path | None = Field(
        None, description="With --model replay: logged replies, JSON lines."
    )
    beliefs: BeliefSource | None = Field(
        None,
        description="given with the data, asked (yes or no for each answer), or closed_book; by "
        "default given where the data have them, asked otherwise",
    )
    tasks: tuple[Task, ...] = Field(tuple(Task), description="Tasks, with commas between them")
    kinds: tuple[EvidenceKind, ...] = Field(
        tuple(EvidenceKind),
        description="Kinds of evidence, with commas between them",
        json_schema_extra={"option": "--evidence"},
    )
    answers: AnswerForm | None = Field(
        None,
        description="How answers are taken; by default likelihood for a model that scores options "
        "and has no chat template, letters otherwise",
    )
    editor: str | None = Field(
        None, description="A model that writes evidence that the data do not have."
    )
    judges: tuple[str, ...] = Field(
        (),
        description="A model that checks passages; name two. The first reads free answers.",
        json_schema_extra={"option": "--judge"},
    )
    nli: Path | None = Field(
        None, description="Folder of an entailment model that checks passages."
    )
    limit: int | None = Field(None, ge=1, description="At most that many questions.")
    seed: int = Field(0, description="Random seed of the options' places.")
    prompts: Path | None = Field(
        None, description="Folder with prompts of your own; see the guide."
    )

    @field_validator("tasks")
    @classmethod
    def _some_task(cls, tasks: Sequence[Task]) -> tuple[Task, ...]:
        if not tasks:
            raise ValueError(f"no task was named — {', '.join(Task)}")
        return tuple(task for task in Task if task in tasks)

    @field_validator("kinds")
    @classmethod
    def _some_conflict(cls, kinds: Sequence[EvidenceKind]) -> tuple[EvidenceKind, ...]:
        if EvidenceKind.NC not in kinds or len(set(kinds)) < 2:
            raise ValueError(
                f"NC and a kind that contradicts are needed — {', '.join(EvidenceKind)}"
            )
        return tuple(kind for kind in EvidenceKind if kind in kinds)
