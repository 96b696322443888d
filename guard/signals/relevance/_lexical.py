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
from ...text import clean_text
from ._echo import strip_echo

_K1 = 1.2
_ENOUGH_TOLD = 0.15
_MAX_CHARACTERS = 50_000
_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]+")


class LexicalScorer:
    """BM25 term saturation over the question's content words, in [0, 1].

    The score is the mean, over the question's distinct content words, of
    `tf·(k1 + 1) / (tf + k1)` divided by its ceiling `k1 + 1`: BM25 with equal
    word weights, no length penalty, and 1 as its upper limit. It depends on the
    pair alone, so batches and single calls agree. Words come from scikit-learn's
    analyzer with its English stop words; runs of Chinese, Japanese or Korean
    script count as character pairs. Text that asks counts as far as the rest covers about a
    seventh of the question: a passage that only repeats it scores 0.

    Source: Robertson & Zaragoza 2009, The probabilistic relevance framework.
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
        runs = _CJK.findall(text)
        pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
        return self._words(_CJK.sub(" ", text)) + pairs
