"""From match features to one number: logistic mixes, for one passage and for several.

A passage alone is judged by its features; several together by their best value per
feature, by how far the best stands out from the rest, and by what the passages gain when
a question token may find its match in any of them. Five near-misses look alike, so none
stands out; two half answers gain when they are joined.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from ...errors import InputError
from ...files import write_text
from ...fingerprint import Artefact
from ...model_files import read_model_part


def require_sets(questions: Sequence[str], passages: Sequence[Sequence[str]]) -> None:
    """Reject questions without passages of their own.

    Raises:
        InputError: the lengths differ, or a question has no passage.
    """
    if len(questions) != len(passages):
        raise InputError(f"{len(questions)} questions but {len(passages)} sets of passages")
    if not all(passages):
        raise InputError("a question has no passage", hint="nothing retrieved is not scored")


SCHEMA_VERSION = 2
# How many further passages the best one is held against: of five retrieved ones not the last,
# or an irrelevant passage in its place would make the best one stand out.
RIVALS = 3

FEATURES = ("cosine", "idf_match", "match", "coverage")


class FeatureMix(Artefact):
    """Log-odds that passages suffice.

    `bias + Σ top·(best value) + Σ margin·(best − mean of the next three)
    + Σ gain·(joined value − best value)`; one passage has neither margin nor gain.
    """

    LEFT_OUT = ("margin", "gain")

    bias: FiniteFloat
    top: tuple[FiniteFloat, ...]
    margin: tuple[FiniteFloat, ...] = ()
    gain: tuple[FiniteFloat, ...] = ()

    @classmethod
    def of(cls, flat: Sequence[float], count: int) -> FeatureMix:
        """A mix of so many features from bias, `top`, and `margin` and `gain` if there are any."""
        top, margin, gain = (tuple(flat[1 + i * count :][:count]) for i in range(3))
        return cls(bias=flat[0], top=top, margin=margin, gain=gain)

    @property
    def flat(self) -> list[float]:
        """The weights as `of` takes them."""
        return [self.bias, *self.top, *self.margin, *self.gain]


# Of what a passage tells beside text that asks; and by how much that lies above the best of
# the other passages, 0 where there is none.
TOLD_FEATURES = (
    *FEATURES,
    "length",
    "cosine_beyond",
    "idf_match_beyond",
    "match_beyond",
)
_TOLD = len(TOLD_FEATURES)


class EchoMix(Artefact):
    """Log-odds that what a passage tells beside a copy of the question answers it.

    `bias + Σ weights·value` over `TOLD_FEATURES`. Passages that repeat the question and
    answer it count in full, those that repeat it and say something else as what they say.
    """

    bias: FiniteFloat
    weights: Annotated[tuple[FiniteFloat, ...], Field(min_length=_TOLD, max_length=_TOLD)]

    def share(self, values: Sequence[float]) -> float:
        """How much of the text that asks counts, in [0, 1]."""
        return float(1.0 / (1.0 + math.exp(-(self.bias + _dot(self.weights, values)))))


class MatchModel(Artefact):
    """A fitted mix of match features; immutable.

    Attributes:
        schema_version: of the file.
        features: names out of `FEATURES`, in the order of the weights.
        length_penalty: see the match features; at least 0.
        single: for one passage; also the score of each passage.
        several: for two passages or more.
        told: for passages that repeat the question.
        fitted_on: what the weights were fitted on, in words.
    """

    schema_version: Annotated[int, Field(le=SCHEMA_VERSION)] = SCHEMA_VERSION
    features: tuple[str, ...]
    length_penalty: Annotated[float, Field(ge=0, le=1)]
    single: FeatureMix
    several: FeatureMix
    told: EchoMix
    fitted_on: str = ""

    @model_validator(mode="after")
    def _fits(self) -> MatchModel:
        names, several = set(self.features), self.several
        if not names <= set(FEATURES) or not 0 < len(names) == len(self.features):
            raise ValueError("features: unknown, repeated or none")
        if self.single.margin or self.single.gain:
            raise ValueError("single: one passage has neither margin nor gain")
        weights = (self.single.top, several.top, several.margin, several.gain)
        if {*map(len, weights)} != {len(names)}:
            raise ValueError("as many weights as features are needed")
        return self

    @property
    def sha256(self) -> str:
        """Of the mix as it is stored, without white space."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def vector(self, values: Mapping[str, float]) -> list[float]:
        """The values in the order of the weights."""
        return [values[name] for name in self.features]

    def passage_score(self, vector: Sequence[float]) -> float:
        """Log-odds that this passage alone suffices."""
        return self.single.bias + _dot(self.single.top, vector)

    def joint_score(self, vectors: Sequence[Sequence[float]], joined: Sequence[float]) -> float:
        """Log-odds that the passages together suffice.

        Args:
            vectors: features per passage, at least one; equal ones count once.
            joined: features of the passages taken as one.
        """
        # A passage that was retrieved twice says no more, and is no rival of itself.
        distinct = list(dict.fromkeys(map(tuple, vectors)))
        if len(distinct) == 1:
            return self.passage_score(vectors[0])
        top, margin, gain = set_features(distinct, joined)
        mix = self.several
        return mix.bias + _dot(mix.top, top) + _dot(mix.margin, margin) + _dot(mix.gain, gain)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MatchModel:
        """Read the JSON file.

        Raises:
            ModelFolderError: it is missing, not JSON or of a newer version, or a field is wrong.
        """
        hint = "upgrade knowgate, or write it with `knowgate tune relevance`"
        return read_model_part(Path(path), cls, hint)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file atomically."""
        write_text(Path(path), self.model_dump_json(indent=1) + "\n")


class CrossMix(Artefact):
    """Log-odds that passages suffice, from both models; no weight is below 0.

    Attributes:
        bias: of the sum.
        embedded: weight of the trained scorer's joint log-odds.
        best: weight of the cross-encoder's highest log-odds.
        margin: weight of what that is above the mean of the others that were read.
        fitted_on: what the weights were fitted on, in words.
    """

    bias: FiniteFloat
    embedded: Annotated[FiniteFloat, Field(ge=0)]
    best: Annotated[FiniteFloat, Field(ge=0)]
    margin: Annotated[FiniteFloat, Field(ge=0)]
    fitted_on: str = ""

    def joint(self, embedded: float, read: Sequence[float]) -> float:
        """The log-odds of a question's passages.

        Args:
            embedded: joint log-odds of the trained scorer.
            read: log-odds of the passages that the cross-encoder has read, at least one.

        Example:
            >>> CrossMix(bias=0.5, embedded=1.0, best=0.5, margin=0.25).joint(1.0, [2.0, 0.0])
            3.0
        """
        values = self.values(embedded, read)
        return self.bias + _dot((self.embedded, self.best, self.margin), values)

    @staticmethod
    def values(embedded: float, read: Sequence[float]) -> list[float]:
        """What the weights multiply."""
        best, *others = sorted(read, reverse=True)
        return [embedded, best, best - sum(others) / len(others) if others else 0.0]


def set_features(
    vectors: Sequence[Sequence[float]],
    joined: Sequence[float],
) -> tuple[list[float], list[float], list[float]]:
    """Best value, margin over the rest, and gain of joining, per feature.

    Example:
        >>> set_features([[1.0], [0.5], [0.0]], [1.25])
        ([1.0], [0.75], [0.25])
    """
    columns = np.sort(np.asarray(vectors, dtype=np.float64), axis=0)[::-1]
    top = columns[0]
    rivals = columns[1 : 1 + RIVALS].mean(axis=0) if len(columns) > 1 else top
    gain = np.maximum(np.asarray(joined) - top, 0.0)
    return top.tolist(), (top - rivals).tolist(), gain.tolist()


def _dot(weights: Sequence[float], values: Sequence[float]) -> float:
    # Left to right, so that a score never depends on how it was batched.
    return float(sum(weight * value for weight, value in zip(weights, values, strict=True)))
