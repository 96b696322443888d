"""Split texts into words, weigh the words, and measure how distinct questions are by them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ....guard.errors import InputError
from ...run.calls import OnStep

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Texts compared with all the others at once; the block takes 8 bytes per pair.
_PAIRS_AT_ONCE = 1 << 22
# Words in more than this share of the texts are multiplied as a dense matrix.
_COMMON = 1 / 32
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


def keyword_uniqueness(texts: Sequence[str], *, on_progress: OnStep | None = None) -> Floats:
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
class TooNear:
    """A text that is too near to one that is kept.

    Attributes:
        index: of the text.
        of: index of the kept one; None where it was compared with none.
        uniqueness: beside the kept one; 0.0 for an exact duplicate.
        exact: equal but for case, accents, punctuation and white space.
    """

    index: int
    of: int | None
    uniqueness: float
    exact: bool = False


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

    def too_near(self) -> list[TooNear]:
        """The texts that were not kept, in order."""
        gone = np.setdiff1d(np.arange(len(self.nearest)), self.kept).tolist()
        return [TooNear(at, int(self.nearest[at]), float(self.uniqueness[at])) for at in gone]


def keyword_distinct(
    texts: Sequence[str],
    *,
    min_uniqueness: float = 0.3,
    groups: Sequence[Hashable] | None = None,
    on_progress: OnStep | None = None,
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


def _overlaps(table: WordTable, on_progress: OnStep | None) -> Iterator[tuple[int, Floats]]:
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
        what = "no word is left to score the texts by"
        hint = "use `keyword_uniqueness`, or more texts"
        raise InputError(what, where="original_keyword_scores", hint=hint) from None
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


def remove_duplicates(
    texts: Sequence[str], *, near: float = 0.05, on_progress: OnStep | None = None
) -> tuple[list[int], list[TooNear]]:
    """Indices of the texts that are left, and the duplicates among all, in order.

    Of equal texts the first is kept. Nearly equal are texts whose words share all but
    `near` of their information (see `keyword_uniqueness`) and which name the same
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
        close = keyword_distinct(
            some,
            min_uniqueness=near,
            groups=[numbers_of(text) for text in some],
            on_progress=on_progress,
        )
        found += [
            TooNear(left[one.index], left[one.of or 0], one.uniqueness) for one in close.too_near()
        ]
        left = [left[row] for row in close.kept.tolist()]
    return left, sorted(found, key=lambda one: one.index)
