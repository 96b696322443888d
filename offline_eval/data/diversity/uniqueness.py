"""Split texts into words, weigh the words, and find questions that differ by them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ....calibration.statistics import Floats
from ...run.calls import OnStep

# Texts compared with all the others at once; the block takes 8 bytes per pair.
_PAIRS_AT_ONCE = 1 << 22
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


@dataclass(frozen=True, slots=True)
class TooNear:
    """A text that is too near to one that is kept.

    Attributes:
        index: of the text.
        of: index of the kept one.
        uniqueness: beside the kept one; 0.0 for an exact duplicate.
        exact: equal but for case, accents, punctuation and white space.
    """

    index: int
    of: int
    uniqueness: float
    exact: bool = False


def keyword_distinct(
    texts: Sequence[str],
    *,
    min_uniqueness: float = 0.3,
    groups: Sequence[Hashable] | None = None,
    on_progress: OnStep | None = None,
) -> tuple[list[int], list[TooNear]]:
    """Keep, from the first on, each text whose words are unlike those of all kept before it.

    A word says the more, the fewer texts have it: log((texts + 1) / (texts with it)). The
    uniqueness of a text beside another is 1 − 2·I(words of both) / (I(words of the one) +
    I(words of the other)), I being what some words say together. Texts with the same words have
    0, texts without a word in common 1. As a share of information it does not grow with length.
    Case, accents, punctuation and the order of words do not count.

    Args:
        texts: in the order in which they are to be kept; memory grows with their words, not with
            their pairs.
        min_uniqueness: in [0, 1]: the least that a kept text has beside any one kept before it.
        groups: one per text; texts of different groups are not compared.
        on_progress: called with (texts done, texts in all).

    Returns:
        Indices of the texts that are kept, and the others, in order.

    Example:
        >>> keyword_distinct(["Who pays?", "who pays", "When is lunch?"])
        ([0, 2], [TooNear(index=1, of=0, uniqueness=0.0, exact=False)])
    """
    numbers: dict[Hashable, int] = {}
    group = np.asarray(
        [numbers.setdefault(one, len(numbers)) for one in groups or [0] * len(texts)]
    )
    kept = np.zeros(len(texts), dtype=bool)
    gone: list[TooNear] = []
    for start, shares in _overlaps(texts, on_progress):
        for row, line in enumerate(shares, start=start):
            before = line[:row] * (kept[:row] & (group[:row] == group[row]))
            best = int(before.argmax()) if row else 0
            uniqueness = 1.0 - float(before[best]) if row else 1.0
            kept[row] = uniqueness >= min_uniqueness
            if not kept[row]:
                gone.append(TooNear(row, best, uniqueness))
    return np.flatnonzero(kept).tolist(), gone


def _word_table(texts: Sequence[str]) -> tuple[csr_array, Floats]:
    """Which words stand in each text, and the information of each word.

    A text without any counts as a word of its own spelling. The logarithms are rounded so that
    sums of them are exact.
    """
    columns: dict[str, int] = {}
    indices: list[int] = []
    ends = [0]
    for text in texts:
        words = sorted(set(words_of(text))) or [" ".join(text.split())]
        indices.extend(columns.setdefault(word, len(columns)) for word in words)
        ends.append(len(indices))
    held = np.asarray(indices, dtype=np.int64)
    shape = len(texts), len(columns)
    present = csr_array((np.ones(len(held)), held, np.asarray(ends)), shape=shape)
    share = (len(texts) + 1) / np.maximum(np.bincount(held, minlength=len(columns)), 1)
    return present, np.maximum(np.rint(np.log(share) * _STEPS), 1.0) / _STEPS


def _overlaps(
    texts: Sequence[str],
    on_progress: OnStep | None,
) -> Iterator[tuple[int, Floats]]:
    """Shares of common information of some texts with all, of shape (some, texts), in order."""
    present, information = _word_table(texts)
    total, totals = len(texts), np.asarray(present @ information)
    weighted, turned = csr_array(present.multiply(information[None, :])), present.T.tocsr()
    step = max(1, _PAIRS_AT_ONCE // max(total, 1))
    for start in range(0, total, step):
        part = slice(start, start + step)
        shared = 2.0 * (weighted[part] @ turned).toarray()
        shared /= totals[part, None] + totals[None, :]
        yield start, shared
        if on_progress is not None:
            on_progress(min(start + step, total), total)


def remove_duplicates(
    texts: Sequence[str], *, near: float = 0.05, on_progress: OnStep | None = None
) -> tuple[list[int], list[TooNear]]:
    """Indices of the texts that are left, and the duplicates among all, in order.

    Of equal texts the first is kept. Nearly equal are texts whose words share all but
    `near` of their information (see `keyword_distinct`) and which name the same
    numbers: the same words in another order, or one small word more.

    Args:
        texts: any number.
        near: in [0, 1]; 0 removes exact duplicates and nothing more.
        on_progress: called with (texts done, texts in all).

    Example:
        >>> remove_duplicates(["Who pays?", "who pays", "Who pays 5?"])[0]
        [0, 2]
    """
    first: dict[str, int] = {}
    found: list[TooNear] = []
    for index, text in enumerate(texts):
        key = " ".join(words_of(text)) or " ".join(text.split())
        earlier = first.setdefault(key, index)
        if earlier != index:
            found.append(TooNear(index, earlier, 0.0, exact=True))
    left = list(first.values())
    if near > 0.0:
        some = [texts[index] for index in left]
        # Texts with other numbers are not compared: "by 2023" is not "by 2024".
        groups = [
            frozenset(word for word in words_of(text) if any(map(str.isdigit, word)))
            for text in some
        ]
        kept, close = keyword_distinct(
            some, min_uniqueness=near, groups=groups, on_progress=on_progress
        )
        found += [TooNear(left[one.index], left[one.of], one.uniqueness) for one in close]
        left = [left[row] for row in kept]
    return left, sorted(found, key=lambda one: one.index)
