"""What the files of a run of this suite hold, line by line."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ...guard import InputError, Scenario
from ._cases import ContextKind, Knowledge

Identifier = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

_Model = TypeVar("_Model", bound=BaseModel)


class _Stored(BaseModel):
    # Unknown fields are left alone: a later writer may add some without a new schema.
    model_config = ConfigDict(frozen=True, extra="ignore")


class SourceFile(_Stored):
    """A file that a run was made from."""

    name: str
    sha256: str


class UniKnowManifest(_Stored):
    """`manifest.json`.

    Attributes:
        created_by: program and version that began the run.
        settings: what decides its rows.
        inputs: files that it was made from.
        methods: that answer, in the order of the rows; see also `PlanFile.left_out`.
        left_out: methods that were asked for and cannot be run on this model, with the reason.
    """

    suite: Literal["uniknow"]
    created_by: str
    settings: dict[str, Any]
    inputs: tuple[SourceFile, ...] = ()
    methods: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    left_out: dict[str, str] = Field(default_factory=dict)


class StoredProblem(_Stored):
    """A context that could not be built."""

    question_id: str
    kind: ContextKind
    reason: str


class PlanFile(_Stored):
    """`plan.json`: what `cases.jsonl` holds once it is whole.

    Attributes:
        training_cases: number of them.
        evaluation_cases: number of them.
        rows: that the run has once it is finished.
        grouped: whether no group is in both parts.
        knowledge: questions of the data set, by what the model knows.
        problems: contexts that could not be built.
        left_out: methods that were asked for and do not answer, with the reason: those of
            the manifest, and those that have nothing to be trained on.
    """

    training_cases: Count
    evaluation_cases: Count
    rows: Count
    grouped: bool
    knowledge: dict[str, Count]
    problems: tuple[StoredProblem, ...] = ()
    left_out: dict[str, str] = Field(default_factory=dict)


class StoredCase(_Stored):
    """A line of `cases.jsonl`: one question with one context, and what the model knows."""

    case_id: Identifier
    part: Literal["training", "evaluation"]
    dataset: str
    question_id: Identifier
    group: str
    question: str
    answers: Annotated[tuple[str, ...], Field(min_length=1)]
    context_kind: ContextKind
    passages: tuple[str, ...]
    context_answers: tuple[str, ...]
    untrue_answers: tuple[str, ...]
    knowledge: Knowledge
    samples_right: Count
    samples_drawn: Count
    knowledge_error: str | None = None


class StoredSignal(_Stored):
    """A line of `signals.jsonl`, see `UniKnowSignal`."""

    case_id: Identifier
    dataset: str
    question_id: Identifier
    group: str
    part: Literal["training", "evaluation"]
    kind: ContextKind
    holds_answer: bool
    raw_relevance: FiniteFloat | None
    raw_confidence: Share | None
    context_right: bool | None
    closed_book_right: bool | None
    closed_book: str | None
    context_reply: str | None
    scores: tuple[FiniteFloat | None, ...]
    error: str | None


class UniKnowRow(_Stored):
    """A line of `rows.jsonl`: one method's reply to one case, judged."""

    case_id: Identifier
    method: Identifier
    dataset: str
    question_id: Identifier
    group: str
    context_kind: ContextKind
    scenario: Scenario | None
    knowledge: Knowledge
    answer: str
    abstained: bool
    right: bool
    parametric: bool
    misled: bool
    route: Literal["follow_context", "answer", "abstain"] | None
    relevance: Share | None
    confidence: Share | None
    error: str | None


def checked(model: type[_Model], value: dict[str, Any], *, where: str, mend: str) -> _Model:
    """`value` as a `model`.

    Raises:
        InputError: a field is missing or off; names it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        what = f"field '{field}': {first['msg']}" if field else str(first["msg"])
        raise InputError(what, where=where, mend=mend) from None
