"""What rules can say about two answers, so that no similarity has to guess.

An embedding hardly sees a digit or a "not": 23 and 32, 1990 and 1991, "is required"
and "is not required" lie close together. These are decided here, by what is written: an answer
is read as words and quantities, and two readings are compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import filterfalse, pairwise

from ...language import (
    CHINESE_DIGITS,
    CHINESE_SCALES,
    MONTHS,
    NUMBERS,
    ORDINALS,
    SCALES,
    by_word,
    chinese_number,
    listed,
    word_list,
)
from ...matching import same_answer

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
_DATE, _DECADE = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d\d+s")
_ROMAN = re.compile(r"(?=[IVXLC])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
# More digits than a float holds are compared as they are written.
_EXACT = 15
# "No one" and its kind are no numbers.
_BEFORE_PRONOUNS = frozenset(["no", "any", "every", "some", "the", "this", "that", "each"])
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

_COUNTS = NUMBERS | {ordinal: NUMBERS[word] for ordinal, word in ORDINALS.items()}
_CHINESE = CHINESE_DIGITS.keys() | CHINESE_SCALES.keys()
_COUNTED = listed("numbers", "counted_in_chinese")

_WEEKDAYS = listed("dates", "weekdays")
_ARTICLES = frozenset({"a", "an", "the"})
# Months that are other words too count only beside a number.
_VERBS_TOO = listed("dates", "months_in_other_words")

# Name of a unit of measurement → the form in which it is compared.
UNITS = by_word("units")


# Kinds of words that make up numbers and dates.
_DATED = ("number", "month", "weekday")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an answer.

    Attributes:
        text: compatibility forms and case folded.
        start: where it begins in the folded text.
        end: where it ends.
        capital: whether it was written with a capital.
        kind: `number`, `month`, `weekday` or `unit`; empty for any other word.
    """

    text: str
    start: int
    end: int
    capital: bool
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Reading:
    """An answer word by word, its numbers, months and units in one form.

    Attributes:
        text: the folded answer.
        words: its words; numbers as digits, months as `month 1` and so on.
    """

    text: str
    words: list[Word]

    def shown(self, first: Word, last: Word | None = None) -> str:
        """A word as it is written, or all from it to another one."""
        return self.text[first.start : (last or first).end]

    @cached_property
    def content(self) -> list[str]:
        """The words as text."""
        return [word.text for word in self.words]

    @cached_property
    def dated(self) -> frozenset[int]:
        """Positions of the words that make up numbers, months and weekdays."""
        return frozenset(place for place, word in enumerate(self.words) if word.kind in _DATED)

    @cached_property
    def quantities(self) -> tuple[frozenset[str], ...]:
        """Its different numbers, months and weekdays."""
        return tuple(
            frozenset(word.text for word in self.words if word.kind == kind) for kind in _DATED
        )

    @property
    def numbers(self) -> frozenset[str]:
        """Values of numerals, of words and of Roman numerals after a name."""
        return self.quantities[0]

    @cached_property
    def units(self) -> frozenset[str]:
        """What is counted, as far as it is a unit of measurement."""
        # "second" beside no number is no unit, nor is "day" in a name.
        beside = (word for one, word in pairwise(self.words) if one.kind in _DATED)
        return frozenset(word.text for word in beside if word.kind == "unit")


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
    return Reading(text, list(_read(text, _symbols_after(plain))))


def _symbols_after(words: list[Word]) -> list[Word]:
    """Currency signs moved behind their number and its scale, where the words for them stand."""
    moved = list(words)
    for index in range(len(moved) - 1):
        if moved[index].text not in "$€£¥":
            continue
        follows, scaled = moved[index + 1].text, index > 0 and moved[index - 1].text[:1].isdigit()
        if follows.lstrip("-")[:1].isdigit() or (scaled and follows in SCALES):
            moved[index], moved[index + 1] = moved[index + 1], moved[index]
    return moved


def _read(text: str, raw: list[Word]) -> Iterator[Word]:
    index = 0
    while index < len(raw):
        kinds, values, taken = _quantity(text, raw, index)
        first, last = raw[index], raw[index + taken - 1]
        for kind, value in zip(kinds, values, strict=True):
            yield Word(value, first.start, last.end, first.capital, kind)
        index += taken


def _quantity(text: str, words: list[Word], index: int) -> tuple[Sequence[str], list[str], int]:
    """Kinds and canonical words of the quantity at `index` (or none), and how many words it is."""
    word = words[index].text
    if _DATE.fullmatch(word):
        year, month, day = map(int, word.split("-"))
        return ("number", "month", "number"), [str(day), f"month {month}", str(year)], 1
    if (month_number := _month(words, index)) is not None:
        return ("month",), [f"month {month_number}"], 1
    if word.removesuffix("s") in _WEEKDAYS:
        return ("weekday",), [word.removesuffix("s")], 1
    value, taken = _number(text, words, index)
    if value is not None:
        return ("number",), [value], taken
    if taken == 1 and word in UNITS:
        return ("unit",), [UNITS[word]], 1
    return [""] * taken, [w.text for w in words[index : index + taken]], taken


