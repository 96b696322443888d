"""Read an answer as words and quantities for comparison."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ...language import listed, section, word_list

NEGATORS = listed("negation", "negators")
AFFIRMED, DENIED = listed("answers", "affirmed"), listed("answers", "denied")
# Word → words that say the opposite.
OPPOSITES_OF: dict[str, set[str]] = {}
for _first, _second in (pair.split("/") for pair in word_list("negation", "opposites")):
    OPPOSITES_OF.setdefault(_first, set()).add(_second)
    OPPOSITES_OF.setdefault(_second, set()).add(_first)
NEGATING_PREFIXES = word_list("negation", "prefixes")
ANTONYM_STEM = 4

VERBS, LEAD_INS = listed("answers", "verbs"), listed("answers", "lead_ins")
PARTICIPLES, PRONOUNS = listed("answers", "participles"), listed("answers", "pronouns")
ALTERNATIVES = listed("answers", "alternatives")
FOLLOWERS = VERBS | listed("answers", "followers")
DATE_WORDS = listed("dates", "around_dates")


_WORD = re.compile(
    r"\d{4}-\d{2}-\d{2}(?!\d)"
    r"|(?:(?<![^\W_])-)?\d+(?:,\d{3})*(?:\.\d+)?(?:(?:st|nd|rd|th|s)(?![^\W\d_]))?"
    r"|[%$€£¥]"
    r"|[\u3400-\u9fff]"
    r"|(?:(?![\u3400-\u9fff])[^\W\d_])+(?:'(?:(?![\u3400-\u9fff])[^\W\d_])+)*"
)
_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
# More digits than a float holds are compared as they are written.
_EXACT = 15
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

_NUMBERS: dict[str, float] = {
    **{word: float(value) for value, word in enumerate(word_list("numbers", "to_nineteen"))},
    **{word: float(value) for value, word in enumerate(word_list("numbers", "ordinals"), start=1)},
    **{word: 10.0 * value for value, word in enumerate(word_list("numbers", "tens"), start=2)},
}
_SCALES: dict[str, float] = section("scales")
_CHINESE_SCALES: dict[str, float] = section("chinese_scales")
_CHINESE_DIGITS = {
    character: float(value)
    for value, characters in enumerate(word_list("numbers", "chinese_digits"))
    for character in characters
}
_COUNTED = listed("numbers", "counted_in_chinese")

_MONTH_NUMBERS = {
    form: number
    for number, name in enumerate(word_list("dates", "months"), start=1)
    for form in (name, name[:3])
} | {"sept": 9}
_WEEKDAYS = listed("dates", "weekdays")
_ARTICLES = frozenset({"a", "an", "the"})
# Months that are other words too count only beside a number.
_VERBS_TOO = listed("dates", "months_in_other_words")

# Name of a unit of measurement → the form in which it is compared.
UNITS = {name: unit for unit, names in section("units").items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an answer.

    Attributes:
        text: compatibility forms and case folded.
        start: where it begins in the folded text.
        end: where it ends.
        capital: whether it was written with a capital.
    """

    text: str
    start: int
    end: int
    capital: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer word by word, its numbers, months and units in one form.

    Attributes:
        text: the folded answer.
        words: its words; numbers as digits, months as `month 1` and so on.
        numbers: values of numerals, of words and of Roman numerals after a name.
        months: 1 to 12.
        weekdays: their names.
        units: what is counted, as far as it is a unit of measurement.
        dated: positions of the words that make up numbers, months and weekdays.
    """

    text: str
    words: tuple[Word, ...]
    numbers: frozenset[str]
    months: frozenset[int]
    weekdays: frozenset[str]
    units: frozenset[str]
    dated: frozenset[int]

    @property
    def content(self) -> list[str]:
        """The words as text."""
        return [word.text for word in self.words]


def read_answer(answer: str) -> Reading:
    """The words and quantities of an answer.

    Example:
        >>> read_answer("Twenty-three million kilometres").content
        ['23000000', 'km']
        >>> sorted(read_answer("on 4 July 1990").numbers)
        ['1990', '4']
    """
    text = unicodedata.normalize("NFKC", answer).replace("’", "'").replace("\u2212", "-")
    raw = [
        Word(m.group().casefold(), m.start(), m.end(), m.group()[:1].isupper())
        for m in _WORD.finditer(text)
    ]
    plain = [word for word in raw if word.text not in _ARTICLES] or raw
    return _read(text, _symbols_after(plain))


def _symbols_after(words: list[Word]) -> list[Word]:
    """Currency signs moved behind their number, where the words for them stand."""
    moved = list(words)
    for index in range(len(moved) - 1):
        if moved[index].text in "$€£¥" and moved[index + 1].text.lstrip("-")[:1].isdigit():
            moved[index], moved[index + 1] = moved[index + 1], moved[index]
    return moved


def _read(text: str, raw: list[Word]) -> Reading:
    words: list[Word] = []
    found: dict[str, set[str]] = {"number": set(), "month": set(), "weekday": set(), "unit": set()}
    dated: set[int] = set()
    index = 0
    while index < len(raw):
        kind, values, taken = _quantity(text, raw, index)
        last = raw[index + taken - 1]
        for value in values or [raw[index].text]:
            shown = f"month {value}" if kind == "month" else value
            if kind in {"number", "month", "weekday", "date"}:
                dated.add(len(words))
            words.append(Word(shown, raw[index].start, last.end, raw[index].capital))
        if kind == "date":
            found["number"] |= {values[0], values[2]}
            found["month"].add(values[1].removeprefix("month "))
        elif kind == "unit":
            # "second" beside no number is no unit, nor is "day" in a name.
            if len(words) > 1 and len(words) - 2 in dated:
                found["unit"].add(values[0])
        elif kind:
            found[kind] |= set(values)
        index += taken
    return Reading(
        text=text,
        words=tuple(words),
        numbers=frozenset(found["number"]),
        months=frozenset(int(month) for month in found["month"]),
        weekdays=frozenset(found["weekday"]),
        units=frozenset(found["unit"]),
        dated=frozenset(dated),
    )


def _quantity(text: str, words: list[Word], index: int) -> tuple[str, list[str], int]:
    """Kind and canonical words of the quantity at `index` (or none), and how many words it is."""
    word = words[index]
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", word.text):
        year, month, day = word.text.split("-")
        return "date", [_plain(float(day)), f"month {int(month)}", _plain(float(year))], 1
    if (month_number := _month(words, index)) is not None:
        return "month", [str(month_number)], 1
    if word.text.removesuffix("s") in _WEEKDAYS:
        return "weekday", [word.text.removesuffix("s")], 1
    value, taken = _number(text, words, index)
    if value is not None:
        return "number", [value], taken
    if taken == 1 and word.text in UNITS:
        return "unit", [UNITS[word.text]], 1
    return "", [w.text for w in words[index : index + taken]], taken


def _month(words: list[Word], index: int) -> int | None:
    word = words[index]
    month = _MONTH_NUMBERS.get(word.text)
    if month is None or (word.text in _VERBS_TOO and not _beside_digits(words, index)):
        return None
    return month


def _beside_digits(words: list[Word], index: int) -> bool:
    beside = words[max(0, index - 1) : index] + words[index + 1 : index + 2]
    return words[index].capital and (
        len(words) == 1 or any(word.text[:1].isdigit() for word in beside)
    )


def _number(text: str, words: list[Word], index: int) -> tuple[str | None, int]:
    """The number that begins at `index` as text that compares equal, and how many words it is."""
    word = words[index]
    if re.fullmatch(r"\d\d+s", word.text):
        return word.text, 1  # a decade is not its first year
    if word.text.lstrip("-")[:1].isdigit():
        digits = re.sub(r"(st|nd|rd|th|s)$", "", word.text).replace(",", "")
        if len(digits) > _EXACT:
            return digits, 1
        return _scaled(words, index + 1, float(digits), 1)
    if word.text in _CHINESE_DIGITS or word.text in _CHINESE_SCALES:
        return _chinese(words, index)
    if word.text in _NUMBERS:
        if word.text == "one" and _is_a_pronoun(words, index):
            return None, 1
        value, taken = _NUMBERS[word.text], 1
        following = words[index + 1].text if index + 1 < len(words) else ""
        if 20 <= value < 100 and 0 < _NUMBERS.get(following, 0) < 10:
            value, taken = value + _NUMBERS[following], 2
        return _scaled(words, index + taken, value, taken)
    roman = text[word.start : word.end]
    if index and words[index - 1].capital and _ROMAN.fullmatch(roman):
        return _plain(_roman(roman)), 1
    return None, 1


def _scaled(words: list[Word], index: int, value: float, taken: int) -> tuple[str, int]:
    while index < len(words) and words[index].text in _SCALES:
        value *= _SCALES[words[index].text]
        index, taken = index + 1, taken + 1
    return _plain(value), taken


def _is_a_pronoun(words: list[Word], index: int) -> bool:
    before = words[index - 1].text if index else ""
    after = words[index + 1].text if index + 1 < len(words) else ""
    return after == "of" or before in {"no", "any", "every", "some", "the", "this", "that", "each"}


def _roman(text: str) -> float:
    values = [_ROMAN_VALUES[letter] for letter in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return float(sum(-value if value < following else value for value, following in pairs))


def _chinese(words: list[Word], index: int) -> tuple[str | None, int]:
    end = index
    while end < len(words) and (
        words[end].text in _CHINESE_DIGITS or words[end].text in _CHINESE_SCALES
    ):
        end += 1
    run = [word.text for word in words[index:end]]
    counted = end < len(words) and words[end].text in _COUNTED
    if len(run) < 2 and not counted:
        return None, len(run)  # as in 一些, where nothing is counted
    if not any(c in _CHINESE_SCALES for c in run):
        return _plain(float("".join(str(int(_CHINESE_DIGITS[c])) for c in run))), len(run)
    total = section = digit = 0.0
    for character in run:
        if character in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[character]
        elif (scale := _CHINESE_SCALES[character]) >= 1e4:
            total, section, digit = (total + section + digit) * scale, 0.0, 0.0
        else:
            section, digit = section + (digit or 1.0) * scale, 0.0
    return _plain(total + section + digit), len(run)


def _plain(value: float) -> str:
    return f"{value:.12g}" if value < 1e12 else f"{value:.0f}"
