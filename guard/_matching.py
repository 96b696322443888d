"""When two short answers are the same, judged by their letters."""

from __future__ import annotations

import re
import unicodedata

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_THOUSANDS = re.compile(r"(?<=\d)[,  '’](?=\d{3}(?!\d))")
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
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = _THOUSANDS.sub("", folded).replace("'", "")
    kept = [
        " " if _is_punctuation(character) and not _belongs_to_number(folded, index) else character
        for index, character in enumerate(folded)
    ]
    words = "".join(kept)
    # An article alone is the answer itself: "A" of a multiple choice.
    return " ".join((_ARTICLES.sub(" ", words).strip() or words).split())


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def same_answer(first: str, second: str) -> bool:
    """Whether two answers are equal after normalisation; empty answers never are.

    Example:
        >>> same_answer("Paris.", "paris")
        True
    """
    normalised = normalise_answer(first)
    return bool(normalised) and normalised == normalise_answer(second)


def is_refusal(text: str) -> bool:
    """Whether a short answer says that there is none.

    Example:
        >>> is_refusal("I don't know.")
        True
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
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
