"""Years and spans of years, as questions ask about them and sentences state them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ...language import compiled, word_list

_RULE = compiled("premises", "time")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# From which on no question asks about what has been.
_FIRST_FUTURE = 2200
_IN_PASSAGE = (
    r"\b{month}\s+(?:the )?{day}(?:st|nd|rd|th)?\b|\b{day}(?:st|nd|rd|th)?\s+(?:of )?{month}\b"
)


def impossible_day(text: str) -> tuple[str, int] | None:
    """A day that no calendar has, its month as written; None where a text has none.

    Example:
        >>> impossible_day("What happened on 30 February 1990?")
        ('february', 30)
        >>> impossible_day("What caused the protests of May 68?")
    """
    for match in _RULE["day"].finditer(text):
        name, day = match["m1"] or match["m2"], int(match["d1"] or match["d2"] or match["d3"])
        shown = name.casefold() if name else str(int(match["m3"]))
        month = word_list("dates", "months").index(shown) + 1 if name else int(shown)
        days = _DAYS[month - 1] if 1 <= month <= 12 else 0
        if not 1 <= day <= days:
            return shown, day
    return None


def day_stands_in(day: tuple[str, int], text: str) -> bool:
    """Whether a folded text mentions a day, in either order."""
    month, number = day
    if month.isdigit():
        return re.search(rf"(?<!\d){month} ?月 ?{number} ?[日号]", text) is not None
    pattern = _IN_PASSAGE.format(month=month, day=number)
    return re.search(pattern, text, re.IGNORECASE) is not None


def future_year(text: str) -> int | None:
    """A year far ahead in which something is asked about; None where a text names none.

    Example:
        >>> future_year("Who won the cup in 2999?"), future_year("What pays in 2999 points?")
        (2999, None)
    """
    for match in _RULE["future"].finditer(text):
        year = int(match["en"] or match["zh"])
        if year >= _FIRST_FUTURE:
            return year
    return None


def span_reversed(text: str) -> tuple[int, int] | None:
    """A span of years that ends before it begins; None where a text has none.

    Example:
        >>> span_reversed("Who led Rill from 1912 to 1907?")
        (1912, 1907)
    """
    for match in _RULE["span"].finditer(text):
        start, end = int(match["a"] or match["b"] or match["d"]), int(match["c"] or match["e"])
        if end < start:
            return start, end
    return None


_Y = r"(?<![\d.,])(\d{3,4})(?![\d.,]?\d|s\b)"
_THE_YEAR = r"(?:the )?(?:years? )?(?:of )?"
_HALF_OPEN = re.compile(r"\((?:(\d{3,4})\s*-\s*\??|\??\s*-\s*(\d{3,4}))\)")
_DATED = re.compile(r"(?<!\d)(\d{4})-\d{2}-\d{2}(?!\d)")
_NAME_GOES_ON = re.compile(r"\s+[A-Z]")
_AFTER = frozenset({"since", "after", "以后", "之后", "后", "以来"})


@dataclass(frozen=True, slots=True)
class Period:
    """Years from `start` to `end`, both within it; infinite where it is open.

    Attributes:
        start: first year.
        end: last year; before `start` where the text has them the wrong way round.
    """

    start: float
    end: float

    def outside(self, other: Period) -> bool:
        """Whether the two have no year in common."""
        return self.end < other.start or other.end < self.start

    def within(self, other: Period) -> bool:
        """Whether all of it lies in the other."""
        return other.start <= self.start and self.end <= other.end


def read_periods(text: str) -> tuple[list[Period], str]:
    """The periods in a folded text, and the text without them.

    None where years are counted backwards. Runs of spaces must have been made one.

    Example:
        >>> read_periods("Who led Rill from 1907 to 1912?")
        ([Period(start=1907.0, end=1912.0)], 'Who led Rill  ?')
    """
    found: list[Period] = []
    if _RULE["not_ours"].search(text):
        return found, text

    def take(period: Period) -> str:
        found.append(period)
        return " "

    def span(match: re.Match[str]) -> str:
        # "1990 and 1995" are two years.
        if " and " in match.group() and not match.group().casefold().startswith("between"):
            return match.group()
        return take(Period(float(match[1]), float(match[2])))

    text = _RULE["span_periods"].sub(span, text)
    text = _HALF_OPEN.sub(
        lambda m: take(Period(float(m[1] or -math.inf), float(m[2] or math.inf))), text
    )
    text = _RULE["open"].sub(lambda m: take(_open(m)), text)
    text = _RULE["decade"].sub(lambda m: take(_years(m[1] or m[2], 9)), text)
    text = _DATED.sub(lambda m: take(_years(m[1])), text)

    def one(match: re.Match[str]) -> str:
        # "in 2006 World Cup" is a name.
        if match[1] and _NAME_GOES_ON.match(text, match.end()):
            return match.group()
        return take(_years(match[1] or match[2]))

    return found, _RULE["one"].sub(one, text)


def _years(first: str, further: int = 0) -> Period:
    return Period(float(first), float(first) + further)


def _open(match: re.Match[str]) -> Period:
    year = float(match[2] or match[3])
    word = match["en"] or match["zh"]
    # Whether the year itself counts, people disagree: it does.
    return Period(year, math.inf) if word in _AFTER else Period(-math.inf, year)
