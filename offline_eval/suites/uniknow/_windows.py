"""Cut windows of about 100 words around an answer, and choose the one that supports it best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import TextEmbedder
from ...data.embedding import embed_all
from ...run.calls import OnProgress, Progress
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

        def advance(done: int, total: int) -> None:
            if on_progress is not None:
                on_progress(Progress("encoding texts", done, total))

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
_CHARACTER_WORDS = 0.6
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
    units = [(m.start(), m.end(), _length(m.group())) for m in _UNIT.finditer(text)]
    inside = [i for i, (start, end, _) in enumerate(units) if end > span[0] and start < span[1]]
    if not inside:
        return text[span[0] : span[1]]
    grown = _Grown(text, units, inside[0], inside[-1], words)
    grown.grow()
    grown.begin_with_a_sentence()
    grown.end_with_a_sentence()
    return text[units[grown.left][0] : units[grown.right][1]]


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


def _length(unit: str) -> float:
    return _CHARACTER_WORDS if re.match(f"[{CJK}]", unit) else 1.0


class _Grown:
    """A window that grows from the answer; `left` and `right` are its first and last units."""

    def __init__(
        self, text: str, units: list[tuple[int, int, float]], first: int, last: int, words: int
    ) -> None:
        self._text, self._units, self._words = text, units, float(words)
        self._first, self._last = first, last
        self.left, self.right = first, last
        self._length = math.fsum(unit[2] for unit in units[first : last + 1])

    def grow(self) -> None:
        """Grow to the full length, evenly on both sides while both have text."""
        while self._add(self.left - 1) | self._add(self.right + 1):
            pass

    def begin_with_a_sentence(self) -> None:
        """Remove a partial sentence at the beginning, and grow at the end instead."""
        if self._begins_a_sentence(self.left):
            return
        for start in range(self.left + 1, self._first + 1):
            if self._begins_a_sentence(start):
                lost = self._between(self.left, start)
                after = self._between(self.right + 1, len(self._units))
                if self._length - lost + after >= _SHORTEST * self._words:
                    self._length -= lost
                    self.left = start
                    while self._add(self.right + 1):
                        pass
                return

    def end_with_a_sentence(self) -> None:
        """Remove a partial sentence at the end, unless too little would remain."""
        for end in range(self.right, self._last - 1, -1):
            if self._ends_a_sentence(end):
                if self._length - self._between(end + 1, self.right + 1) >= (
                    _SHORTEST * self._words
                ):
                    self.right = end
                return

    def _between(self, start: int, end: int) -> float:
        return math.fsum(unit[2] for unit in self._units[start:end])

    def _add(self, index: int) -> bool:
        if not 0 <= index < len(self._units):
            return False
        length = self._length + self._units[index][2]
        if length > self._words + 1e-9:
            return False
        self._length = length
        self.left, self.right = min(self.left, index), max(self.right, index)
        return True

    def _ends_a_sentence(self, index: int) -> bool:
        start, end, _ = self._units[index]
        # Chinese punctuation is a unit of its own, or part of the unit after it.
        return index == len(self._units) - 1 or bool(_SENTENCE_END.search(self._text[start:end]))

    def _begins_a_sentence(self, index: int) -> bool:
        return index == 0 or self._ends_a_sentence(index - 1)
