"""Relevance by words: how much of the question a passage covers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...contracts import RelevanceScorer
from ...fingerprint import Fingerprint
from ...language import listed
from ...text import clean_text, foreign_language, is_function_word
from ._echo import strip_echo

_K1, _B = 0.3, 0.75
# Content words of a passage that is neither short nor long.
_USUAL_WORDS = 100
# Long words are rarer than short ones: what each letter adds to a word's weight of 1.
_PER_LETTER, _MOST_LETTERS = 0.3, 8
_ENOUGH_TOLD = 0.15
_MAX_CHARACTERS = 50_000
# Changes when words are read off texts in another way.
_READING = 3
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
        found = strip_echo(question, passage)
        if found is None:
            return _coverage(terms, passage)
        told, kept = _coverage(terms, found.stated), _coverage(terms, found.kept)
        return told + min(1.0, told / _ENOUGH_TOLD) * (kept - told)


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
