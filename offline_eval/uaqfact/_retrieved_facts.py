"""Facts for a question, retrieved from those of all questions: nobody hands over the right ones.

The paper gives the model exactly the facts that a question needs and leaves retrieval open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ._items import UaqItem
from ._prompting import clue_facts

# Questions compared at one time: 64 × 12,000 scores are 6 MB.
_AT_ONCE = 64


class FactRetriever:
    """The nearest facts by TF-IDF over letter sequences: any language, no model, the same always.

    Args:
        items: whose facts make up the collection, each language one of its own.
        k: facts per question.
    """

    def __init__(self, items: Iterable[UaqItem], k: int) -> None:
        self._k = k
        facts: dict[str, dict[str, None]] = {}
        for item in items:
            facts.setdefault(item.language, {}).update(dict.fromkeys(clue_facts(item)))
        self._facts = {language: list(found) for language, found in facts.items() if found}
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizers = {}
        self._matrices = {}
        for language, found in self._facts.items():
            vectorizer = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32
            )
            # Facts as columns: a row of the product is then one question's scores.
            self._matrices[language] = vectorizer.fit_transform(found).T.tocsr()
            self._vectorizers[language] = vectorizer

    def retrieve(self, items: Sequence[UaqItem]) -> list[list[str]]:
        """The facts for each question, nearest first; ties in the order of the collection."""
        found: list[list[str]] = [[] for _ in items]
        for language in self._facts:
            places = [at for at, item in enumerate(items) if item.language == language]
            for start in range(0, len(places), _AT_ONCE):
                some = places[start : start + _AT_ONCE]
                for at, facts in zip(
                    some, self._nearest(language, [items[at] for at in some]), strict=True
                ):
                    found[at] = facts
        return found

    def _nearest(self, language: str, items: Sequence[UaqItem]) -> list[list[str]]:
        facts = self._facts[language]
        queries = self._vectorizers[language].transform([item.question for item in items])
        scores = (queries @ self._matrices[language]).toarray()
        return [[facts[at] for at in _best(row, self._k)] for row in scores]


def _best(scores: NDArray[np.float32], k: int) -> list[int]:
    """Places of the `k` highest, highest first, equal ones in order."""
    if k < len(scores):
        # All that are as high as the last one wanted: which of equals comes first is not
        # left to the partition.
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    order = np.argsort(-scores[places], kind="stable")[:k]
    return [int(at) for at in places[order]]
