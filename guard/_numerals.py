"""Numbers in words, written in digits: "twenty-three" as "23", "2 million" as "2000000"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9,
}  # fmt: skip
_TEENS = {
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
_SCALES = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_CARDINALS = {**_UNITS, **_TEENS, **_TENS, **_SCALES}
_IRREGULAR = {
    "first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight",
    "ninth": "nine", "twelfth": "twelve",
}  # fmt: skip


def _ordinal(word: str) -> str:
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


_REGULAR = {w: _ordinal(w) for w in _CARDINALS if w != "zero" and w not in _IRREGULAR.values()}
_ORDINALS = {**_IRREGULAR, **{ordinal: word for word, ordinal in _REGULAR.items()}}
_WORD = "|".join(sorted([*_CARDINALS, *_ORDINALS], key=len, reverse=True))
_SCALE = "|".join(_SCALES)
_DIGITS = rf"\d{{1,15}}(?:,\d{{3}}){{0,4}}(?:\.\d{{1,15}})?(?=[ -](?:{_SCALE})\b)"
_RUN = re.compile(
    rf"(?<![\w.,])(?:{_DIGITS}|(?:{_WORD})\b)(?:(?:[ -]| and )(?:{_WORD})\b)*", re.IGNORECASE
)
# In "no one" and its kind it is no number.
_PRONOUN = re.compile(r"\b(?:no|any|every|some|each|this|that)[ -]$", re.IGNORECASE)
_LARGEST = 10**15


def numerals_as_digits(text: str) -> str:
    """`text` with its English number words in digits, ordinals as "21st".

    Example:
        >>> numerals_as_digits("twenty-three of 1.5 million, the forty-second")
        '23 of 1500000, the 42nd'
    """
    return _RUN.sub(lambda found: _run_in_digits(text[: found.start()], found.group()), text)


def _run_in_digits(before: str, run: str) -> str:
    if run.lower() == "one" and _PRONOUN.search(before):
        return run
    return " ".join(_numbers(re.split(r"[ -]", run.lower())))


class _Number:
    """One number read word by word.

    `group` is the part below the next scale word ("two hundred five" of "two hundred
    five thousand"), `total` what the scale words before it have closed.
    """

    def __init__(self) -> None:
        self.total = Decimal(0)
        self.group: Decimal | None = None
        self.room = _LARGEST  # the next word must be below it
        self.last_scale = _LARGEST
        self.after_hundred_or_scale = False

    def takes(self, word: str) -> bool:
        """Add `word`; False where it begins another number."""
        if word in _SCALES:
            return self._takes_scale(_SCALES[word])
        if word not in _CARDINALS:
            value = Decimal(word.replace(",", ""))
            fits = self.group is None and not self.total
            self.group, self.room = (value, 0) if fits else (self.group, self.room)
            return fits
        number = _CARDINALS[word]
        if number >= self.room or (number == 0 and not self._empty()):
            return False
        self.group = (self.group or 0) + Decimal(number)
        # After tens only a unit may follow, after anything smaller nothing.
        self.room = 10 if number in _TENS.values() else 0
        self.after_hundred_or_scale = False
        return True

    def _takes_scale(self, scale: int) -> bool:
        group = self.group
        if scale == 100:
            if group is not None and not 0 < group < 100:
                return False
            if group is None and not self._empty():
                return False
            self.group, self.room = (group or 1) * Decimal(100), 100
        else:
            if scale >= self.last_scale or (group is None and not self._empty()) or group == 0:
                return False
            self.total += (Decimal(1) if group is None else group) * scale
            self.group, self.room, self.last_scale = None, _LARGEST, scale
        self.after_hundred_or_scale = True
        return True

    def _empty(self) -> bool:
        return self.group is None and not self.total

    def __str__(self) -> str:
        value = self.total + (self.group or 0)
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _numbers(words: list[str]) -> Iterator[str]:
    """The numbers in a run of number words and "and"."""
    number: _Number | None = None
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if word == "and":
            below_hundred = _ORDINALS.get(following, following) not in _SCALES
            if number is not None and number.after_hundred_or_scale and below_hundred:
                continue
            if number is not None:
                yield str(number)
                number = None
            yield word
            continue
        cardinal = _ORDINALS.get(word, word)
        if number is None or not number.takes(cardinal):
            if number is not None:
                yield str(number)
            number = _Number()
            number.takes(cardinal)
        if word in _ORDINALS:
            yield _with_suffix(str(number))
            number = None
    if number is not None:
        yield str(number)


def _with_suffix(digits: str) -> str:
    if "." in digits or digits[-2:] in ("11", "12", "13"):
        return digits + "th"
    return digits + {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
