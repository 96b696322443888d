"""Turn numbers, counts and free text into the words of a report."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...calibration import Interval

# Stands for a number that is undefined.
UNKNOWN = "–"

# No line break between a number and its unit.
_SPACE = "\u00a0"
_MINUS = "\N{MINUS SIGN}"
# Marks that override the writing direction could make a page read differently from its source.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Put the text on one line, without control and direction characters.

    Spaces that forbid a line break are kept.
    """
    text = _DIRECTION.sub("", text)
    text = "".join(" " if unicodedata.category(sign) == "Cc" else sign for sign in text)
    return re.sub(r"[^\S\u00a0]+", " ", text).strip()


def one_line(text: str, limit: int | None = None) -> str:
    """Put the text on one line, without control and direction characters.

    Args:
        text: any.
        limit: most characters; a longer text is cut, at a space if possible.

    Example:
        >>> one_line("a\\n  b\\x07"), one_line("a knowledge base", 12)
        ('a b', 'a knowledge…')
    """
    text = " ".join(printable(text).split())
    if limit is None or len(text) <= limit:
        return text
    cut = text[: limit - 1]
    at_space = cut if text[limit - 1] == " " else cut.rpartition(" ")[0]
    return (at_space if len(at_space) > limit // 2 else cut).rstrip() + "…"


def percent(share: float | None, *, exact: bool = False) -> str:
    """Write a share in [0, 1] as percent; `–` for None.

    A share near 0 or 1 is never rounded to 0 % or 100 %.

    Args:
        share: to write.
        exact: keep all digits, as for a bound that the user asked for.

    Example:
        >>> [percent(share).replace("\\xa0", " ") for share in (0.0, 0.914, 0.997, 1.0)]
        ['0 %', '91 %', '99.7 %', '100 %']
        >>> percent(0.0004, exact=True).replace("\\xa0", " "), percent(None)
        ('0.04 %', '–')
    """
    if share is None:
        return UNKNOWN
    if exact:
        return f"{(100 * Decimal(str(share))).normalize():f}{_SPACE}%"
    value = 100 * share
    if 0 < value < 1 or 99 < value < 100:
        # Cut off, not rounded up to a full hundred.
        value = min(99.9, max(0.1, round(value, 1)))
        return f"{value:.1f}{_SPACE}%"
    return f"{value:.0f}{_SPACE}%"


def decimal(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    """Write a number with a fixed count of decimals; `–` for None.

    Args:
        value: to write.
        digits: decimals.
        signed: put a plus or a real minus sign in front, so that columns align.

    Example:
        >>> decimal(0.8567), decimal(None), decimal(-0.00001)
        ('0.857', '–', '0.000')
        >>> decimal(0.25, 2, signed=True), decimal(-0.0001, 2, signed=True)
        ('+0.25', '0.00')
    """
    if value is None:
        return UNKNOWN
    # Adding zero turns a rounded -0.0 into 0.0.
    rounded = round(value, digits) + 0.0
    if not signed:
        return f"{rounded:.{digits}f}"
    sign = "+" if rounded > 0 else _MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{digits}f}"


def counted(n: int, one: str, many: str = "") -> str:
    """Write a count with its noun; the plural adds an s unless given.

    Example:
        >>> counted(1, "case"), counted(0, "case"), counted(2, "reply", "replies")
        ('1 case', '0 cases', '2 replies')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def range_text(estimate: Interval, text: Callable[[float], str] = percent) -> str:
    """Write the ends of an interval, as "30 % to 95 %"; `–` where it is undefined."""
    if estimate.low is None or estimate.high is None:
        return UNKNOWN
    return f"{text(estimate.low)} to {text(estimate.high)}"


def estimate_text(
    estimate: Interval, text: Callable[[float], str] = percent, *, brackets: bool = True
) -> str:
    """Write an estimate and its interval for the middle of a sentence.

    Args:
        estimate: to write.
        text: how a number is written.
        brackets: put the interval in brackets; False where the sentence already brackets the whole.

    Example:
        >>> from knowgate.calibration import Interval
        >>> estimate_text(Interval(0.75, 0.3, 0.95, 4)).replace("\\xa0", " ")
        '75 % (95 % interval 30 % to 95 %)'
        >>> estimate_text(Interval(0.75, 0.3, 0.95, 4), brackets=False).replace("\\xa0", " ")
        '75 %, 95 % interval 30 % to 95 %'
    """
    if estimate.value is None:
        return "not measured"
    if estimate.low is None or estimate.high is None:
        return text(estimate.value)
    interval = f"95{_SPACE}% interval {range_text(estimate, text)}"
    value = text(estimate.value)
    return f"{value} ({interval})" if brackets else f"{value}, {interval}"


def signed_points(share: float) -> str:
    """Write a difference of shares in percentage points, without the unit."""
    return decimal(100 * share, 1, signed=True)


def p_value(value: float | None) -> str:
    """Write a p-value briefly.

    Example:
        >>> p_value(0.0312), p_value(0.5), p_value(None)
        ('0.031', '0.500', '–')
    """
    if value is None:
        return UNKNOWN
    return f"<{_SPACE}0.001" if value < 0.001 else f"{value:.3f}"


def short_range(estimate: Interval, text: Callable[[float], str]) -> str:
    """Write an interval as briefly as possible, as "30–95 %"; empty where it is undefined."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = text(estimate.low), text(estimate.high)
    # The unit once, after both ends.
    unit = f"{_SPACE}%"
    if low.endswith(unit) and high.endswith(unit):
        low = low.removesuffix(unit)
    return f"{low}\N{EN DASH}{high}"


def flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    """Flatten nested settings to pairs of a dotted name and its value."""
    if isinstance(value, dict) and value:
        return [
            pair
            for key, item in value.items()
            for pair in flat(f"{prefix}.{key}" if prefix else key, item)
        ]
    return [(one_line(prefix), UNKNOWN if value is None else one_line(str(value)))]
