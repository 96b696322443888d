"""Find numbers in answers, compare them, and propose other numbers of similar size."""

from __future__ import annotations

import math
import re

import numpy as np

from ....guard.matching import canonical_answer

_WORD_NUMBER = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion"
)
_WORD = _WORD_NUMBER.replace(" ", "|")
_SMALL_WORDS = _WORD_NUMBER.split()[2:13]  # two to twelve
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
    try:
        value = float(canonical_answer(number).replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def number_form(number: str, *, year: bool) -> str:
    """Name how a number is written; only numbers of one form can replace each other."""
    if year:
        return "year"
    if not number[0].isdigit():
        return "words"
    scale = number.partition(" ")[2]
    return f"{'decimal' if '.' in number else 'figures'} {scale}"


def number_distance(own: float, other: float, *, year: bool) -> float:
    """Return how far apart two numbers are: years by difference, others by their log ratio."""
    if year or own <= 0 or other <= 0:
        return abs(own - other)
    return float(abs(np.log(own / other)))


def is_one(text: str) -> bool:
    """Return whether a number is one, so that nouns after it are in the singular."""
    return canonical_answer(text) in {"1", "1st", "1%"}


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
