"""Format numbers, counts and settings for the prose and tables of reports."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ._rendering import one_line

REPORT_SCHEMA_VERSION = 1

# No line break between a number and its sign.
SPACE = "\u00a0"


def percent(share: float) -> str:
    """A share in [0, 1] as percent; never rounds a part to nothing or to everything.

    Example:
        >>> [percent(share).replace("\\xa0", " ") for share in (0.0, 0.914, 0.997, 1.0)]
        ['0 %', '91 %', '99.7 %', '100 %']
    """
    value = 100 * share
    if 0 < value < 1 or 99 < value < 100:
        # Cut off, not rounded up to a full hundred.
        value = min(99.9, max(0.1, round(value, 1)))
        return f"{value:.1f}{SPACE}%"
    return f"{value:.0f}{SPACE}%"


def exact_percent(share: float) -> str:
    """A share that someone asked for, with all its digits.

    Example:
        >>> [exact_percent(share).replace("\\xa0", " ") for share in (0.1, 0.025, 0.0004)]
        ['10 %', '2.5 %', '0.04 %']
    """
    return f"{(100 * Decimal(str(share))).normalize():f}{SPACE}%"


def decimal(value: float | None, digits: int = 3) -> str:
    """A number with a fixed count of decimals, `–` where there is none.

    Example:
        >>> decimal(0.8567), decimal(None), decimal(-0.00001)
        ('0.857', '–', '0.000')
    """
    if value is None:
        return "–"
    # Adding zero turns a rounded -0.0 into 0.0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def counted(n: int, one: str, many: str) -> str:
    """A count with its noun.

    Example:
        >>> counted(1, "case", "cases"), counted(0, "case", "cases")
        ('1 case', '0 cases')
    """
    return f"{n} {one if n == 1 else many}"


def questions(n: int) -> str:
    """As `counted`, for questions."""
    return counted(n, "question", "questions")


def flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    """Nested settings as pairs of a dotted name and its value in words."""
    if isinstance(value, dict) and value:
        return [
            pair
            for key, item in value.items()
            for pair in flat(f"{prefix}.{key}" if prefix else key, item)
        ]
    return [(one_line(prefix), "–" if value is None else one_line(str(value)))]
