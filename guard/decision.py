"""Enums for routes, reasons and modes, and the decision on one question.

Terms follow the UniKnow framework ("UniKnow: A Unified Framework for Reliable
Language Model Behavior across Parametric and External Knowledge").
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from .contracts import Answerability, View
from .fingerprint import RelevanceStage
from .text import passage_name

# Further names of this module are listed by the package.


class Route(StrEnum):
    """What happens with a question."""

    FOLLOW_CONTEXT = "follow_context"
    ANSWER = "answer"
    ABSTAIN = "abstain"


class Scenario(StrEnum):
    """Which of context and model know the answer, as far as it was measured."""

    CONFLICT = "conflict"
    AGREEMENT = "agreement"
    EXTERNAL_ONLY = "external_only"
    PARAMETRIC_ONLY = "parametric_only"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a decision went the way it did; each abstention can have its own reply.

    `other_language` stands for `insufficient_context` where the question is clearly in another
    language than the passages: the scorer may not have understood it.
    `shadow_failed` is given where a chain in shadow mode could not decide at all.
    `small_talk` is given to messages of a conversation that the guard is not asked about.
    A veto of one's own adds two reasons, its `reason` and `<name>_failed`, as plain text.
    `reply_abstained` and `reply_unsupported` belong to no decision: they name the reply that
    replaces an abstention which the model itself generated, and one that the passages do not
    bear out.
    """

    SUFFICIENT_CONTEXT = "sufficient_context"
    CONFLICT_FOLLOWS_CONTEXT = "conflict_follows_context"
    CONFLICT_SHOWS_BOTH = "conflict_shows_both"
    CONFIDENT_MEMORY = "confident_memory"
    SIGNAL_FAILED_FOLLOWS_CONTEXT = "signal_failed_follows_context"
    NOTHING_RETRIEVED = "nothing_retrieved"
    INSUFFICIENT_CONTEXT = "insufficient_context"
    OTHER_LANGUAGE = "other_language"
    NEITHER_KNOWS = "neither_knows"
    CONFLICT = "conflict"
    FALSE_PREMISE = "false_premise"
    NO_THRESHOLD = "no_threshold"
    INVALID_INPUT = "invalid_input"
    INVALID_PASSAGES = "invalid_passages"
    INPUT_TOO_LARGE = "input_too_large"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    REWRITING_FAILED = "rewriting_failed"
    RETRIEVAL_FAILED = "retrieval_failed"
    RELEVANCE_FAILED = "relevance_failed"
    CONFIDENCE_FAILED = "confidence_failed"
    CONFLICT_FAILED = "conflict_failed"
    ANSWERABILITY_FAILED = "answerability_failed"
    REPLY_ABSTAINED = "reply_abstained"
    REPLY_UNSUPPORTED = "reply_unsupported"
    SMALL_TALK = "small_talk"
    SHADOW_FAILED = "shadow_failed"


class Mode(StrEnum):
    """Whether decisions act, or are only taken and counted."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


class OnError(StrEnum):
    """What a failed signal leads to."""

    ABSTAIN = "abstain"
    FOLLOW_CONTEXT = "follow_context"
    RAISE = "raise"


class SignalName(StrEnum):
    """The signals that decide the route, in the order in which the guard measures them."""

    RELEVANCE = "relevance"
    CONFIDENCE = "confidence"
    CONFLICT = "conflict"


class Found(BaseModel):
    """What was retrieved for a question from which the guard abstains, nearest first.

    Attributes:
        documents: the passages that have text, as they were given.
        scores: the raw score of each; None where relevance was not measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    documents: tuple[Any, ...]
    scores: tuple[float | None, ...]

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Names of the nearest pages, at most three: `title`, or else `source`, of each.

        They are read from the documents' metadata; a document without either is passed
        over, and a page that was retrieved in several passages is named once.
        """
        names = filter(None, map(passage_name, self.documents))
        return tuple(dict.fromkeys(names))[:3]


class Decision(BaseModel):
    """The guard's decision for one question; immutable.

    Attributes:
        route: where the question goes (in shadow mode: where it would go).
        reason: why; text instead of a `Reason` for a veto of one's own.
        scenario: which of context and model know the answer, None as far as
            the signals that were needed leave it open.
        relevance: calibrated probability in [0, 1] that the passages together
            suffice, None when it was not measured or failed.
        confidence: calibrated probability in [0, 1] that the closed-book answer
            is right, None when it was not needed or failed.
        conflict: whether there is a conflict of the kind that the policy looks for,
            None likewise.
        answerability: what the premise check found; None without one.
        vetoes: strength of each other veto that was measured, by name; left out of the
            serialised decision when there is none.
        kept: indices of the passages that belong into the prompt, those whose own score
            shows that they do not bear on the question left out where the policy has a
            `kept_margin`; empty unless the route is `follow_context`.
        found: the nearest passages of an abstention; None where nothing was retrieved. It
            holds the documents themselves and is left out of the serialised decision.
        raw_relevance: the question's relevance before calibration, on the scorer's own
            scale: the aggregate of `scores`, or the scorer's joint value; None when it
            was not measured, failed, or there was nothing to score.
        scores: raw relevance score per passage, in the order passed; None for a
            passage without text.
        relevance_stage: which stage of a cascade of scorers `relevance` rests on: `cheap`,
            `costly`, or `fallback` where the costly one was asked and failed; None, and left out
            of the serialised decision, for any other scorer.
        closed_book_answer: the model's own answer, where one was drawn.
        views: the answers that the conflict detector found, each with the indices of
            the passages that support it and whether the model's memory does; empty
            where conflict was not measured, or the detector does not tell.
        failed_signals: names of signals that were asked for and failed.
        mode: `enforce` or `shadow`.
        timings: seconds per stage: each signal by name, and `total`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    route: Route
    # Left to right, so that a reason of the guard is always the member of the enum.
    reason: Annotated[Reason | str, Field(union_mode="left_to_right")]
    scenario: Scenario | None = None
    relevance: float | None = None
    raw_relevance: float | None = None
    confidence: float | None = None
    conflict: bool | None = None
    answerability: Answerability | None = None
    vetoes: dict[str, float] = Field(default_factory=dict)
    kept: tuple[int, ...] = ()
    found: Found | None = Field(default=None, exclude=True, repr=False)
    scores: tuple[float | None, ...] = ()
    relevance_stage: RelevanceStage | None = None
    closed_book_answer: str | None = None
    views: tuple[View, ...] = ()
    failed_signals: tuple[str, ...] = ()
    mode: Mode = Mode.ENFORCE
    timings: dict[str, float] = Field(default_factory=dict)

    # It holds dictionaries.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Whether both decide the same; what an abstention carries along does not count."""
        if not isinstance(other, Decision):
            return NotImplemented
        return {**self.__dict__, "found": None} == {**other.__dict__, "found": None}

    @model_serializer(mode="wrap")
    def _plainly(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        _ = self.route  # a decision that is still being made is there from here on
        fields: dict[str, Any] = _plain(handler(self))
        if not self.vetoes:
            fields.pop("vetoes", None)
        if self.relevance_stage is None:
            fields.pop("relevance_stage", None)
        return fields

    @property
    def acts(self) -> bool:
        """False in shadow mode, where a decision is taken and counted only."""
        return self.mode is Mode.ENFORCE


def _plain(value: Any) -> Any:
    """`value` with the values of enums in their place, which every store can hold."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    return value
