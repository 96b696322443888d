"""Find answers in texts, in every script, and compare them with accepted ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ....guard.language import NUMBERS, SCALES
from ....guard.matching import canonical_answer, normalise_answer

# Each maps to one character, so that positions do not change.
_ALIKE = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})
# Thai and its neighbours, Chinese, Japanese, and Korean, whose particles follow without a space.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)


def occurrences(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """Return start and end of each occurrence of an answer, in order and without overlap.

    Case, kind of quotation mark and dash, and the width of spaces do not matter. An answer
    counts only if it is not part of a longer word or number; of two that overlap the longer
    one counts.

    Example:
        >>> occurrences("Nineteen or nine? 9.5, or Nine.", ["nine"])
        [(12, 16), (26, 30)]
    """
    plain = text.translate(_ALIKE)
    found: list[tuple[int, int]] = []
    told = filter(str.strip, set(answers))
    for answer in sorted(told, key=lambda one: (-len(one), one)):
        for match in _pattern(answer).finditer(plain):
            start, end = match.span()
            if not _stands_alone(plain, start, end):
                continue
            if all(end <= other[0] or start >= other[1] for other in found):
                found.append((start, end))
    return sorted(found)


@lru_cache(maxsize=65536)
def _pattern(answer: str) -> re.Pattern[str]:
    words = answer.translate(_ALIKE).split()
    return re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether a match is not part of a longer word or number."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if _is_word(text[start]) and _is_word(before[-1:]):
        return False
    if _is_word(text[end - 1]) and _is_word(after[:1]):
        return False
    inside_number = text[start].isdigit() and before[-1:] in {".", ","} and before[:1].isdigit()
    goes_on = text[end - 1].isdigit() and after[:1] in {".", ","} and after[1:].isdigit()
    return not (inside_number or goes_on)


def _is_word(character: str) -> bool:
    # Next to Chinese a Latin word or a number needs no space.
    return (character.isalnum() or character == "_") and not _UNSPACED.match(character)


_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_CHARACTER = re.compile(f"[{CJK}]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def is_right(answer: str, accepted: Sequence[str]) -> bool:
    """Return whether an answer equals an accepted one; an empty one never does.

    Compared in lower case, without punctuation and articles, with single spaces.
    Punctuation may stand for nothing, as in "U.S.", or for a space, as in "long-term".

    Example:
        >>> is_right("The U.S.", ["US"]), is_right("long-term", ["Long term"]), is_right("", [""])
        (True, True, False)
    """
    closed, spaced = _closed(answer), normalise_answer(answer)
    return any(
        (bool(closed) and closed == _closed(one))
        or (bool(spaced) and spaced == normalise_answer(one))
        for one in accepted
    )


def _closed(text: str) -> str:
    lowered = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(c for c in lowered if not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLE.sub(" ", bare).split())


def holds_answer(text: str, answers: Iterable[str]) -> bool:
    """Return whether any answer occurs in `text`, in any spelling.

    Beyond `occurrences`, accents, punctuation and thousands separators do not matter, and
    numbers in words and dates count as those in figures.

    Example:
        >>> holds_answer("About 4,310 people live there.", ["4310"])
        True
        >>> holds_answer("There are nineteen.", ["nine"])
        False
    """
    answers = list(answers)
    if occurrences(text, answers):
        return True
    told = _folded(text)
    if any(one.strip() and one in told for one in map(_folded, answers)):
        return True
    numbers = [one for one in map(canonical_answer, answers) if any(map(str.isdigit, one))]
    told = _folded(canonical_answer(text)) if numbers else ""
    return any(_folded(one) in told for one in numbers)


@lru_cache(maxsize=16384)
def _folded(text: str) -> str:
    """Return the words of a text between single spaces, with a space at each end."""
    return f" {' '.join(words_of(text))} "


def words_of(text: str) -> list[str]:
    """Return words without case, accents and punctuation; each Chinese character is one.

    Example:
        >>> words_of("Beyoncé's 1,200 fans")
        ['beyonce', 's', '1200', 'fans']
    """
    plain = unicodedata.normalize("NFKD", _THOUSANDS.sub("", text)).casefold()
    plain = _CJK_CHARACTER.sub(r" \g<0> ", unicodedata.normalize("NFC", plain))
    kept = "".join(
        character if character.isalnum() else "" if unicodedata.combining(character) else " "
        for character in unicodedata.normalize("NFD", plain)
    )
    return kept.split()


def stands_in(answer: str, text: str) -> bool:
    """Return whether the answer's words occur in the text in sequence, after normalisation.

    Example:
        >>> stands_in("the Red House.", "A red house burnt."), stands_in("Red", "reddish")
        (True, False)
    """
    wanted = normalise_answer(answer)
    return bool(wanted) and f" {wanted} " in f" {_normalised(text)} "


_normalised = lru_cache(maxsize=8192)(normalise_answer)


_WORD = "|".join(sorted([*NUMBERS, *SCALES], key=len, reverse=True))
# Two to twelve.
_SMALL_WORDS = list(NUMBERS)[2:13]
_FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?"
_SCALE = "(?: (?:thousand|million|billion|trillion)\\b)?"
NUMBER = re.compile(
    rf"(?<![\w.])(?:{_FIGURE}(?!\w){_SCALE}|(?:{_WORD})(?:[ -](?:{_WORD}))*\b(?!-))", re.IGNORECASE
)
_FIGURES = re.compile(r"(\d+(?:,\d{3})*)(?:\.(\d+))?( .+)?")
_FACTORS = (0.7, 1.3, 0.6, 1.4, 0.8, 1.6, 0.5, 1.9)
_YEAR_STEPS = (-4, -7, -11, -3, -16, -9)


def number_value(number: str) -> float | None:
    """Return a number in figures or words as a float; None if it is not one."""
    plain = canonical_answer(number).replace(",", "")
    return float(plain) if re.fullmatch(r"\d+(?:\.\d+)?", plain) else None


def nearby_years(value: float) -> list[str]:
    """Return some years before a year.

    Example:
        >>> nearby_years(1843)
        ['1839', '1836', '1832', '1840', '1827', '1834']
    """
    return [str(int(value) + step) for step in _YEAR_STEPS]


def nearby_numbers(number: str, value: float, *, most: float | None = None) -> list[str]:
    """Return numbers of similar size and roundness, as words if `number` is in words.

    Args:
        number: as it is written; what follows its figures, such as `million`, is kept.
        value: of the figures.
        most: upper bound, such as 100 for a percentage.

    Returns:
        Never `number` itself, 0 or 1; empty for words above twelve.

    Example:
        >>> nearby_numbers("1,200", 1200.0)
        ['800', '1,600', '700', '1,700', '1,000', '1,900', '600', '2,300']
        >>> nearby_numbers("three", 3.0)
        ['two', 'four', 'five']
    """
    if number.lower() in _SMALL_WORDS:
        at = _SMALL_WORDS.index(number.lower())
        near = sorted(range(len(_SMALL_WORDS)), key=lambda other: (abs(other - at), other))
        return [_SMALL_WORDS[other] for other in near[1:4]]
    found = _FIGURES.fullmatch(number)
    if found is None:
        return []
    whole, decimals, rest = found.group(1).replace(",", ""), found.group(2) or "", found.group(3)
    scale = float(f"{whole}.{decimals or 0}")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    grain = 10.0 ** (-len(decimals) if decimals else min(zeros, max(0, len(whole) - 1)))
    written: dict[str, None] = {}
    for factor in _FACTORS:
        new = round(scale * factor / grain) * grain
        if new in (0, 1) or new == scale or (most is not None and new * value > most * scale):
            continue
        comma = "," if "," in found.group(1) else ""
        written[f"{new:{comma}.{len(decimals)}f}{rest or ''}"] = None
    return list(written)
