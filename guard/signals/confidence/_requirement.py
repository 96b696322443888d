"""What a confidence estimator needs of its language model."""

from __future__ import annotations

from enum import StrEnum


class Requirement(StrEnum):
    """What an estimator needs of its language model; each includes those before it."""

    TEXT = "text"
    LOGPROBS = "logprobs"
    WEIGHTS = "weights"
