"""How near a reply comes to an answer, and how far sources bear it out: numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...guard import UnsupportedLanguageError
from ...guard.conflict._words import read_answer
from ...guard.relevance import EncodedText, TokenEncoder, word_piece_idf
from ...guard.relevance._late_interaction import best_cosines, token_weights

Floats = NDArray[np.float64]


class AnswerSimilarity:
    """Similarities of texts about one question, by the embedded encoder.

    What the question says already counts for little: a reply that only repeats it is near
    every answer otherwise.

    Args:
        encoder: shared with others where they use the same; None for a new one over the
            embedded model, which knows English only.
    """

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        self._encoder = TokenEncoder() if encoder is None else encoder
        self._idf = word_piece_idf(self._encoder)

    @property
    def fingerprint(self) -> str:
        """Of model and settings."""
        return self._encoder.fingerprint("answer_similarity").model_dump_json()

    def closeness(self, question: str, expected: str, reply: str) -> float:
        """How near `reply` comes to `expected`, in [-1, 1].

        The mean of two: the cosine of "question expected" and "question reply", and how far
        the expected answer's words are met by the reply's.

        Raises:
            UnsupportedLanguageError: a text is in a script that the model does not know.
        """
        self._check(question, expected, reply)
        first, second = self._encoder.encode_first(
            [f"{question} {expected}", f"{question} {reply}"]
        )
        cosine = float(np.dot(first.embedding, second.embedding))
        return (cosine + self.met(question, expected, [reply])) / 2

    def met(self, question: str, text: str, sources: Sequence[str]) -> float:
        """How far the words of `text` are met by those of the sources, in [-1, 1].

        The mean over the text's tokens of the best cosine to any token of any source,
        weighted by inverse document frequency and by how little the question meets them.
        A text without tokens of its own is met by anything, and nothing by no sources.

        Raises:
            UnsupportedLanguageError: as `closeness`.
        """
        self._check(question, text, *sources)
        asked, told = self._encoder.encode_first([question, text])
        windows = [window for those in self._encoder.encode(list(sources)) for window in those]
        weights = self._new(told, asked)
        total = float(weights.sum())
        if total <= 0.0:
            return 1.0
        if not windows:
            return 0.0
        return float(weights @ best_cosines(told, windows)) / total

    def _new(self, told: EncodedText, asked: EncodedText) -> Floats:
        weights = token_weights(told, self._idf, self._encoder.unknown_id)
        new: Floats = weights * (1.0 - np.clip(best_cosines(told, [asked]), 0.0, 1.0))
        return new

    def _check(self, *texts: str) -> None:
        if not self._encoder.supports(" ".join(texts)):
            raise UnsupportedLanguageError(
                "relevance", "the embedded encoder knows texts in Latin letters only"
            )


def new_numbers(text: str, *known: str) -> frozenset[str]:
    """Numbers in `text` that stand in none of the other texts.

    Example:
        >>> sorted(new_numbers("2 of 30 within five days", "30 days, two weeks"))
        ['5']
    """
    said = frozenset().union(*(read_answer(other).numbers for other in known))
    return read_answer(text).numbers - said


def numbers_clash(question: str, expected: str, reply: str) -> bool:
    """Whether both answer with numbers, and with none alike.

    Example:
        >>> numbers_clash("How deep?", "1.6 mm", "at least 3 mm")
        True
    """
    mine, yours = new_numbers(expected, question), new_numbers(reply, question)
    return bool(mine) and bool(yours) and mine.isdisjoint(yours)
