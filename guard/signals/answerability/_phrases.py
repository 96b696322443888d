"""Extract the meaningful words of questions and statements."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ...language import by_word, entries_by_word, listed, section, without_suffix

CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"'s\b|[{CJK}]|\d+|[^\W\d_{CJK}]+")
_IS_CJK = re.compile(f"[{CJK}]")
# Function words.
HOLDING, _ARTICLES = listed("premises", "holding"), frozenset({"a", "an", "the"})
# Kinds of answers and of names, which one text gives and another leaves out.
_KINDS = listed("premises", "kinds")
_HOLDING_ZH = frozenset(section("premises")["holding_chinese"])
_ASKING = ("which", "what")
_AUXILIARIES = listed("premises", "auxiliaries")
_AT = frozenset({"where", "when"})
_OWNED = frozenset({"whose", "its", "their"})
_DANGLING = listed("premises", "dangling")
# Words whose forms share too few letters, by what they have in common.
_FAMILIES = by_word("word_families")
_SHORTEST_STEM = 5
_VERB_ENDS = ("ing", "ed", "es", "e", "s")


@dataclass(frozen=True)
class Phrase:
    """The words of a text that carry meaning, in order.

    Attributes:
        texts: words, or in Chinese characters, folded; without those that hold a sentence together.
        names: those that are written as names.
        shape: what tells a question for the doer from one for what is done to, where the
            words are the same: who killed A, and whom did A kill.
        kind: how many words name the kind of answer asked for, as "award" in "which award".
        kind_at: where those stand among the words.
    """

    texts: tuple[str, ...]
    names: frozenset[str]
    shape: frozenset[str] = frozenset()
    kind: int = 0
    kind_at: int = 0

    def shaped(self, *shape: str) -> Phrase:
        """The same words in another shape, no kind of answer among them."""
        return Phrase(self.texts, self.names, frozenset(shape))

    @cached_property
    def bare(self) -> tuple[str, ...]:
        """As `texts`, without the kind of answer asked for."""
        return self.texts[: self.kind_at] + self.texts[self.kind_at + self.kind :]


def fold(text: str) -> str:
    """Compatibility forms and accents folded, apostrophes and dashes made one; case is kept."""
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in split if not unicodedata.combining(c) or c in "\u3099\u309a")
    return unicodedata.normalize("NFC", bare).translate(_ONE_FORM)


_ONE_FORM = str.maketrans({"’": "'", "‘": "'", "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-"})


def is_cjk(text: str) -> bool:
    """Whether a text has Chinese or Japanese characters."""
    return _IS_CJK.search(text) is not None


def words_of(text: str) -> tuple[str, ...]:
    """All words of a folded text in lower case, the possessive aside."""
    return tuple(m.group().casefold() for m in _WORD.finditer(text) if m.group() != "'s")


def read_phrase(text: str) -> Phrase:
    """The meaning words of a folded text.

    Example:
        >>> read_phrase("Hillary Clinton's spouse is?").texts
        ('hillary', 'clinton', 'spouse')
    """
    raw = [m.group() for m in _WORD.finditer(text)]
    words: list[str] = []
    names: set[str] = set()
    kind_at = kind = 0
    for index, word in enumerate(raw):
        lower = word.casefold()
        # "Who" within a sentence is a name; at its beginning nobody can tell. Of articles and
        # of the kinds of places nobody can tell anywhere.
        holds = lower in HOLDING and (word == lower or not index)
        if holds or word == "'s" or lower in _ARTICLES or word in _KINDS or word in _HOLDING_ZH:
            continue
        if not kind and index and raw[index - 1].casefold() in _ASKING and word == lower:
            kind_at, kind = len(words), 1
        elif kind and kind_at + kind == len(words) and raw[index - 1].casefold() == words[-1]:
            # "which noble title did": all up to the verb that follows.
            after = raw[index + 1].casefold() if index + 1 < len(raw) else ""
            kind += word.islower() and word.isascii() and after in _AUXILIARIES
        words.append(lower)
        names |= set() if word.islower() else {lower}
    return Phrase(tuple(words), frozenset(names), _shape(raw, text), kind, kind_at)


def _shape(raw: list[str], text: str) -> frozenset[str]:
    lower = [word.casefold() for word in raw]
    last, before = [*lower[:-3:-1], "", ""][:2]
    # Of places and times, doing and what is done are asked for alike.
    does = not {"do", "does", "did"}.isdisjoint(lower) and _AT.isdisjoint(lower)
    whom = before and last in "谁誰" and before not in "是为為"
    owned = not _OWNED.isdisjoint(lower) or any(ask in text for ask in ("谁的", "誰的"))
    shapes = {
        "done to": does or whom,
        "by": "by" in lower,
        "whose": owned,
        "left open": last in _DANGLING,
    }
    return frozenset(name for name, is_so in shapes.items() if is_so)


def same_words(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether two phrases say the same in any order, forms of a word aside."""
    if len(first) != len(second):
        return False
    left, right = Counter(first), Counter(second)
    if left == right:
        return True
    rest, others = list((left - right).elements()), list((right - left).elements())
    # So many words that differ make another phrase, whatever their stems.
    if len(rest) > 3:
        return False
    for word in rest:
        partner = next((other for other in others if related(word, other)), None)
        if partner is None:
            return False
        others.remove(partner)
    return True


def related(first: str, second: str) -> bool:
    """Whether two words in lower case are forms of one: "translator" and "translated"."""
    if first == second:
        return True
    if _FAMILIES.get(first, first) == _FAMILIES.get(second, second):
        return True
    shorter, longer = sorted((first, second), key=len)
    if len(longer) - len(shorter) > _SHORTEST_STEM or not shorter.isascii() or shorter.isdigit():
        return False
    if longer in {shorter + end for end in ("s", "d", "ed", "es", "ing")}:
        return True
    first, second = (without_suffix(word, _VERB_ENDS, 2) for word in (first, second))
    if len(shorter) > 2 and first == second:
        return True
    stem = max(_SHORTEST_STEM, (7 * len(shorter) + 9) // 10)
    return len(shorter) >= stem and shorter[:stem] == longer[:stem]


# Word → topics that it belongs to.
_ABOUT = entries_by_word("topics")


def without_topics(text: str, families: frozenset[str]) -> str:
    """A folded Chinese text without the words of some topics."""
    for word in sorted(_ABOUT, key=len, reverse=True):
        if not word.isascii() and families.intersection(_ABOUT[word]):
            text = text.replace(word, " ")
    return text


def topics(text: str) -> frozenset[str]:
    """The topics that the words of a folded text belong to."""
    lower = text.casefold()
    words = set(words_of(lower))
    return frozenset(
        family
        for word, families in _ABOUT.items()
        if (word in words if word.isascii() else word in lower)
        for family in families
    )
