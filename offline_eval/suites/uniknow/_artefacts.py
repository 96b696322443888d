"""What the files of a run of this suite hold, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ....calibration.training.scenarios import ScenarioTrainingSettings
from ....guard.decision import Scenario
from ....guard.errors import InputError
from ._beyond import BEYOND_KINDS
from ._cases import PAPER_KINDS, ContextKind, Knowledge, Reply, ScenarioCase
from ._guard_policy import require_share
from ._knowledge import checked_rule, is_right
from ._methods import METHOD_NAMES, OPTIONAL_METHODS

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


def checked(model: type[_Model], value: dict[str, Any], *, where: str, hint: str) -> _Model:
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
        raise InputError(what, where=where, hint=hint) from None


def row_id(method: str, case: ScenarioCase) -> str:
    """Unique in a run."""
    return f"{method}|{case.case_id}"


def row_of(method: str, case: ScenarioCase, reply: Reply) -> dict[str, Any]:
    """A reply, judged by exact match after normalisation.

    `right`: an answer that the case expects. `parametric`: a gold answer where another one
    is expected. `misled`: what an untrue context says. All three are False for a reply
    that abstains or failed.
    """
    answers = "" if reply.abstained or reply.error else reply.text
    right = is_right(answers, case.expected)
    scenario = case.scenario
    return {
        "case_id": row_id(method, case),
        "method": method,
        "dataset": case.question.dataset,
        "question_id": case.question.id,
        "group": case.question.group,
        "context_kind": case.context.kind.value,
        "scenario": None if scenario is None else scenario.value,
        "knowledge": case.knowledge.value,
        "answer": reply.text,
        "abstained": reply.abstained,
        "right": right,
        "parametric": not right and is_right(answers, case.question.answers),
        "misled": not right and is_right(answers, case.context.untrue_answers),
        "route": reply.route,
        "relevance": reply.relevance,
        "confidence": reply.confidence,
        "error": reply.error,
    }


ALL = "all"
_LEAST = {"limit": 1, "questions_per_side": 1, "passages_per_context": 2}


@dataclass(frozen=True, slots=True)
class UniKnowSettings:
    """Settings of a run; they go into its manifest.

    Attributes:
        methods: names of methods, or `all` for those of `METHOD_NAMES` that the model
            allows.
        limit: questions of the data set at most; None for all.
        questions_per_side: known and unknown questions evaluated at most, each; None: all.
        samples: answers of a full estimate of knowledge.
        tau: share of right ones from which on a question is known.
        temperature: of these samples.
        risk: share of the questions that neither side answers which a guard may let
            through, in (0, 1).
        delta: probability in (0, 1) that this promise fails by bad luck.
        ablations: also train `lm_uniknow` with other shares of abstention, and with
            contexts left out.
        beyond: also ask the kinds of contexts beyond the paper.
        passages_per_context: of the kinds with several passages, at least 2.
        training: of trained methods.
        preference_training: of `dpo`.
        seed: of everything that is drawn.

    Raises:
        InputError: a value is out of its range, or a method is unknown.
    """

    methods: tuple[str, ...] = (ALL,)
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
    training: ScenarioTrainingSettings = field(default_factory=ScenarioTrainingSettings)
    preference_training: ScenarioTrainingSettings = field(default_factory=ScenarioTrainingSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        check_methods(self.methods)
        for name in ("risk", "delta"):
            require_share(name, getattr(self, name))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"must be at least {least}, not {value}", where=name, hint=f"use {least}"
                )
        # Before a run begins, which would leave its folder behind.
        checked_rule(self.samples, self.tau, self.temperature)

    @property
    def asks_for_all(self) -> bool:
        """Whether methods that the model does not allow are left out, not refused."""
        return ALL in self.methods

    @property
    def method_names(self) -> tuple[str, ...]:
        """The methods asked for, each once, in the suite's order."""
        wanted = set(self.methods)
        if ALL in wanted:
            wanted |= set(METHOD_NAMES)
        return tuple(name for name in (*METHOD_NAMES, *OPTIONAL_METHODS) if name in wanted)

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return (*PAPER_KINDS, *BEYOND_KINDS) if self.beyond else PAPER_KINDS


def check_methods(names: Sequence[str]) -> None:
    """Refuse unknown methods.

    Raises:
        InputError: one is unknown, or none is named.
    """
    known = (*METHOD_NAMES, *OPTIONAL_METHODS, ALL)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(
            f"unknown method {unknown[0]!r}" if unknown else "no method is named",
            where="methods",
            hint=f"one or several of: {', '.join(known)}",
        )
