"""Relevance by words: how much of the question a passage covers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import optional_import
from ...fingerprint import Fingerprint
from ...language import listed
from ...text import clean_text, foreign_language
from ._echo import strip_echo

_K1 = 1.2
_ENOUGH_TOLD = 0.15
_MAX_CHARACTERS = 50_000
_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]+")


_ARABIC = re.compile("[\u0621-\u064a]")
_ARABIC_WORD = re.compile("[\u0621-\u06d3]+")
# Vowel signs, and the stroke that only lengthens a word.
_ARABIC_SIGNS = re.compile("[\u0640\u064b-\u065f\u0670]")
_ONE_LETTER = str.maketrans("أإآٱىة", "اااايه")
_ARABIC_BEGIN = re.compile("^(?:[وفبك]?ال|لل|و)(?=.{3})")
_ARABIC_END = re.compile("(?<=.{3})(?:ها|ان|ات|ون|ين|يه|ه|ي)$")
_ARABIC_STOP = {word.translate(_ONE_LETTER) for word in listed("stop_words", "arabic")}


def _arabic_stem(found: re.Match[str]) -> str:
    word = found.group().translate(_ONE_LETTER)
    if word in _ARABIC_STOP:
        return " "
    return _ARABIC_END.sub("", _ARABIC_BEGIN.sub("", word))


class LexicalScorer:
    """BM25 term saturation over the question's content words, in [0, 1].

    The score is the mean, over the question's distinct content words, of
    `tf·(k1 + 1) / (tf + k1)` divided by its ceiling `k1 + 1`: BM25 with equal
    word weights, no length penalty, and 1 as its upper limit. It depends on the
    pair alone, so batches and single calls agree. Words come from scikit-learn's
    analyzer with its English stop words, and those of the question's language where it is clear;
    runs of Chinese, Japanese or Korean script count as character pairs, Arabic words without
    vowel signs, articles and common endings. Text that asks counts as far as the rest covers
    about a seventh of the question: a passage that only repeats it scores 0.

    Source: Robertson & Zaragoza 2009, The probabilistic relevance framework; Larkey et al. 2007,
    Light stemming for Arabic information retrieval.
    """

    def __init__(self) -> None:
        text: Any = optional_import("sklearn.feature_extraction.text")
        self._words: Callable[[str], list[str]] = text.CountVectorizer(
            stop_words="english"
        ).build_analyzer()

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return Fingerprint(
            kind="lexical", backend="python", settings={"k1": _K1, "enough_told": _ENOUGH_TOLD}
        )

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Coverage of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Coverage of shape (len(pairs),) for (question, passage) pairs."""
        scores = [self._score(question, passage) for question, passage in pairs]
        return np.asarray(scores, dtype=np.float64)

    def _score(self, question: str, passage: str) -> float:
        terms = set(self._terms(question))
        if (language := foreign_language(question)) is not None:
            terms = terms - listed("function_words", language) or terms
        found = strip_echo(question, passage)
        if found is None:
            return self._coverage(terms, passage)
        told, kept = self._coverage(terms, found.stated), self._coverage(terms, found.kept)
        return told + min(1.0, told / _ENOUGH_TOLD) * (kept - told)

    def _coverage(self, terms: set[str], passage: str) -> float:
        if not terms:
            return 0.0
        counts = Counter(self._terms(passage))
        saturated = (counts[term] / (counts[term] + _K1) for term in sorted(terms))
        return sum(saturated) / len(terms)

    def _terms(self, text: str) -> list[str]:
        text = clean_text(text)[:_MAX_CHARACTERS]
        if _ARABIC.search(text):
            text = _ARABIC_WORD.sub(_arabic_stem, _ARABIC_SIGNS.sub("", text))
        runs = _CJK.findall(text)
        pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
        return self._words(_CJK.sub(" ", text)) + pairs
