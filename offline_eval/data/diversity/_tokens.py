"""Split texts into words, and weigh the words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

# Chinese, Japanese and Korean are written without spaces: each character is a word.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]|[^\W_぀-ヿ㐀-鿿豈-﫿가-힯]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
# Whole numbers of these add up without rounding, so that equal texts are equal.
_STEPS = float(1 << 20)


def words_of(text: str) -> list[str]:
    """Return the words of a text without case, accents and punctuation; a number is one word.

    Example:
        >>> words_of("Beyoncé's 1,200.50 fans?")
        ['beyonce', 's', '1200_50', 'fans']
    """
    plain = _POINT.sub("_", _THOUSANDS.sub("", unicodedata.normalize("NFKD", text))).casefold()
    plain = "".join(one for one in plain if not unicodedata.combining(one))
    return re.findall(rf"\d+(?:_\d+)+|{_WORD.pattern}", unicodedata.normalize("NFC", plain))


def numbers_of(text: str) -> frozenset[str]:
    """Return the words of a text that have a digit."""
    return frozenset(word for word in words_of(text) if any(map(str.isdigit, word)))


@dataclass(frozen=True, slots=True)
class WordTable:
    """The words of each text, and the weight of each word.

    Attributes:
        present: of shape (texts, words), 1 where the word stands in the text.
        information: of each word: the logarithm of (texts + 1) / (texts with it), rounded
            so that sums of it are exact.
        totals: of each text: the information of its words, above 0.
    """

    present: csr_array
    information: NDArray[np.float64]
    totals: NDArray[np.float64]


def word_table(texts: Sequence[str]) -> WordTable:
    """The words of each text; one without any counts as a word of its own spelling."""
    columns: dict[str, int] = {}
    indices: list[int] = []
    ends = [0]
    for text in texts:
        words = sorted(set(words_of(text))) or [" ".join(text.split())]
        indices.extend(columns.setdefault(word, len(columns)) for word in words)
        ends.append(len(indices))
    present = csr_array(
        (np.ones(len(indices)), np.asarray(indices, dtype=np.int64), np.asarray(ends)),
        shape=(len(texts), len(columns)),
    )
    counts = np.bincount(np.asarray(indices, dtype=np.int64), minlength=len(columns))
    share = (len(texts) + 1) / np.maximum(counts, 1)
    information = np.maximum(np.rint(np.log(share) * _STEPS), 1.0) / _STEPS
    return WordTable(present, information, np.asarray(present @ information))
