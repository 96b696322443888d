"""Relevance without a model: by words, and by a number that came with each passage."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..._measuring import as_score
from ...contracts import RelevanceScorer
from ...errors import InputError, SignalValueError
from ...fingerprint import METADATA, Fingerprint
from ...language import listed
from ...text import clean_text, foreign_language, is_function_word
from ._echo import StatedText

_K1, _B = 0.3, 0.75
# Content words of a passage that is neither short nor long.
_USUAL_WORDS = 100
# Long words are rarer than short ones: what each letter adds to a word's weight of 1.
_PER_LETTER, _MOST_LETTERS = 0.3, 8
_ENOUGH_TOLD = 0.15
_MAX_CHARACTERS = 50_000
# Changes when words are read off texts in another way.
_READING = 4
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]+")
_ARABIC = re.compile("[\u0600-\u06ff]")
# Vowel signs, and the stroke that only lengthens a word; letters that are written in several ways.
_ARABIC_SIGNS = re.compile("[\u0640\u064b-\u065f\u0670]")
_ARABIC_LETTERS = str.maketrans("أإآٱىة", "اااايه")
# The article, alone or with what is written together with it, and endings; a word must be left.
_ARABIC_BEGIN = re.compile("^(?:[وفبك]?ال|لل|و)(?=.{3})")
_ARABIC_END = re.compile("(?<=.{3})(?:ها|ان|ات|ون|ين|يه|ه|ي)$")
_ARABIC_FUNCTION_WORDS = frozenset(
    word.translate(_ARABIC_LETTERS) for word in listed("stop_words", "arabic")
)


class LexicalScorer(RelevanceScorer):
    """BM25 over the question's content words, in [0, 1): no model, and any language.

    The score is the mean, over the question's distinct content words, of
    `tf / (tf + k1·(1 - b + b·length))`, where `length` is the passage's in units of 100 content
    words. Longer words weigh more. Words are compared without case and plural s, Arabic ones
    without vowel signs, article and common endings; runs of Chinese, Japanese or Korean script
    count as pairs of characters. Function words of English, Arabic and the question's language,
    where that is clear, count only where a question has nothing else.

    A score depends on the pair alone, so batches and single calls agree. Text that asks counts as
    far as the rest covers about a seventh of the question: a passage that only repeats it scores 0.

    Source: Robertson & Zaragoza 2009, The probabilistic relevance framework; Larkey et al. 2007,
    Light stemming for Arabic information retrieval.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        settings = {"k1": _K1, "b": _B, "enough_told": _ENOUGH_TOLD, "reading": _READING}
        return Fingerprint(kind="lexical", backend="python", settings=settings)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Coverage of shape (len(pairs),) for (question, passage) pairs."""
        scores = [self._score(question, passage) for question, passage in pairs]
        return np.asarray(scores, dtype=np.float64)

    def _score(self, question: str, passage: str) -> float:
        asked = list(_words(question))
        language = foreign_language(question)
        own = listed("function_words", language) if language else frozenset()
        content = [word for word in asked if word not in own and not _says_nothing(word)]
        terms = {_stem(word) for word in content or asked}
        found = StatedText.of(question, passage)
        kept = _coverage(terms, found.kept)
        if found.stated is None:
            return kept
        told = _coverage(terms, found.stated)
        replied = told if found.replied is None else _coverage(terms, found.replied)
        return told + min(1.0, replied / _ENOUGH_TOLD) * (kept - told)


def _coverage(terms: set[str], passage: str) -> float:
    if not terms:
        return 0.0
    words = list(_words(passage))
    counts = Counter(map(_stem, words))
    length = sum(not _says_nothing(word) for word in words) / _USUAL_WORDS
    half = _K1 * (1.0 - _B + _B * length)
    weights = {term: 1.0 + _PER_LETTER * min(len(term), _MOST_LETTERS) for term in sorted(terms)}
    covered = sum(weight * counts[term] / (counts[term] + half) for term, weight in weights.items())
    return covered / sum(weights.values())


def _words(text: str) -> Iterator[str]:
    text = unicodedata.normalize("NFKC", clean_text(text)[:_MAX_CHARACTERS]).casefold()
    yield from _WORD.findall(_CJK.sub(" ", _ARABIC_SIGNS.sub("", text)))
    for run in _CJK.findall(text):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _says_nothing(word: str) -> bool:
    return is_function_word(word) or word.translate(_ARABIC_LETTERS) in _ARABIC_FUNCTION_WORDS


def _stem(word: str) -> str:
    """The word without what changes with its place in a sentence.

    Example:
        >>> [_stem(word) for word in ("hours", "cities", "glass", "والمكتبة")]
        ['hour', 'city', 'glass', 'مكتب']
    """
    if word.isascii():
        if len(word) > 4 and word.endswith("ies"):
            return word[:-3] + "y"
        if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
            return word[:-1]
        return word
    if not _ARABIC.search(word):
        return word
    word = word.translate(_ARABIC_LETTERS)
    return _ARABIC_END.sub("", _ARABIC_BEGIN.sub("", word))


# What may follow the key: `lower=true` where a low number is a good one.
_LOWER = "lower"


class MetadataScorer(RelevanceScorer):
    """The number that each passage carries in its metadata; the model that gave it stays unseen.

    Rerankers write one (`relevance_score` by those of Cohere, FlashRank and Jina), and so do
    chains over vector stores. Raw scores are these numbers on their own scale, which calibration
    learns; where lower is better, they are negated.

    A passage without a finite number raises a `SignalValueError`: the guard then takes the route
    that `on_error` has for relevance. Nothing is guessed.

    Args:
        key: of the metadata.
        lower: whether a lower number says more, as for distances.

    Raises:
        InputError: the key is empty.

    Example:
        >>> from knowgate.guard.text import TextWithMetadata
        >>> passages = [TextWithMetadata("We open at nine.", {"distance": 0.25})]
        >>> MetadataScorer("distance", lower=True).score("When?", passages).tolist()
        [-0.25]
    """

    # Asks of the guard that passages come as `TextWithMetadata`.
    reads_metadata = True
    checks_deadline = True

    def __init__(self, key: str, *, lower: bool = False) -> None:
        if not key:
            raise InputError(
                "names no key", where="metadata:", hint="e.g. metadata:relevance_score"
            )
        self._key, self._lower = key, lower

    @classmethod
    def parse(cls, rest: str) -> MetadataScorer:
        """Make one of what follows `metadata:` in a scorer's name: `KEY` or `KEY,lower=true`.

        Raises:
            InputError: something else follows the key, or there is none.
        """
        key, *options = rest.split(",")
        if options not in ([], [f"{_LOWER}=false"], [f"{_LOWER}=true"]):
            raise InputError(
                f"{','.join(options)!r} is no option of a score in the metadata",
                hint=f"{METADATA}:KEY, or {METADATA}:KEY,{_LOWER}=true where lower is better",
            )
        return cls(key, lower=options == [f"{_LOWER}=true"])

    @staticmethod
    def name_of(wanted: Fingerprint) -> str:
        """What `parse` makes the scorer of a fingerprint of, with its prefix."""
        options = f",{_LOWER}=true" if wanted.settings.get(_LOWER) else ""
        return f"{METADATA}:{wanted.settings.get('key', '')}{options}"

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return Fingerprint(kind=METADATA, settings={"key": self._key, _LOWER: self._lower})

    def score_pairs(self, pairs: Sequence[tuple[str, object]]) -> NDArray[np.float64]:
        """The numbers of shape (len(pairs),); higher is better.

        Args:
            pairs: a question, which is not read, and what has `metadata`: a passage as the guard
                gives it, or a document.

        Raises:
            SignalValueError: a passage has no finite number under the key.
        """
        return np.asarray([self._number(passage) for _, passage in pairs], dtype=np.float64)

    def _number(self, passage: object) -> float:
        metadata = getattr(passage, "metadata", None)
        given = metadata.get(self._key) if isinstance(metadata, Mapping) else None
        try:
            number = as_score(given)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            what = "missing" if given is None else f"a {type(given).__name__}, no number"
            if isinstance(given, float):
                what = "NaN or infinite"
            raise SignalValueError(
                "relevance", f"{self._key!r} in the metadata of a passage is {what}"
            )
        return -number if self._lower else number
