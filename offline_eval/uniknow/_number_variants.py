"""Numbers near another one, written in the same way."""

from __future__ import annotations

import re

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
