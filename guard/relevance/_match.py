"""How the tokens of a question meet the tokens of passages: the features of sufficiency.

Every feature grows with sufficiency and is computed per passage; several passages also
have a joint form, in which a question token may find its match in any of them.

The best of many cosines is larger by chance than the best of few, about with the
logarithm of their number, so that long passages look better than they are. Token-match
features are therefore lowered by `length_penalty · log(word pieces / 100)`.

Source of late interaction: Khattab & Zaharia 2020, ColBERT. The length correction is
this project's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._products import best_products, unit_rows
from ._token_encoder import EncodedText

Floats = NDArray[np.float32]
_REFERENCE_LENGTH = 100


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTokens:
    """A question prepared for matching; [CLS] and [SEP] are left out.

    Attributes:
        ids: word-piece ids of shape (n,).
        units: token vectors of unit length, of shape (n, dimensions).
        weights: IDF weights that sum to 1, of shape (n,).
        embedding: the question's embedding of shape (dimensions,).
    """

    ids: NDArray[np.int32]
    units: Floats
    weights: Floats
    embedding: Floats

    @classmethod
    def of(cls, question: EncodedText, idf: Floats) -> QuestionTokens:
        """Prepare an encoded question; `idf` is indexed by word-piece id."""
        ids = question.ids[1:-1]
        weights = idf[ids]
        total = float(weights.sum())
        weights = weights / total if total > 0 else np.full(len(ids), 1 / max(1, len(ids)))
        return cls(
            ids, unit_rows(question.vectors[1:-1]), weights.astype(np.float32), question.embedding
        )


@dataclass(frozen=True, slots=True, eq=False)
class PassageMatch:
    """One passage, or several taken together, as met by a question.

    Attributes:
        cosine: of the embeddings, the best window's.
        best: per question token the best cosine to any passage token, of shape (n,).
        exact: per question token whether the passage has the same word piece, shape (n,).
        pieces: word pieces of the passage.
    """

    cosine: float
    best: Floats
    exact: NDArray[np.bool_]
    pieces: int


def match(question: QuestionTokens, windows: Sequence[EncodedText], stride: int) -> PassageMatch:
    """Match one passage, given as its overlapping windows."""
    best = np.full(len(question.ids), -1.0, dtype=np.float32)
    exact = np.zeros(len(question.ids), dtype=bool)
    cosine = -1.0
    for window in windows:
        cosine = max(cosine, float(np.dot(question.embedding, window.embedding)))
        if len(question.ids):
            best = np.maximum(best, best_products(question.units, unit_rows(window.vectors)))
            exact |= (question.ids[:, None] == window.ids).any(axis=1)
    return PassageMatch(cosine, best, exact, stride * (len(windows) - 1) + len(windows[-1].ids))


def joined(matches: Sequence[PassageMatch]) -> PassageMatch:
    """Several passages as one: each question token may be met by any of them."""
    return PassageMatch(
        max(found.cosine for found in matches),
        np.max([found.best for found in matches], axis=0),
        np.any([found.exact for found in matches], axis=0),
        max(found.pieces for found in matches),
    )


def match_values(
    question: QuestionTokens, found: PassageMatch, length_penalty: float
) -> dict[str, float]:
    """The features `cosine`, `idf_match`, `match` and `coverage` of one match.

    Returns:
        `cosine` in [-1, 1]; `idf_match` and `match`, the IDF-weighted and the plain mean
        of the best cosines, and `coverage`, the IDF-weighted share of question tokens
        that occur in the passage, each less the length penalty. A question without
        tokens has -1, -1 and 0 for the latter three.
    """
    penalty = length_penalty * math.log(max(found.pieces, 3) / _REFERENCE_LENGTH)
    if not len(question.ids):
        return {"cosine": found.cosine, "idf_match": -1.0, "match": -1.0, "coverage": 0.0}
    return {
        "cosine": found.cosine,
        "idf_match": float(np.dot(question.weights, found.best)) - penalty,
        "match": float(found.best.mean()) - penalty,
        "coverage": float(np.dot(question.weights, found.exact)) - penalty,
    }
