"""KnowOrNot's own keyword score, for comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...guard import InputError


def original_keyword_scores(
    texts: Sequence[str], *, prepare: Callable[[str], str] | None = None
) -> NDArray[np.float64]:
    """The sum of each text's TF-IDF weights, as KnowOrNot computes its "uniqueness".

    It measures mostly how long a text is, and gives copies the score of what they are
    copies of: see `keyword_uniqueness` for what it was meant to be.

    Args:
        texts: at least one with a word in it.
        prepare: applied to each text first. By default case, punctuation and English stop
            words go; KnowOrNot also stems by NLTK's Porter stemmer and takes NLTK's stop
            words: give a function that does so for the very same numbers.

    Raises:
        InputError: no word is left, or every word stands in more than nine of ten texts.

    Source: KnowOrNot, keyword filter (scikit-learn's TF-IDF with sublinear term frequency,
    words in more than 90 % of the texts left out, rows of unit length).
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

    def plain(text: str) -> str:
        words = re.sub(r"[^\w\s]", " ", text.lower()).split()
        return " ".join(word for word in words if word not in ENGLISH_STOP_WORDS)

    vectoriser = TfidfVectorizer(
        strip_accents="unicode", min_df=1, max_df=0.9, sublinear_tf=True, dtype=np.float64
    )
    try:
        weights = vectoriser.fit_transform([(prepare or plain)(text) for text in texts])
    except ValueError:
        raise InputError(
            "no word is left to score the texts by",
            where="original_keyword_scores",
            mend="use `keyword_uniqueness`, or more texts",
        ) from None
    return np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()


def original_keyword_selection(
    scores: NDArray[np.float64], *, threshold: float = 0.3
) -> NDArray[np.int64]:
    """Indices of the scores that are at least min + threshold·(max − min), in order.

    Example:
        >>> original_keyword_selection(np.array([1.0, 2.0, 1.2, 1.3]))
        array([1, 3])
    """
    if len(scores) == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = scores.min(), scores.max()
    return np.flatnonzero(scores >= low + threshold * (high - low))
