"""Dates in one form: "4 July 1776" and "July 4th, 1776" as "1776 07 04"."""

from __future__ import annotations

import re

_MONTHS = {
    name: f"{number:02}"
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun",
            "july jul", "august aug", "september sept sep", "october oct", "november nov",
            "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_WEEKDAY = r"(?:\b(?:mon|tues|wednes|thurs|fri|satur|sun)day )?"
_FORMS = [
    re.compile(rf"{_WEEKDAY}(?<!\w){form}(?!\w)")
    for form in (
        rf"{_YEAR} {_MONTH} {_DAY}",
        rf"{_DAY} (?:of )?{_MONTH}(?: of)? {_YEAR}",
        rf"{_MONTH} {_DAY} {_YEAR}",
        rf"(?P<year>[12]\d{{3}})(?P<mark>[/.])(?P<month>0?[1-9]|1[0-2])(?P=mark){_DAY}",
        rf"{_MONTH}(?: of)? {_YEAR}",
        rf"{_DAY} (?:of )?{_MONTH}",
        rf"{_MONTH} {_DAY}",
    )
]


def dates_in_one_form(text: str) -> str:
    """`text` with its dates as "YYYY MM DD", "YYYY MM" or "MM DD".

    Dates of figures alone are read only where the year comes first: whether 4/7/1776
    is of April or of July, nobody can tell.

    Args:
        text: in lower case, without punctuation between words.

    Example:
        >>> dates_in_one_form("on thursday 4th of july 1776")
        'on 1776 07 04'
    """
    for form in _FORMS:
        text = form.sub(_ordered, text)
    return text


def _ordered(found: re.Match[str]) -> str:
    parts = found.groupdict()
    month = parts["month"]
    day = parts.get("day")
    ordered = [parts.get("year"), _MONTHS.get(month, month.zfill(2)), day and day.zfill(2)]
    return " ".join(part for part in ordered if part)
