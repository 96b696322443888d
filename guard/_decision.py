"""What the guard returns for one question."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from ._conflict_finding import View
from ._premise_finding import Answerability
from ._routes import Mode, Reason, Route, Scenario


class Decision(BaseModel):
    """The guard's decision for one question; immutable.

    Attributes:
        route: where the question goes (in shadow mode: where it would go).
        reason: why.
        scenario: which of context and model know the answer, None as far as
            the signals that were needed leave it open.
        relevance: calibrated probability in [0, 1] that the passages together
            suffice, None when it was not measured or failed.
        confidence: calibrated probability in [0, 1] that the closed-book answer
            is right, None when it was not needed or failed.
        conflict: whether there is a conflict of the kind that the policy looks for,
            None likewise.
        answerability: what the passages tell of the question's premise; None where
            nothing was given to ask.
        kept: indices of the passages that belong into the prompt; empty unless
            the route is `follow_context`.
        raw_relevance: the question's relevance before calibration, on the scorer's own
            scale: the aggregate of `scores`, or the scorer's joint value; None when it
            was not measured, failed, or there was nothing to score.
        scores: raw relevance score per passage, in the order passed; None for a
            passage without text.
        closed_book_answer: the model's own answer, where one was drawn.
        views: the answers that the look for a conflict came upon, each with the
            indices of the passages that support it and whether the model's memory
            does; empty where none was looked for, or the detector does not tell.
        failed_signals: names of signals that were asked for and failed.
        mode: `enforce` or `shadow`.
        timings: seconds per stage (`answerability`, `relevance`, `confidence`,
            `conflict`, `total`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    route: Route
    reason: Reason
    scenario: Scenario | None = None
    relevance: float | None = None
    raw_relevance: float | None = None
    confidence: float | None = None
    conflict: bool | None = None
    answerability: Answerability | None = None
    kept: tuple[int, ...] = ()
    scores: tuple[float | None, ...] = ()
    closed_book_answer: str | None = None
    views: tuple[View, ...] = ()
    failed_signals: tuple[str, ...] = ()
    mode: Mode = Mode.ENFORCE
    timings: dict[str, float] = Field(default_factory=dict)

    @property
    def acts(self) -> bool:
        """False in shadow mode, where a decision is taken and counted only."""
        return self.mode is Mode.ENFORCE