def _month(words: list[Word], index: int) -> int | None:
    word = words[index]
    if word.text in _VERBS_TOO:
        beside = words[max(0, index - 1) : index] + words[index + 1 : index + 2]
        is_dated = len(words) == 1 or any(one.text[:1].isdigit() for one in beside)
        if not (word.capital and is_dated):
            return None
    return MONTHS.get(word.text)


def _number(text: str, words: list[Word], index: int) -> tuple[str | None, int]:
    """The number that begins at `index` as text that compares equal, and how many words it is."""
    word = words[index]
    if _DECADE.fullmatch(word.text):
        # A decade is not its first year.
        return word.text, 1
    if word.text.lstrip("-")[:1].isdigit():
        digits = re.sub(r"(st|nd|rd|th|s)$", "", word.text).replace(",", "")
        if len(digits) > _EXACT:
            return digits, 1
        return _scaled(words, index + 1, float(digits), 1)
    if word.text in _CHINESE:
        return _chinese(words, index)
    if word.text in _COUNTS:
        before = words[index - 1].text if index else ""
        following = words[index + 1].text if index + 1 < len(words) else ""
        if word.text == "one" and (following == "of" or before in _BEFORE_PRONOUNS):
            return None, 1
        value, taken = _COUNTS[word.text], 1
        if 20 <= value < 100 and 0 < _COUNTS.get(following, 0) < 10:
            value, taken = value + _COUNTS[following], 2
        return _scaled(words, index + taken, value, taken)
    roman = text[word.start : word.end]
    if index and words[index - 1].capital and _ROMAN.fullmatch(roman):
        return _plain(_roman(roman)), 1
    return None, 1


def _scaled(words: list[Word], index: int, value: float, taken: int) -> tuple[str, int]:
    while index < len(words) and words[index].text in SCALES:
        value *= SCALES[words[index].text]
        index, taken = index + 1, taken + 1
    return _plain(value), taken


