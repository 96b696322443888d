"""The words for where a question goes and why.

Terms follow the UniKnow framework ("UniKnow: A Unified Framework for Reliable
Language Model Behavior across Parametric and External Knowledge").
"""

from __future__ import annotations

from enum import StrEnum


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

    `reply_abstained` is no decision's: it names the reply that takes the place of a
    refusal which the model itself generated.
    """

    SUFFICIENT_CONTEXT = "sufficient_context"
    CONFLICT_FOLLOWS_CONTEXT = "conflict_follows_context"
    CONFLICT_SHOWS_BOTH = "conflict_shows_both"
    CONFIDENT_MEMORY = "confident_memory"
    SIGNAL_FAILED_FOLLOWS_CONTEXT = "signal_failed_follows_context"
    NOTHING_RETRIEVED = "nothing_retrieved"
    INSUFFICIENT_CONTEXT = "insufficient_context"
    NEITHER_KNOWS = "neither_knows"
    CONFLICT = "conflict"
    FALSE_PREMISE = "false_premise"
    NO_THRESHOLD = "no_threshold"
    INVALID_INPUT = "invalid_input"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    RETRIEVAL_FAILED = "retrieval_failed"
    RELEVANCE_FAILED = "relevance_failed"
    CONFIDENCE_FAILED = "confidence_failed"
    CONFLICT_FAILED = "conflict_failed"
    ANSWERABILITY_FAILED = "answerability_failed"
    REPLY_ABSTAINED = "reply_abstained"


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
    """The measured quantities, in the order in which the guard asks for them."""

    ANSWERABILITY = "answerability"
    RELEVANCE = "relevance"
    CONFIDENCE = "confidence"
    CONFLICT = "conflict"
