"""Cut windows of about 100 words around an answer, and choose the one that supports it best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import TextEmbedder
from ...data.embedding import embed_all
from ...run.calls import OnProgress
from ..parts import stage_progress
from ._matching import CJK, occurrences, words_of


class NearestPassages:
    """Ranks passages by their cosine with a question.

    Args:
        passages: what is ranked; equal texts are kept once.
        questions: those that will be asked, and other short texts to be compared.
        encoder: for both.
        on_progress: called with the number of texts encoded.
    """

    def __init__(
        self,
        passages: Sequence[str],
        questions: Sequence[str],
        encoder: TextEmbedder,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.passages = list(dict.fromkeys(passages))
        asked = list(dict.fromkeys(questions))
        advance = stage_progress(on_progress, "encoding texts")
        vectors = embed_all([*self.passages, *asked], encoder, advance)
        self._matrix = vectors[: len(self.passages)]
        self._queries = dict(zip(asked, vectors[len(self.passages) :], strict=True))

    def ranked(self, question: str) -> Iterator[str]:
        """Return all passages, the nearest first; ties in their given order."""
        if not self.passages:
            return
        cosines = self._matrix @ self._queries[question]
        for index in np.argsort(-cosines, kind="stable"):
            yield self.passages[int(index)]

    def likeness(self, text: str, others: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosines of a short text with others, of shape (len(others),)."""
        rows = np.stack([self._queries[other] for other in others])
        return np.asarray(rows @ self._queries[text], dtype=np.float32)


WINDOW_WORDS = 100
# An English word takes about 1.6 characters in Chinese.
_CHARACTER_TENTHS = 6
_SHORTEST = 0.75  # of the window's length, so that it may end with a sentence
_UNIT = re.compile(f"[{CJK}]|[^\\s{CJK}]+")
_SENTENCE_END = re.compile(r"[.!?。！？]['\")\]”’」]*$")


class WordWeights:
    """Weights words by how rare they are among texts.

    Args:
        texts: counted once each.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._texts = 0
        for text in dict.fromkeys(texts):
            self._counts.update(set(words_of(text)))
            self._texts += 1

    def support(self, question: str, text: str) -> float:
        """Return the share of the question's words that occur in `text`, weighted by rarity.

        In [0, 1]; 0.0 for a question without words, which no text supports.
        """
        there = set(words_of(text))
        weights = {word: self._weight(word) for word in set(words_of(question))}
        # Summed in a fixed order: sums of floats depend on it, and sets have none.
        total = math.fsum(weights.values())
        return (
            math.fsum(w for word, w in weights.items() if word in there) / total if total else 0.0
        )

    def _weight(self, word: str) -> float:
        return math.log(1 + max(1, self._texts) / max(0.5, self._counts[word]))


def window_around(text: str, span: tuple[int, int], *, words: int = WINDOW_WORDS) -> str:
    """Return the part of `text` around `span` that is about `words` words long.

    Args:
        text: any text; a Chinese or Japanese character counts as 0.6 words.
        span: start and end of the answer, which the window always holds whole.
        words: the length aimed at; the window is never longer unless the answer is.

    Returns:
        The window; it begins and ends with a sentence where that costs little, and is
        the whole text where that is no longer.
    """
    units = [match.span() for match in _UNIT.finditer(text)]
    inside = [i for i, (start, end) in enumerate(units) if end > span[0] and start < span[1]]
    if not inside:
        return text[span[0] : span[1]]
    # In tenths of a word, so that sums are exact.
    sums = [0, *accumulate(_tenths(text[start:end]) for start, end in units)]
    most, least, last = 10 * words, 10 * words * _SHORTEST, len(units) - 1

    def length(left: int, right: int) -> int:
        return sums[right + 1] - sums[left]

    def grown(left: int, right: int, *, leftwards: bool) -> tuple[int, int]:
        before = None
        while before != (left, right):
            before = left, right
            if leftwards and left > 0 and length(left - 1, right) <= most:
                left -= 1
            if right < last and length(left, right + 1) <= most:
                right += 1
        return left, right

    def ends_a_sentence(index: int) -> bool:
        start, end = units[index]
        # Chinese punctuation is a unit of its own, or part of the unit after it.
        return index == last or bool(_SENTENCE_END.search(text[start:end]))

    left, right = grown(inside[0], inside[-1], leftwards=True)
    begins = (at for at in range(left, inside[0] + 1) if at == 0 or ends_a_sentence(at - 1))
    begin = next(begins, left)
    if begin > left and length(begin, last) >= least:
        left, right = grown(begin, right, leftwards=False)
    ends = (at for at in range(right, inside[-1] - 1, -1) if ends_a_sentence(at))
    end = next(ends, right)
    if length(left, end) >= least:
        right = end
    return text[units[left][0] : units[right][1]]


def best_window(
    question: str,
    answers: Sequence[str],
    sources: Sequence[str],
    weights: WordWeights,
    *,
    words: int = WINDOW_WORDS,
) -> str | None:
    """Return the window around an answer that supports it best; None if no source holds one.

    Args:
        question: its words make up the support.
        answers: a window may hold any of them.
        sources: texts to cut from.
        weights: how rare words are.
        words: length of a window.
    """
    windows = dict.fromkeys(
        window_around(source, span, words=words)
        for source in sources
        for span in occurrences(source, answers)
    )
    return max(windows, key=lambda window: weights.support(question, window), default=None)


def _tenths(unit: str) -> int:
    return _CHARACTER_TENTHS if re.match(f"[{CJK}]", unit) else 10
