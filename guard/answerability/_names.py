"""Are two names those of one thing? Where letters cannot tell, nobody is found out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import IntEnum

from ._phrases import CJK, fold, words_of
from ._word_lists import listed

_BETWEEN = re.compile(r"[,;、，；]| and (?=\S)|和(?=\S)")
_IS_CJK = re.compile(f"[{CJK}]")
_ROMAN = re.compile(r"[ivxlc]+")
_ASIDE = listed(
    "the a an mr mrs ms miss dr doctor prof professor sir dame lord lady king queen emperor prince "
    "princess president saint st pope"
)
# Chinese words of two letters are common ones more often than names.
_SHORTEST_CJK = 3
_ORDINALS = frozenset("一二三四五六七八九十")
# Beyond that many letters a text is no name.
_LONGEST = 160
_NEAR = 0.85
_NEAR_CJK = 0.6


class Likeness(IntEnum):
    """What two names tell of two things."""

    DIFFERENT = 0
    MAYBE = 1
    SAME = 2


def split_names(text: str) -> list[str]:
    """The parts of a list, folded; a name with a comma in it falls apart too."""
    return [part.strip() for part in _BETWEEN.split(fold(text)) if words_of(part)]


def likeness(first: str, second: str, *, one_source: bool = False) -> Likeness:
    """Of two folded names.

    Args:
        first: a name.
        second: another one.
        one_source: whether both come from one collection, which calls a thing by one name: then
            names in two scripts are two things.

    Example:
        >>> likeness("Winston Churchill", "Randolph Churchill").name
        'DIFFERENT'
        >>> likeness("Hassanal Bolkiah", "Hassanal Bolkiah I of Brunei").name
        'MAYBE'
    """
    left, right = _name(first), _name(second)
    if not left or not right:
        return Likeness.MAYBE
    if left == right:
        return Likeness.SAME
    if max(len(first), len(second)) > _LONGEST:
        return Likeness.MAYBE
    if _counted(left, right):
        return Likeness.DIFFERENT
    if set(left) <= set(right) or set(right) <= set(left) or _shortened(left, right):
        return Likeness.MAYBE
    if _is_cjk(first) != _is_cjk(second):
        # One is written in another script: it may be the same name.
        foreign = not one_source and _nameable(left) and _nameable(right)
        return Likeness.MAYBE if foreign else Likeness.DIFFERENT
    return Likeness.MAYBE if _near(left, right, first) else Likeness.DIFFERENT


def is_proper(name: str) -> bool:
    """Whether a folded text is written as a name, which a thing has one of, or few.

    Example:
        >>> is_proper("Bell Medal"), is_proper("the buyer"), is_proper("$100")
        (True, False, False)
    """
    if _is_cjk(name):
        return len(words_of(name)) >= _SHORTEST_CJK and not name[0].isdigit()
    words = [word for word in _WRITTEN.findall(name) if word.casefold() not in _ASIDE]
    return any(word != word.lower() for word in words) and not _QUANTITY.match(name)


_WRITTEN = re.compile(r"[^\W\d_]+")
_QUANTITY = re.compile(
    r"\W*(?:\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|half|"
    r"yes|no|none|noon|midnight|me|you|i)\b)",
    re.IGNORECASE,
)


def nearest(name: str, others: Sequence[str], *, one_source: bool = False) -> Likeness:
    """The greatest likeness of a folded name to any of the others; see `likeness`."""
    return max(
        (likeness(name, other, one_source=one_source) for other in others),
        default=Likeness.DIFFERENT,
    )


def _name(text: str) -> tuple[str, ...]:
    words = words_of(text)
    return tuple(word for word in words if word not in _ASIDE) or words


def _is_cjk(text: str) -> bool:
    return _IS_CJK.search(text) is not None


def _nameable(words: tuple[str, ...]) -> bool:
    return any(not word.isdigit() for word in words)


def _counted(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether they differ in a number alone, as Gordian I and Gordian II do."""
    if len(left) != len(right):
        return False
    unlike = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    return all(_is_number(a) and _is_number(b) for a, b in unlike)


def _is_number(word: str) -> bool:
    return word.isdigit() or word in _ORDINALS or _ROMAN.fullmatch(word) is not None


def _shortened(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether one may be short for the other: "US", "Man Utd", "W. S. Churchill"."""
    shorter, longer = sorted((left, right), key=lambda name: sum(map(len, name)))
    letters = "".join(shorter)
    if len(longer) > 1 and 1 < len(letters) <= len(longer) + 1 and letters.isascii():
        initials = iter("".join(word[0] for word in longer))
        if all(letter in initials for letter in letters):
            return True
    if shorter[-1] == longer[-1] and shorter[0][0] == longer[0][0]:
        # An initial, or a second name that one leaves out.
        return len(shorter[0]) == 1 or len(longer[0]) == 1 or shorter[0] == longer[0]
    return len(shorter) == len(longer) and all(
        _abbreviates(word, whole) for word, whole in zip(shorter, longer, strict=True)
    )


def _abbreviates(short: str, whole: str) -> bool:
    if short[0] != whole[0] or not short.isascii():
        return False
    letters = iter(whole)
    return all(letter in letters for letter in short)


def _near(left: tuple[str, ...], right: tuple[str, ...], first: str) -> bool:
    if _is_cjk(first):
        shared = sum((Counter(left) & Counter(right)).values())
        return shared >= _NEAR_CJK * max(len(left), len(right))
    return SequenceMatcher(None, " ".join(left), " ".join(right), False).ratio() >= _NEAR
