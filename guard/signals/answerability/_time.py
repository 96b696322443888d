"""Years and spans of years, as questions ask about them and sentences state them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_MONTHS = {
    "february": 29, "april": 30, "june": 30, "september": 30, "november": 30,
}  # fmt: skip
_LONG = "january|march|may|july|august|october|december"
_NAMES = "|".join(_MONTHS)
# A number beyond 31 is a year, "May 68", or a count, "may 50 guests".
_DAY = re.compile(
    rf"\b(?:(?P<m1>{_NAMES})\s+(?:the )?(?P<d1>3[01])|(?:the )?(?P<d2>3[01])(?:st|nd|rd|th)?\s+"
    rf"(?:of\s+)?(?P<m2>{_NAMES}))(?:st|nd|rd|th)?\b(?!\s*[-:%])"
    r"|(?<!\d)(?P<m3>\d{1,2})月(?P<d3>\d{1,2})[日号](?!\w*[楼樓])",
    re.IGNORECASE,
)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# What follows a time; "in 3000 metres" and "2500年的历史" go on otherwise.
_STOPS = r"(?=\s*(?:[?.,;!]|$))"
_STOPS_ZH = r"(?=\s*(?:[,，谁誰哪]|什[么麼]|期间|期間))"
_FUTURE = re.compile(
    rf"\b(?:in|during|in the year|in the year of|the year)\s+(?P<en>[2-9]\d{{3}}){_STOPS}"
    rf"|(?<![\d.,])(?P<zh>[2-9]\d{{3}})年{_STOPS_ZH}",
    re.IGNORECASE,
)
# From which on no question asks about what has been.
_FIRST_FUTURE = 2200
_SPAN = re.compile(
    r"\b(?:from (?P<a>1\d{3}|20\d{2}) (?:to|until|till)|between (?P<b>1\d{3}|20\d{2}) and)"
    rf" (?P<c>1\d{{3}}|20\d{{2}}){_STOPS}"
    r"|(?<!\d)(?P<d>1\d{3}|20\d{2})年(?:至|到)(?P<e>1\d{3}|20\d{2})年",
    re.IGNORECASE,
)
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
    for match in _DAY.finditer(text):
        name, day = match["m1"] or match["m2"], int(match["d1"] or match["d2"] or match["d3"])
        month = 0 if name else int(match["m3"])
        days = _MONTHS[name.casefold()] if name else _DAYS[month - 1] if 1 <= month <= 12 else 0
        if not 1 <= day <= days:
            return (name.casefold() if name else str(month)), day
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
    for match in _FUTURE.finditer(text):
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
    for match in _SPAN.finditer(text):
        start, end = int(match["a"] or match["b"] or match["d"]), int(match["c"] or match["e"])
        if end < start:
            return start, end
    return None


_Y = r"(?<![\d.,])(\d{3,4})(?![\d.,]?\d|s\b)"
_TO = r"\s*(?:to|and|until|till|through|-|~|年?\s*(?:至|到|-|~))\s*"
_THE_YEAR = r"(?:the )?(?:years? )?(?:of )?"
_SPAN_PERIODS = re.compile(
    rf"(?:\b(?:from|between)\s+{_THE_YEAR})?{_Y}{_TO}{_THE_YEAR}(\d{{3,4}})(?![\d]|[.,]\d|s\b)"
)
_OPEN = re.compile(
    rf"\b(?P<en>since|after|before|until|till)\s+{_THE_YEAR}{_Y}|{_Y}年(?P<zh>以后|之后|后|以来|以前|之前|前)"
)
_DECADE = re.compile(r"\b(?:in|during)\s+the\s+(\d{3}0)s\b|(?<!\d)(\d{3}0)年代")
_ONE = re.compile(
    rf"(?:\b(?:in|during|throughout|as of|year of|year)\s+{_THE_YEAR}{_Y}(?!\s*[-~]\s*\d))"
    rf"|{_Y}\s*年"
)
_HALF_OPEN = re.compile(r"\((?:(\d{3,4})\s*-\s*\??|\??\s*-\s*(\d{3,4}))\)")
_DATED = re.compile(r"(?<!\d)(\d{4})-\d{2}-\d{2}(?!\d)")
_NOT_OURS = re.compile(r"\b(?:BC|BCE|B\.C)\b|公元前|前\d")
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
    if _NOT_OURS.search(text):
        return found, text

    def take(period: Period) -> str:
        found.append(period)
        return " "

    def span(match: re.Match[str]) -> str:
        # "1990 and 1995" are two years.
        if " and " in match.group() and not match.group().casefold().startswith("between"):
            return match.group()
        return take(Period(float(match[1]), float(match[2])))

    text = _SPAN_PERIODS.sub(span, text)
    text = _HALF_OPEN.sub(
        lambda m: take(Period(float(m[1] or -math.inf), float(m[2] or math.inf))), text
    )
    text = _OPEN.sub(lambda m: take(_open(m)), text)
    text = _DECADE.sub(lambda m: take(Period(float(m[1] or m[2]), float(m[1] or m[2]) + 9.0)), text)
    text = _DATED.sub(lambda m: take(Period(float(m[1]), float(m[1]))), text)

    def one(match: re.Match[str]) -> str:
        # "in 2006 World Cup" is a name.
        if match[1] and _NAME_GOES_ON.match(text, match.end()):
            return match.group()
        year = float(match[1] or match[2])
        return take(Period(year, year))

    return found, _ONE.sub(one, text)


def _open(match: re.Match[str]) -> Period:
    year = float(match[2] or match[3])
    word = match["en"] or match["zh"]
    # Whether the year itself counts, people disagree: it does.
    return Period(year, math.inf) if word in _AFTER else Period(-math.inf, year)
