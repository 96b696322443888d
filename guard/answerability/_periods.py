"""Years and spans of years, as questions ask about them and sentences state them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_Y = r"(?<![\d.,])(\d{3,4})(?![\d.,]?\d|s\b)"
_TO = r"\s*(?:to|and|until|till|through|-|~|年?\s*(?:至|到|-|~))\s*"
_THE_YEAR = r"(?:the )?(?:years? )?(?:of )?"
_SPAN = re.compile(
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

    text = _SPAN.sub(span, text)
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
