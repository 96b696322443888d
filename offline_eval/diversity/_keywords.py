"""How far the words of a question are its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...guard import InputError
from ._words import WordTable, word_table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]

# Texts compared with all the others at once; the block takes 8 bytes per pair.
_PAIRS_AT_ONCE = 1 << 22
# Words in more than this share of the texts are multiplied as a dense matrix.
_COMMON = 1 / 32


def keyword_uniqueness(texts: Sequence[str], *, on_progress: Progress | None = None) -> Floats:
    """How far each text is from its nearest neighbour by words, in [0, 1].

    A word says the more, the fewer texts have it: log((texts + 1) / (texts with it)). The
    uniqueness of a text is 1 − max over the others of 2·I(words of both) / (I(words of the
    one) + I(words of the other)), I being what some words say together. Texts with the same
    words have 0, texts without a word in common with any other 1, and so has a lone text.
    As a share of information it does not grow with length. Case, accents, punctuation and
    the order of words do not count.

    Args:
        texts: any number; memory grows with their words, not with their pairs.
        on_progress: called with (texts done, texts in all).

    Example:
        >>> keyword_uniqueness(["Who pays?", "who pays", "When is lunch?"]).tolist()
        [0.0, 0.0, 1.0]
    """
    overlap = np.zeros(len(texts))
    for start, shares in _overlaps(word_table(texts), on_progress):
        own = np.arange(len(shares))
        shares[own, start + own] = 0.0
        overlap[start : start + len(shares)] = shares.max(axis=1)
    return 1.0 - overlap


@dataclass(frozen=True, slots=True)
class Distinct:
    """Which texts were kept, and what each was compared with.

    Attributes:
        kept: indices, in order.
        nearest: per text the kept one before it that shares most; -1 where none does.
        uniqueness: per text beside that one; 1.0 where there is none.
    """

    kept: Integers
    nearest: Integers
    uniqueness: Floats


def keyword_distinct(
    texts: Sequence[str],
    *,
    min_uniqueness: float = 0.3,
    groups: Sequence[Hashable] | None = None,
    on_progress: Progress | None = None,
) -> Distinct:
    """Keep, from the first on, each text whose words are unlike those of all kept before it.

    Args:
        texts: in the order in which they are to be kept.
        min_uniqueness: in [0, 1], see `keyword_uniqueness`: the least that a kept text has
            beside any one kept before it.
        groups: one per text; texts of different groups are not compared.
        on_progress: called with (texts done, texts in all).

    Raises:
        InputError: `min_uniqueness` is out of range.
    """
    if not 0.0 <= min_uniqueness <= 1.0:
        raise InputError(f"must be from 0 to 1, not {min_uniqueness:g}", where="min_uniqueness")
    numbers: dict[Hashable, int] = {}
    group = np.asarray(
        [numbers.setdefault(one, len(numbers)) for one in groups or [0] * len(texts)]
    )
    kept = np.zeros(len(texts), dtype=bool)
    nearest = np.full(len(texts), -1, dtype=np.int64)
    uniqueness = np.ones(len(texts))
    for start, shares in _overlaps(word_table(texts), on_progress):
        for row, line in enumerate(shares, start=start):
            before = line[:row] * (kept[:row] & (group[:row] == group[row]))
            best = int(before.argmax()) if row else 0
            if row and before[best] > 0.0:
                nearest[row], uniqueness[row] = best, 1.0 - before[best]
            kept[row] = uniqueness[row] >= min_uniqueness
    return Distinct(np.flatnonzero(kept), nearest, uniqueness)


def _overlaps(table: WordTable, on_progress: Progress | None) -> Iterator[tuple[int, Floats]]:
    """Shares of common information of some texts with all, of shape (some, texts), in order."""
    total = table.present.shape[0]
    counts = np.bincount(table.present.indices, minlength=table.present.shape[1])
    common = counts > max(_COMMON * total, 1.0)
    weighted = csr_array(table.present.multiply(table.information[None, :]))
    dense = table.present[:, common].toarray()
    dense_weighted = dense * table.information[common]
    rare, rare_weighted = table.present[:, ~common].T.tocsr(), weighted[:, ~common].tocsr()
    step = max(1, _PAIRS_AT_ONCE // max(total, 1))
    for start in range(0, total, step):
        part = slice(start, start + step)
        shared = (rare_weighted[part] @ rare).toarray()
        shared += dense_weighted[part] @ dense.T
        shared *= 2.0
        shared /= table.totals[part, None] + table.totals[None, :]
        yield start, shared
        if on_progress is not None:
            on_progress(min(start + step, total), total)
