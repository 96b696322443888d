"""Where an answer stands in a text, and whether it does in any spelling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from ....guard.matching import canonical_answer

_FACTORS = (0.7, 1.3, 0.6, 1.4, 0.8, 1.6, 0.5, 1.9)
_YEARS = (-4, -7, -11, -3, -16, -9)
_WORDS = (
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_FIGURES = re.compile(r"(\d+(?:,\d{3})*)(?:\.(\d+))?( .+)?")


def nearby_years(value: float) -> list[str]:
    """Some years before a year.

    Example:
        >>> nearby_years(1843)
        ['1839', '1836', '1832', '1840', '1827', '1834']
    """
    return [str(int(value) + step) for step in _YEARS]


def nearby_numbers(number: str, value: float, *, most: float | None = None) -> list[str]:
    """Numbers of like size and roundness, as words where `number` is in words.

    Args:
        number: as it is written; what follows its figures, such as `million`, stays.
        value: of the figures.
        most: none above that, such as 100 for a share in per cent.

    Returns:
        None is `number` itself, 0 or 1; empty for words above twelve.

    Example:
        >>> nearby_numbers("1,200", 1200.0)
        ['800', '1,600', '700', '1,700', '1,000', '1,900', '600', '2,300']
        >>> nearby_numbers("three", 3.0)
        ['two', 'four', 'five']
    """
    if number.lower() in _WORDS:
        at = _WORDS.index(number.lower())
        near = sorted(range(len(_WORDS)), key=lambda other: (abs(other - at), other))
        return [_WORDS[other] for other in near[1:4]]
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


CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_CHARACTER = re.compile(f"[{CJK}]")
# One character each, so that places stay where they are.
_ALIKE = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def occurrences(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """Start and end of each place where an answer stands, in order and without overlap.

    Case, kind of quotation mark and dash, and the width of spaces do not matter. An answer
    stands for itself only where it is no part of a longer word or number; of two that
    overlap the longer one counts.

    Example:
        >>> occurrences("Nineteen or nine? 9.5, or Nine.", ["nine"])
        [(12, 16), (26, 30)]
    """
    plain = text.translate(_ALIKE)
    found: list[tuple[int, int]] = []
    for answer in sorted(set(answers), key=lambda one: (-len(one), one)):
        pattern = _pattern(answer)
        if pattern is None:
            continue
        for match in pattern.finditer(plain):
            start, end = match.span()
            if not _stands_alone(plain, start, end):
                continue
            if all(end <= other[0] or start >= other[1] for other in found):
                found.append((start, end))
    return sorted(found)


@lru_cache(maxsize=65536)
def _pattern(answer: str) -> re.Pattern[str] | None:
    words = answer.translate(_ALIKE).split()
    if not words:
        return None
    return re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether what is found is no part of a longer word or number."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if _is_word(text[start]) and _is_word(before[-1:]):
        return False
    if _is_word(text[end - 1]) and _is_word(after[:1]):
        return False
    inside_number = text[start].isdigit() and before[-1:] in {".", ","} and before[:1].isdigit()
    goes_on = text[end - 1].isdigit() and after[:1] in {".", ","} and after[1:].isdigit()
    return not (inside_number or goes_on)


def _is_word(character: str) -> bool:
    # Beside Chinese a Latin word or a figure needs no space.
    return (character.isalnum() or character == "_") and not _CJK_CHARACTER.match(character)


def holds_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether any answer can be read in `text`, in whatever spelling.

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
    folded, canonical = _folded(text), None
    for answer in answers:
        if (wanted := _folded(answer)).strip() and wanted in folded:
            return True
        if any(character.isdigit() for character in canonical_answer(answer)):
            canonical = _folded(canonical_answer(text)) if canonical is None else canonical
            if _folded(canonical_answer(answer)) in canonical:
                return True
    return False


@lru_cache(maxsize=16384)
def _folded(text: str) -> str:
    """The words of a text between single spaces, one at each end."""
    return f" {' '.join(words_of(text))} "


def words_of(text: str) -> list[str]:
    """Words without case, accents and punctuation; each Chinese character is one.

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
