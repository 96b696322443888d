"""Relevance by late interaction: every word of the question looks for its best match.

What is promised: no training; scores in [-1, 1]; the score of a question and a passage
depends on these two alone, to the last bit on a CPU; `score_sets`, `score_set`,
`score_pairs` and `score` agree; a longer passage never scores less than its windows do.

Source: Khattab & Zaharia 2020, ColBERT (the best match per question token); weights by
inverse document frequency after Sparck Jones 1972.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._contracts import SetScore
from .._errors import ModelFolderError
from .._fingerprint import Fingerprint
from .._optional_imports import optional_import
from ..files import file_sha256
from ._passage_sets import require_sets
from ._products import best_products, unit_rows
from ._token_encoder import EncodedText, TokenEncoder

IDF_FILE = Path(__file__).parent / "data" / "word_piece_idf.safetensors"
IDF_SHA256 = "dd2984228544bb00b9b34bec0830ff88abe4cc32410c41a1b41fcb7a6c0ca6c8"


class LateInteractionScorer:
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

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        self._encoder = TokenEncoder() if encoder is None else encoder
        self._idf = word_piece_idf(self._encoder)

    @property
    def encoder(self) -> TokenEncoder:
        """What encodes the texts; holds the cache."""
        return self._encoder

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        weights = None if self._idf is None else IDF_SHA256
        return self._encoder.fingerprint("late_interaction", idf_sha256=weights)

    def supports(self, question: str) -> bool:
        """Whether the question is in a script that the model knows."""
        return self._encoder.supports(question)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Weighted cosines of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Weighted cosines of shape (len(pairs),) for (question, passage) pairs."""
        questions = self._encoder.encode_first([question for question, _ in pairs])
        passages = self._encoder.encode([passage for _, passage in pairs])
        found = [
            weighted_match(best_cosines(question, windows), self._weights(question))
            for question, windows in zip(questions, passages, strict=True)
        ]
        return np.asarray(found, dtype=np.float64)

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """The score of each passage, and of all together.

        Raises:
            InputError: there is no passage.
        """
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its own passages.

        Raises:
            InputError: the lengths differ, or a question has no passage.
        """
        require_sets(questions, passages)
        encoded = self._encoder.encode_first(questions)
        windows = iter(self._encoder.encode([passage for those in passages for passage in those]))
        return [
            self._judged(question, [next(windows) for _ in those])
            for question, those in zip(encoded, passages, strict=True)
        ]

    def _judged(self, question: EncodedText, passages: list[list[EncodedText]]) -> SetScore:
        weights = self._weights(question)
        # Passage by passage: one product over all would sum in another order.
        best = [best_cosines(question, windows) for windows in passages]
        together = np.max(np.stack(best), axis=0)
        return SetScore(
            tuple(weighted_match(one, weights) for one in best), weighted_match(together, weights)
        )

    def _weights(self, question: EncodedText) -> NDArray[np.float64]:
        return token_weights(question, self._idf, self._encoder.unknown_id)


def best_cosines(question: EncodedText, windows: Sequence[EncodedText]) -> NDArray[np.float64]:
    """For each question token the best cosine to any token of the windows.

    Shape (n,) for n question tokens without [CLS] and [SEP]; -1 where the windows have
    no token.
    """
    asked = unit_rows(question.vectors[1:-1])
    best = np.full(len(asked), -1.0)
    for window in windows:
        told = unit_rows(window.vectors[1:-1])
        if len(asked) and len(told):
            best = np.maximum(best, np.clip(best_products(asked, told), -1.0, 1.0))
    return best


def token_weights(
    question: EncodedText, idf: NDArray[np.float32] | None, unknown: int | None
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
    """Inverse document frequency by word-piece id, of shape (30522,).

    None where the encoder's vocabulary is another than the table's.

    Raises:
        ModelFolderError: the table's sha256 is not the expected one.
    """
    idf, vocabulary_sha256 = _idf_table()
    return idf if encoder.vocabulary_sha256() == vocabulary_sha256 else None


@lru_cache(maxsize=1)
def _idf_table() -> tuple[NDArray[np.float32], str]:
    found = file_sha256(IDF_FILE)
    if found != IDF_SHA256:
        raise ModelFolderError(
            f"the table's sha256 is {found[:12]}…, expected {IDF_SHA256[:12]}…",
            where=IDF_FILE.name,
            mend="reinstall knowgate",
        )
    library: Any = optional_import("safetensors")
    with library.safe_open(IDF_FILE, framework="np") as table:
        idf = table.get_tensor("idf").astype(np.float32)
        vocabulary = str(table.metadata()["vocabulary_sha256"])
    idf.setflags(write=False)
    return idf, vocabulary
