"""What a policy promises, to whom, and on what evidence."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ._routes import Route

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]

# Of a guarantee: left out of the file where they say nothing.
LATER_FIELDS = frozenset(
    {"method", "questions", "routes", "risks", "path", "chosen"}
    | {"population", "not_covered", "more_questions"}
)


class Artefact(BaseModel):
    """A part of a stored artefact: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyPoint(Artefact):
    """One point of a path of thresholds.

    Attributes:
        relevance: follow the context from this relevance on; None: never.
        confidence: answer from memory from this confidence on; None: never.
        on_conflict: what a conflict does to a context that passes: nothing (`ignore`),
            or the guard abstains.
        p_value: of "some promised bound is broken here".
        let_through: calibration questions let through here.
        errors: questions that went wrong here, in the sense of the guarantee's `loss`.
    """

    relevance: Probability | None
    confidence: Probability | None
    on_conflict: Literal["ignore", "abstain"] = "ignore"
    p_value: Probability
    let_through: Count
    errors: Count


class GuaranteedRisk(Artefact):
    """One bound of a guarantee that has several, and its evidence.

    Attributes:
        kind: which risk, e.g. `selective`, `follow`, `answer`, `false_abstention`, `cost`,
            `abstention`.
        bound: in (0, 1).
        n: questions that count for it.
        loss: how much went wrong among them: errors, or the sum of costs.
        p_value: of "the bound is broken".
        losses: cost of each mishap, for `cost`.
    """

    kind: str
    bound: Annotated[float, Field(gt=0, lt=1)]
    n: Count
    loss: Annotated[float, Field(ge=0)]
    p_value: Probability
    losses: dict[str, Probability] | None = None


class Guarantee(Artefact):
    """What was promised, and on what evidence.

    Attributes:
        statement: the promise in words.
        risk: the bound α that was asked for, in (0, 1).
        delta: probability δ in (0, 1) that the promise fails by bad luck in the draw.
        certified: False when no threshold met the target; the policy then abstains.
        loss: what counts as an error.
        unit: what is counted; always questions, never passages.
        n: units the certificate rests on.
        errors: units among them that went wrong at the threshold, in the sense of `loss`.
        method: how many candidates were tested without raising δ; empty for one threshold.
        questions: units that took part in the test, let through or not; None as `n`.
        routes: of those, how many went by each route.
        risks: every bound that was asked for, with its evidence at the chosen point; where
            nothing was certified, at the most promising one.
        path: the operating points, declared before the test, from strict to lax.
        chosen: index in `path` of the point that the policy serves by; None: none.
        population: whom the promise speaks of.
        not_covered: what it says nothing about.
        more_questions: about how many more would be needed, where nothing was certified
            and more could help.
    """

    statement: str
    risk: Annotated[float, Field(gt=0, lt=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    certified: bool
    loss: str
    unit: Literal["question"] = "question"
    n: Count
    errors: Count
    method: str = ""
    questions: Count | None = None
    routes: dict[Route, Count] = Field(default_factory=dict)
    risks: tuple[GuaranteedRisk, ...] = ()
    path: tuple[PolicyPoint, ...] = ()
    chosen: Count | None = None
    population: str = ""
    not_covered: tuple[str, ...] = ()
    more_questions: Count | None = None

    @model_validator(mode="after")
    def _counted(self) -> Guarantee:
        if self.errors > self.n:
            raise ValueError("errors must not exceed n")
        if self.chosen is not None and self.chosen >= len(self.path):
            raise ValueError("chosen must be an index of path")
        return self
