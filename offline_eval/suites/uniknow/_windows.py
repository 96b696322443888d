"""Cut windows of about 100 words around an answer, and choose the one that supports it best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import TextEmbedder
from ...data.answers.matching import CJK, words_of
from ...data.answers.occurrences import occurrences
from ...data.embedding import embed_all
from ...run.calls import OnProgress
from ..parts import stage_progress


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
_SHORTEST = 0.75  # of the window's length, for one of whole sentences
_UNIT = re.compile(f"[{CJK}]|[^\\s{CJK}]+")
_SENTENCE = re.compile(r"\S.*?(?:[.!?]['\")\]”’」]*(?=\s|$)|[。！？]['\")\]”’」]*|$)", re.DOTALL)


def word_weights(texts: Iterable[str]) -> Callable[[str], float]:
    """Return what weights a word by how rare it is among texts, each counted once."""
    different = dict.fromkeys(texts)
    counts = Counter(word for text in different for word in set(words_of(text)))
    return lambda word: math.log(1 + max(1, len(different)) / max(0.5, counts[word]))


def window_around(text: str, span: tuple[int, int], *, words: int = WINDOW_WORDS) -> str:
    """Return the part of `text` around `span` that is about `words` words long.

    Args:
        text: any text; a Chinese or Japanese character counts as 0.6 words.
        span: start and end of the answer, which the window always holds whole.
        words: the length aimed at; the window is never longer unless the answer is.

    Returns:
        The window, of whole sentences where that costs little; the whole text where that is
        no longer.
    """
    for unit in (_SENTENCE, _UNIT):
        units = [match.span() for match in unit.finditer(text)]
        sizes = [sum(map(_tenths, _UNIT.findall(text, *one))) for one in units]
        inside = [i for i, (start, end) in enumerate(units) if end > span[0] and start < span[1]]
        if not inside:
            break
        left, right = inside[0], inside[-1]
        # In tenths of a word, so that sums are exact.
        room, before = 10 * words - sum(sizes[left : right + 1]), (-1, -1)
        while before != (left, right):
            before = left, right
            if left > 0 and sizes[left - 1] <= room:
                left -= 1
                room -= sizes[left]
            if right + 1 < len(units) and sizes[right + 1] <= room:
                right += 1
                room -= sizes[right]
        enough = 0 <= room <= 10 * words * (1 - _SHORTEST)
        if enough or unit is _UNIT or (room >= 0 and right - left == len(units) - 1):
            return text[units[left][0] : units[right][1]]
    return text[span[0] : span[1]]


def best_window(
    question: str,
    answers: Sequence[str],
    sources: Sequence[str],
    weight: Callable[[str], float],
    *,
    words: int = WINDOW_WORDS,
) -> str | None:
    """Return the window around an answer that supports it best; None if no source holds one.

    Args:
        question: its words make up the support.
        answers: a window may hold any of them.
        sources: texts to cut from.
        weight: of a word: how rare it is.
        words: length of a window.
    """
    windows = dict.fromkeys(
        window_around(source, span, words=words)
        for source in sources
        for span in occurrences(source, answers)
    )
    asked = set(words_of(question))

    def support(window: str) -> float:
        # Exact, whatever the order: sums of floats depend on it, and sets have none.
        return math.fsum(weight(word) for word in asked & set(words_of(window)))

    return max(windows, key=support, default=None)


def _tenths(unit: str) -> int:
    return _CHARACTER_TENTHS if re.match(f"[{CJK}]", unit) else 10
