"""Facts for a question, retrieved from those of all questions: nobody hands over the right ones.

The paper gives the model exactly the facts that a question needs and leaves retrieval open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ._items import UaqItem
from ._prompting import clue_facts


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
            vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
            self._matrices[language] = vectorizer.fit_transform(found)
            self._vectorizers[language] = vectorizer

    def retrieve(self, items: Sequence[UaqItem]) -> list[list[str]]:
        """The facts for each question, nearest first; ties in the order of the collection."""
        return [self._nearest(item) for item in items]

    def _nearest(self, item: UaqItem) -> list[str]:
        facts = self._facts.get(item.language)
        if not facts:
            return []
        query = self._vectorizers[item.language].transform([item.question])
        scores = np.asarray((self._matrices[item.language] @ query.T).todense()).ravel()
        order = np.argsort(-scores, kind="stable")[: self._k]
        return [facts[int(index)] for index in order]
