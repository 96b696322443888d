"""Relevance by late interaction: every word of the question looks for its best match.

What is promised: no training; scores in [-1, 1]; the score of a question and a passage
depends on these two alone, up to the last bits; `score_sets`, `score_set`,
`score_pairs` and `score` agree; a longer passage never scores less than its windows do.

Source: Khattab & Zaharia 2020, ColBERT (the best match per question token); weights by
inverse document frequency after Sparck Jones 1972.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...contracts import RelevanceScorer, SetRelevanceScorer, SetScore
from ...engine.encoder import TokenEncoder
from ...engine.passage_store import EncodedText
from ...errors import InputError, optional_import
from ...fingerprint import Fingerprint
from ...model_files import MS_MARCO, require_files
from ...text import foreign_language
from ._judge import JUDGE
from .match_model import require_sets

# OpenBLAS gives larger products to a crew of spinning threads: on a busy machine a product
# of 30 µs then takes 20 ms. Cut below its threshold of 262,144 multiplications it stays on
# the caller's thread. The cut depends on the pair alone, so results do as well.
_MOST_MULTIPLICATIONS = 200_000


def best_products(asked: NDArray[np.float32], told: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each row of `asked` the largest inner product with a row of `told`.

    Args:
        asked: shape (n, d).
        told: shape (m, d), m at least 1.

    Returns:
        Shape (n,), float32.
    """
    step = max(1, _MOST_MULTIPLICATIONS // max(1, asked.size))
    best = np.full(len(asked), -np.inf, dtype=np.float32)
    for start in range(0, len(told), step):
        np.maximum(best, (asked @ told[start : start + step].T).max(axis=1), out=best)
    return best


Floats = NDArray[np.float32]
_REFERENCE_LENGTH = 100


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTokens:
    """A question prepared for matching; [CLS] and [SEP] are left out.

    Attributes:
        ids: word-piece ids of shape (n,).
        weights: IDF weights that sum to 1, of shape (n,).
        text: the question as it was encoded.
    """

    ids: NDArray[np.int32]
    weights: Floats
    text: EncodedText

    @classmethod
    def of(cls, question: EncodedText, idf: Floats) -> QuestionTokens:
        """Prepare an encoded question; `idf` is indexed by word-piece id."""
        ids = question.ids[1:-1]
        weights = idf[ids]
        total = float(weights.sum())
        weights = weights / total if total > 0 else np.full(len(ids), 1 / max(1, len(ids)))
        return cls(ids, weights.astype(np.float32), question)


@dataclass(frozen=True, slots=True, eq=False)
class PassageMatch:
    """One passage, or several taken together, as met by a question.

    Attributes:
        cosine: of the embeddings, the best window's.
        best: per question token the best cosine to any passage token, of shape (n,).
        exact: per question token 1 where the passage has the same word piece, else 0; of
            shape (n,), and between the two where text that asks counts in part.
        pieces: word pieces of the passage.
    """

    cosine: float
    best: Floats
    exact: Floats
    pieces: int

    @classmethod
    def nothing(cls, tokens: int) -> PassageMatch:
        """The match of a question of so many tokens with a passage that tells nothing."""
        return cls(0.0, np.zeros(tokens, np.float32), np.zeros(tokens, np.float32), 0)

    def towards(self, other: PassageMatch, share: float) -> PassageMatch:
        """Between this match (share 0) and another (share 1), with the length of the other."""
        weight = np.float32(share)
        return PassageMatch(
            self.cosine + share * (other.cosine - self.cosine),
            self.best + weight * (other.best - self.best),
            self.exact + weight * (other.exact - self.exact),
            other.pieces,
        )


def match(question: QuestionTokens, windows: Sequence[EncodedText], stride: int) -> PassageMatch:
    """Match a question with a passage, given as its overlapping windows."""
    exact = np.zeros(len(question.ids), dtype=bool)
    cosine = -1.0
    for window in windows:
        cosine = max(cosine, float(np.dot(question.text.embedding, window.embedding)))
        if len(question.ids):
            exact |= (question.ids[:, None] == window.ids).any(axis=1)
    pieces = stride * (len(windows) - 1) + len(windows[-1].ids)
    best = _best_products(question.text, windows, slice(None))
    return PassageMatch(cosine, best, exact.astype(np.float32), pieces)


def _best_products(question: EncodedText, windows: Sequence[EncodedText], told: slice) -> Floats:
    """The best cosine of each question token with a token of the windows, at least -1.

    Of each window the tokens `told` are looked at: all, or all but [CLS] and [SEP].
    """
    best = np.full(len(question.ids) - 2, -1.0, dtype=np.float32)
    for window in windows:
        if len(best) and len(window.ids[told]):
            products = best_products(question.vectors[1:-1], window.vectors[told])
            np.maximum(best, products, out=best)
    return best


def joined(matches: Sequence[PassageMatch]) -> PassageMatch:
    """Several passages as one: each question token may be met by any of them."""
    return PassageMatch(
        max(found.cosine for found in matches),
        np.max([found.best for found in matches], axis=0),
        np.max([found.exact for found in matches], axis=0),
        max(found.pieces for found in matches),
    )


def match_values(
    question: QuestionTokens,
    found: PassageMatch,
    length_penalty: float,
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


IDF_FILE = Path(__file__).parent / "data" / "word_piece_idf.safetensors"
IDF_SHA256 = "dd2984228544bb00b9b34bec0830ff88abe4cc32410c41a1b41fcb7a6c0ca6c8"


class TokenScorer(SetRelevanceScorer):
    """A scorer that compares the tokens of questions and passages.

    Args:
        encoder: what encodes the texts; holds the cache.

    Attributes:
        encoder: as given.
    """

    def __init__(self, encoder: TokenEncoder) -> None:
        self.encoder = encoder

    @property
    def checks_deadline(self) -> bool:
        """Whether every pass is a short one, of one window on a CPU."""
        return self.encoder.device == "cpu"

    def supports(self, question: str) -> bool:
        """Whether the question is in a language that the model knows, as far as it is clear."""
        return self.encoder.supports(question) and not (
            self.encoder.is_embedded and foreign_language(question)
        )

    def reads_whole(self, passage: str) -> bool:
        """Whether a passage is read to its end, and not beyond so many windows."""
        return self.encoder.reads_whole(passage)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scores of shape (len(pairs),) for (question, passage) pairs."""
        found = self._judged([asked for asked, _ in pairs], [[told] for _, told in pairs])
        return np.asarray([one.scores[0] for one in found], dtype=np.float64)

    def score_sets(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[SetScore]:
        """The score of each passage, and of all of a question together.

        Raises:
            InputError: the lengths differ, or a question has no passage.
        """
        require_sets(questions, passages)
        return self._judged(questions, passages)

    @abstractmethod
    def _judged(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[SetScore]:
        """As `score_sets`, of questions that have passages."""


# Of these nothing can be computed before the question is there.
_READS_PAIRS = frozenset({"cross_encoder", MS_MARCO, JUDGE})


def token_encoder(scorer: RelevanceScorer) -> TokenEncoder:
    """The encoder of a scorer, which can read stored passages.

    Raises:
        InputError: the scorer encodes no tokens.
    """
    if isinstance(scorer, TokenScorer):
        return scorer.encoder
    kind = scorer.fingerprint.kind
    why = " (it reads question and passage together)" if kind in _READS_PAIRS else ""
    raise InputError(
        f"the scorer {kind!r} does not use stored passages{why}",
        hint="use sufficiency, late_interaction or a folder of `knowgate tune relevance`",
    )


class LateInteractionScorer(TokenScorer):
    """For each question token the best cosine to any passage token, weighted by IDF.

    [CLS] and [SEP] take no part, unknown word pieces weigh nothing. Of a long passage the
    best window counts, for each question token by itself; of several passages judged
    together the best passage, so that two half-answers add up. With a model of another
    vocabulary than the embedded one all word pieces weigh the same.

    Args:
        encoder: shared with other scorers where they use the same; None for a new one
            over the embedded model.

    Raises:
        ModelFolderError: the table of word-piece weights is not the expected one; and as
            `TokenEncoder` for a new one.
    """

    checks_deadline = TokenScorer.checks_deadline

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        super().__init__(TokenEncoder() if encoder is None else encoder)
        self._idf = word_piece_idf(self.encoder)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        weights = None if self._idf is None else IDF_SHA256
        return self.encoder.fingerprint("late_interaction", idf_sha256=weights)

    def _judged(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[SetScore]:
        encoded = self.encoder.encode_first(questions)
        windows = iter(self.encoder.encode([passage for those in passages for passage in those]))
        found = []
        for question, those in zip(encoded, passages, strict=True):
            weights = token_weights(question, self._idf, self.encoder.unknown_id)
            best = [best_cosines(question, next(windows)) for _ in those]
            together = weighted_match(np.max(np.stack(best), axis=0), weights)
            found.append(SetScore(tuple(weighted_match(one, weights) for one in best), together))
        return found


def best_cosines(question: EncodedText, windows: Sequence[EncodedText]) -> NDArray[np.float64]:
    """For each question token the best cosine to any token of the windows.

    Shape (n,) for n question tokens without [CLS] and [SEP]; -1 where the windows have
    no token.
    """
    found = _best_products(question, windows, slice(1, -1))
    return np.clip(found.astype(np.float64), -1.0, 1.0)


def token_weights(
    question: EncodedText,
    idf: NDArray[np.float32] | None,
    unknown: int | None,
) -> NDArray[np.float64]:
    """Weights of the question's tokens without [CLS] and [SEP], shape (n,), with sum 1.

    Equal ones without `idf`, or where no token weighs anything.
    """
    ids = question.ids[1:-1]
    weights = np.ones(len(ids)) if idf is None else idf[ids].astype(np.float64)
    if unknown is not None:
        weights = np.where(ids == unknown, 0.0, weights)
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(len(ids), 1.0 / max(1, len(ids)))


def weighted_match(best: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The weighted mean of best cosines, in [-1, 1]; -1 for a question without tokens."""
    if not len(best):
        return -1.0
    return min(1.0, max(-1.0, float(np.sum(best * weights))))


def word_piece_idf(encoder: TokenEncoder) -> NDArray[np.float32] | None:
    """Inverse document frequency by word-piece id, of shape (n,) for n word pieces.

    That of the embedded model's vocabulary stands in a table; another encoder may bring its own.
    None where there is neither.

    Raises:
        ModelFolderError: the table's sha256 is not the expected one.
    """
    if encoder.loaded.piece_weights is not None:
        return encoder.loaded.piece_weights
    idf, vocabulary_sha256 = _idf_table()
    return idf if encoder.vocabulary_sha256() == vocabulary_sha256 else None


@lru_cache(maxsize=1)
def _idf_table() -> tuple[NDArray[np.float32], str]:
    require_files(IDF_FILE.parent, {IDF_FILE.name: IDF_SHA256})
    library = optional_import("safetensors")
    with library.safe_open(IDF_FILE, framework="np") as table:
        idf = table.get_tensor("idf").astype(np.float32)
        vocabulary = str(table.metadata()["vocabulary_sha256"])
    idf.setflags(write=False)
    return idf, vocabulary
