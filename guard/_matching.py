"""When two short answers are the same, judged by their letters."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ._dates import dates_in_one_form
from ._numerals import numerals_as_digits

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_THOUSANDS = re.compile(r"(?<=\d)[,  '’](?=\d{3}(?!\d))")
_PERCENT = re.compile(r"(?<=\d) ?(?:per ?cent\b|%)")
# U.S.A., J.R.R. and J. R. R.
_INITIALS = re.compile(r"\b[a-z](?:\.[a-z]\b)+\.?|\b[a-z]\.(?: [a-z]\.)+")
_REFUSAL = re.compile(
    r"\b(i|we) (do not|don't|dont|cannot|can't|could not|couldn't|am not able|are not able)\b"
    r"|\b(unknown|unanswerable|not sure|no idea|no answer)\b"
    r"|\bnot (stated|given|provided|mentioned)\b"
    r"|不知道|不清楚|无法回答|無法回答|没有合适的答案|沒有合適的答案"
)

# What one pass leaves may fold once more: "1-234" to "1 234" to "1234".
_PASSES = 8


def normalise_answer(text: str) -> str:
    """A short answer in a form in which equal answers compare equal.

    Compatibility forms are folded, case, punctuation, English articles,
    thousands separators and surplus spaces dropped; decimal points and signs
    of numbers stay, so that 1.5 is not 15.

    Example:
        >>> normalise_answer("  The €1,250.50 fee. ")
        '€1250.50 fee'
    """
    for _ in range(_PASSES):
        normalised = _normalised_once(text)
        if normalised == text:
            break
        text = normalised
    return text


def _normalised_once(text: str) -> str:
    folded = _THOUSANDS.sub("", _folded(text)).replace("'", "")
    kept = [
        " " if _is_punctuation(character) and not _belongs_to_number(folded, index) else character
        for index, character in enumerate(folded)
    ]
    words = "".join(kept)
    # An article alone is the answer itself: "A" of a multiple choice.
    return " ".join((_ARTICLES.sub(" ", words).strip() or words).split())


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


@lru_cache(maxsize=4096)
def canonical_answer(text: str) -> str:
    """As `normalise_answer`, with numbers, dates and initials each in one form besides.

    Example:
        >>> canonical_answer("Twenty-three"), canonical_answer("July 4th, 1776")
        ('23', '1776 07 04')
    """
    for _ in range(_PASSES):
        joined = _INITIALS.sub(lambda found: re.sub("[. ]", "", found.group()), _folded(text))
        figures = _PERCENT.sub("%", numerals_as_digits(joined))
        canonical = normalise_answer(dates_in_one_form(normalise_answer(figures)))
        if canonical == text:
            break
        text = canonical
    return text


def same_answer(first: str, second: str) -> bool:
    """Whether two answers are equal in their canonical form; empty answers never are.

    Example:
        >>> same_answer("Paris.", "paris"), same_answer("4 July 1776", "1776-07-04")
        (True, True)
    """
    canonical = canonical_answer(first)
    return bool(canonical) and canonical == canonical_answer(second)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def is_refusal(text: str) -> bool:
    """Whether a short answer says that there is none.

    Example:
        >>> is_refusal("I don't know.")
        True
    """
    folded = _folded(text)
    return not folded.strip() or _REFUSAL.search(folded) is not None


def _belongs_to_number(text: str, index: int) -> bool:
    before = text[index - 1] if index else " "
    after = text[index + 1] if index + 1 < len(text) else " "
    if text[index] in ".:/":
        return before.isdigit() and after.isdigit()
    if text[index] in "-%":
        signs = text[index] == "-" and not before.isalnum() and after.isdigit()
        return signs or (text[index] == "%" and before.isdigit())
    return False