def _roman(text: str) -> float:
    values = [_ROMAN_VALUES[letter] for letter in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return float(sum(-value if value < following else value for value, following in pairs))


def _chinese(words: list[Word], index: int) -> tuple[str | None, int]:
    end = index
    while end < len(words) and words[end].text in _CHINESE:
        end += 1
    run = [word.text for word in words[index:end]]
    counted = end < len(words) and words[end].text in _COUNTED
    if len(run) < 2 and not counted:
        # As in 一些, where nothing is counted.
        return None, len(run)
    return _plain(chinese_number("".join(run))), len(run)


def _plain(value: float) -> str:
    return f"{value:.12g}" if value < 1e12 else f"{value:.0f}"


# Words from which on two answers that differ in order alone are sentences.
_SENTENCE = 4


class Rule(StrEnum):
    """What the rules found.

    `doubtful` answers differ in a number or a negation that may or may not matter:
    no similarity may call them the same, a model of entailment may.
    """

    SAME = "same"
    DIFFERENT = "different"
    DOUBTFUL = "doubtful"
    OPEN = "open"

    @classmethod
    def between(cls, first: str, second: str) -> Rule:
        """Compare two answers by rules, without any model.

        Example:
            >>> Rule.between("Paris", "It is Paris, the capital of France.").value
            'same'
            >>> Rule.between("It is required", "It is not required").value
            'different'
            >>> Rule.between("the Big Apple", "New York").value
            'open'
        """
        if same_answer(first, second):
            return Rule.SAME
        one, other = read_answer(first), read_answer(second)
        if not one.words or not other.words:
            return Rule.DIFFERENT
        if one.content == other.content:
            return Rule.SAME
        said = _yes_or_no(one, other)
        if said is not None:
            return said
        if _quantities_clash(one, other):
            return Rule.DIFFERENT
        short, long = sorted((one, other), key=lambda answer: (len(answer.words), answer.content))
        if _same_date(short, long) or _same_count(short, long):
            return Rule.SAME
        contained = _contained(short, long)
        if contained is not None:
            return contained
        if flips(one, other) % 2:
            return Rule.DIFFERENT if _overlap(one, other) >= 0.5 else Rule.DOUBTFUL
        marks = [
            (a.quantities, "percent" in a.content, ALTERNATIVES.isdisjoint(a.content))
            for a in (one, other)
        ]
        swapped = len(short.words) >= _SENTENCE and sorted(short.content) == sorted(long.content)
        if swapped or marks[0] != marks[1]:
            return Rule.DOUBTFUL
        return Rule.OPEN


def _negates(word: str) -> bool:
    return word.replace("'", "") in NEGATORS or word.endswith("n't")


def _negators(words: Iterable[str]) -> int:
    return sum(map(_negates, words))


def _yes_or_no(one: Reading, other: Reading) -> Rule | None:
    """Decide on two answers that begin with yes or no."""
    polarities = [_polarity(one), _polarity(other)]
    if None in polarities:
        return None
    if polarities[0] != polarities[1]:
        return Rule.DIFFERENT
    return Rule.SAME if min(len(one.words), len(other.words)) == 1 else None


def _polarity(answer: Reading) -> bool | None:
    first = answer.words[0]
    # 不 and 是 begin other words too, as do "no one" and "right side".
    follows = answer.words[1].text if len(answer.words) > 1 else ""
    ends = not follows or follows in PRONOUNS or _breaks(answer, 1)
    said = first.text in AFFIRMED
    return said if ends and (said or first.text in DENIED) else None


def _quantities_clash(one: Reading, other: Reading) -> bool:
    """Whether both give numbers, months, weekdays or units that cannot be meant alike."""
    pairs = zip((*one.quantities, one.units), (*other.quantities, other.units), strict=True)
    return any(mine and yours and not (mine <= yours or yours <= mine) for mine, yours in pairs)


def _same_date(short: Reading, long: Reading) -> bool:
    """Whether both are dates and nothing else, one at most leaving parts out."""
    for answer in (short, long):
        rest = {word for i, word in enumerate(answer.content) if i not in answer.dated}
        if not rest <= DATE_WORDS or not answer.dated:
            return False
    coarse, fine = sorted((short, long), key=lambda answer: (len(answer.dated), answer.content))
    years = {n for n in coarse.numbers if n.isdigit() and len(n) == 4}
    pairs = zip(coarse.quantities, fine.quantities, strict=True)
    alike = all(less <= more for less, more in pairs)
    return alike and (bool(years) or coarse.dated == fine.dated)


def _same_count(short: Reading, long: Reading) -> bool:
    """Whether one is a quantity alone, and the other the same with what is counted."""
    return (
        len(short.dated) == len(short.words) < len(long.words)
        and short.quantities == long.quantities
        and not _negators(long.content)
        and ALTERNATIVES.isdisjoint(long.content)
        # A share is no count: 50 is not 50 %.
        and "percent" not in long.content
    )


def _contained(short: Reading, long: Reading) -> Rule | None:
    """Decide on a short answer that is contained in a longer one."""
    wanted, words, size = short.content, long.content, len(short.words)
    verdict: Rule | None = None
    for start in range(len(words) - size + 1):
        if words[start] != wanted[0] or words[start : start + size] != wanted:
            continue
        end = start + size
        if _negators(words[:start]):
            verdict = Rule.DIFFERENT
        elif _leads_in(long, start) and (
            end == len(words) or _breaks(long, end) or words[end] in FOLLOWERS
        ):
            aside = _clause_end(long, end)
            return Rule.SAME if not _negators(words[end:aside]) else Rule.DOUBTFUL
    return verdict


def _leads_in(long: Reading, start: int) -> bool:
    before = long.content[:start]
    if not before or _breaks(long, start) or set(before) <= LEAD_INS | VERBS:
        return True
    # A noun before it makes another thing of it: the mayor of Paris, red wine.
    verbs = [index for index, word in enumerate(before) if word in VERBS]
    between = before[verbs[-1] + 1 :] if verbs else before
    return bool(verbs) and all(
        word in LEAD_INS or word in PARTICIPLES or word.endswith("ed") for word in between
    )


def _breaks(answer: Reading, index: int) -> bool:
    """Whether punctuation stands before word `index`, other than a hyphen or an apostrophe."""
    between = answer.text[answer.words[index - 1].end : answer.words[index].start]
    return any(not c.isalnum() and not c.isspace() and c not in "-'&/" for c in between)


def _clause_end(answer: Reading, start: int) -> int:
    places = range(max(1, start), len(answer.words))
    return next((place for place in places if _breaks(answer, place)), len(answer.words))


def flips(one: Reading, other: Reading) -> int:
    """How often the one says the opposite of the other: negations and antonyms."""
    mine, yours = set(one.content), set(other.content)
    pairs = _opposite_pairs(mine - yours, yours - mine)
    negators = abs(_negators(one.content) - _negators(other.content))
    counted = {word for pair in pairs for word in pair}
    return len(pairs) + max(0, negators - _negators(counted))


def _opposite_pairs(mine: set[str], yours: set[str]) -> set[frozenset[str]]:
    """Pairs of words, one of each, that say the opposite of each other."""
    pairs = {
        frozenset((word, opposite))
        for word in mine
        for opposite in OPPOSITES_OF.get(word, set()) & yours
    }
    for some, others in ((mine, yours), (yours, mine)):
        pairs |= {
            frozenset((word, prefix + word))
            for word in some
            if len(word) >= ANTONYM_STEM
            for prefix in NEGATING_PREFIXES
            if prefix + word in others
        }
    return pairs


def _overlap(one: Reading, other: Reading) -> float:
    """Share of the shorter answer's words that are in the other, opposites counted as one."""
    mine, yours = ({*filterfalse(_negates, answer.content)} for answer in (one, other))
    shared = len(mine & yours) + len(_opposite_pairs(mine - yours, yours - mine))
    return shared / max(1, min(len(mine), len(yours)))
