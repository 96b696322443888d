"""Words by what they do, in English and Chinese: one table for all rules, `words.toml`.

Patterns of whole wordings stand beside it: `refusals.toml`, `premises.toml`,
`spoken.toml`, `support.toml`, `injection.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from importlib import resources
from typing import Any


@cache
def table(name: str) -> dict[str, Any]:
    """Return a table of this folder by its file's name."""
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


_TABLE = table("words")
# Characters that are not seen.
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def section(name: str) -> Any:
    """Return a section of the table: its entries by name, or a list of them.

    Example:
        >>> section("units")["km"]
        'km kilometer kilometers kilometre kilometres'
    """
    return _TABLE[name]


def word_list(name: str, entry: str) -> list[str]:
    """Return the words of an entry in their order.

    Example:
        >>> word_list("dates", "weekdays")[0]
        'monday'
    """
    return str(_TABLE[name][entry]).split()


def listed(name: str, entry: str) -> frozenset[str]:
    """Return the words of an entry.

    Example:
        >>> "never" in listed("negation", "negators")
        True
    """
    return frozenset(word_list(name, entry))


def by_word(name: str) -> dict[str, str]:
    """Return by each word of a section the name of the entry that it stands in.

    Example:
        >>> by_word("units")["kilometres"]
        'km'
    """
    return {word: entry for entry, words in section(name).items() for word in words.split()}


def entries_by_word(*names: str) -> dict[str, list[str]]:
    """Return by each word of these sections the names of all entries that it stands in.

    Example:
        >>> entries_by_word("question_words")["wann"]
        ['german']
    """
    found: dict[str, list[str]] = {}
    for name in names:
        for entry, words in section(name).items():
            for word in words.split():
                found.setdefault(word, []).append(entry)
    return found


def without_suffix(word: str, suffixes: Iterable[str], least: int) -> str:
    """Return a word without the first of these suffixes that leaves it so many letters.

    Example:
        >>> without_suffix("rings", ("ing", "s"), 3), without_suffix("ring", ("ing", "s"), 3)
        ('ring', 'ring')
    """
    fitting = (one for one in suffixes if word.endswith(one) and len(word) - len(one) >= least)
    return word.removesuffix(next(fitting, ""))


def filled(patterns: Mapping[str, str]) -> dict[str, str]:
    """Return patterns with those above them put in the place of their names in braces.

    Example:
        >>> filled({"day": "[0-9]+", "span": "{day} to {day}"})["span"]
        '[0-9]+ to [0-9]+'
    """
    found: dict[str, str] = {}
    for name, pattern in patterns.items():
        slots = [(f"{{{slot}}}", meaning) for slot, meaning in found.items()]
        found[name] = reduce(lambda text, slot: text.replace(*slot), slots, pattern)
    return found


def compiled(name: str, part: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of one part of a table, ready for use."""
    return {key: re.compile(pattern) for key, pattern in filled(table(name)[part]).items()}


# Numbers below a hundred by their words, what a following scale multiplies by, and ordinals up to
# the twelfth by what they count.
TENS = {word: 10 * value for value, word in enumerate(word_list("numbers", "tens"), start=2)}
NUMBERS = {word: value for value, word in enumerate(word_list("numbers", "to_nineteen"))} | TENS
SCALES = {word: int(value) for word, value in section("scales").items()}
ORDINALS = dict(
    zip(word_list("numbers", "ordinals"), word_list("numbers", "to_nineteen")[1:], strict=False)
)
CHINESE_SCALES: dict[str, float] = section("chinese_scales")
CHINESE_DIGITS = {
    character: value
    for value, characters in enumerate(word_list("numbers", "chinese_digits"))
    for character in characters
}


def chinese_number(text: str) -> float:
    """Return the number that Chinese numerals stand for, alone or with scales.

    Example:
        >>> chinese_number("八十五"), chinese_number("一九九〇"), chinese_number("两万三千")
        (85.0, 1990.0, 23000.0)
    """
    if CHINESE_SCALES.keys().isdisjoint(text):
        return float("".join(str(CHINESE_DIGITS[character]) for character in text))
    total = section = digit = 0.0
    for character in text:
        if character in CHINESE_DIGITS:
            digit = float(CHINESE_DIGITS[character])
        elif (scale := CHINESE_SCALES[character]) >= 1e4:
            total, section, digit = (total + section + digit) * scale, 0.0, 0.0
        else:
            section, digit = section + (digit or 1.0) * scale, 0.0
    return total + section + digit


# Months by name and by its first letters.
MONTHS = {
    form: number
    for number, name in enumerate(word_list("dates", "months"), start=1)
    for form in (name, name[:3])
} | {"sept": 9}
