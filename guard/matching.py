"""Numbers in words, written in digits: "twenty-three" as "23", "2 million" as "2000000"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from sys import getsizeof

from ._byte_cache import ByteCache
from .errors import InputError
from .files import json_sha256
from .language import MONTHS, NUMBERS, ORDINALS, SCALES, TENS, compiled, listed

__all__ = [
    "AnswerMatcher",
    "same_answer",
]

_CARDINALS: dict[str, int] = {**NUMBERS, **SCALES}


def _ordinal(word: str) -> str:
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


_ORDINALS = ORDINALS | {
    _ordinal(word): word for word in _CARDINALS if word not in {"zero", *ORDINALS.values()}
}


def _any(*values: int) -> str:
    """A pattern of the words that say one of these numbers."""
    cardinals = [word for word, value in _CARDINALS.items() if value in values]
    ordinals = [word for word, cardinal in _ORDINALS.items() if cardinal in cardinals]
    return rf"(?:{'|'.join([*cardinals, *ordinals])})\b"


# An ordinal ends a number.
_GOES_ON = r"(?<!first)(?<!second)(?<!third)(?<!th)"
_THEN, _AND_THEN = f"{_GOES_ON}[ -]", f"{_GOES_ON}(?: and |[ -])"


def _number_pattern() -> str:
    """A pattern of one number: "two hundred and five thousand sixth", "1.5 million"."""
    tens = rf"{_any(*TENS.values())}(?:{_THEN}{_any(*range(1, 10))})?"
    below_hundred = f"(?:{tens}|{_any(*range(1, 20))})"
    hundred = f"{_any(100)}(?:{_AND_THEN}{below_hundred})?"
    below_thousand = f"{below_hundred}(?:{_THEN}{hundred})?"
    digits = rf"\d{{1,15}}(?:,\d{{3}}){{0,4}}(?:\.\d{{1,15}})?(?=[ -](?:{'|'.join(SCALES)})\b)"
    scaled: list[str] = []
    for scale in sorted(set(SCALES.values()) - {100}):
        # What follows it, and a smaller scale after that.
        smaller = f"(?:{_THEN}(?:{'|'.join(scaled)}))?" if scaled else ""
        scaled.append(f"{_any(scale)}(?:{_AND_THEN}{below_thousand}{smaller})?")
    begins = f"(?:{digits}(?:{_THEN}{hundred})?|{below_thousand}|{hundred})"
    scales = "|".join(scaled)
    return f"{_any(0)}|{begins}(?:{_THEN}(?:{scales}))?|{scales}"


_NUMBER_WORDS = re.compile(rf"(?<![\w.,])(?:{_number_pattern()})", re.IGNORECASE)
# In "no one" and its kind it is no number.
_PRONOUN = re.compile(r"\b(?:no|any|every|some|each|this|that)[ -]one\Z", re.IGNORECASE)


def numerals_as_digits(text: str) -> str:
    """`text` with its English number words in digits, ordinals as "21st".

    Example:
        >>> numerals_as_digits("twenty-three of 1.5 million, the forty-second")
        '23 of 1500000, the 42nd'
    """
    return _NUMBER_WORDS.sub(_in_digits, text)


def _in_digits(found: re.Match[str]) -> str:
    if _PRONOUN.search(found.string, max(0, found.start() - 9), found.end()):
        return found.group()
    words = re.split("[ -]", found.group().lower())
    total, group = Decimal(0), None
    for word in words:
        cardinal = _ORDINALS.get(word, word)
        if cardinal not in SCALES:
            value = 0 if word == "and" else _CARDINALS.get(cardinal, word.replace(",", ""))
            group = (group or 0) + Decimal(value)
            continue
        group = SCALES[cardinal] * (Decimal(1) if group is None else group)
        if cardinal != "hundred":
            total, group = total + group, None
    digits = f"{total + (group or 0):f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return _with_suffix(digits) if words[-1] in _ORDINALS else digits


def _with_suffix(digits: str) -> str:
    if "." in digits or digits[-2:] in ("11", "12", "13"):
        return digits + "th"
    return digits + {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")


_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
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
    month = str(MONTHS.get(parts["month"], parts["month"]))
    ordered = (parts.get("year"), month, parts.get("day"))
    return " ".join(part.zfill(2) for part in ordered if part)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_THOUSANDS = re.compile(r"(?<=\d)[,  '’](?=\d{3}(?!\d))")
_PERCENT = re.compile(r"(?<=\d) ?(?:per ?cent\b|%)")
# U.S.A., J.R.R. and J. R. R.
_INITIALS = re.compile(r"\b[a-z](?:\.[a-z]\b)+\.?|\b[a-z]\.(?: [a-z]\.)+")
_REFUSAL = compiled("refusals", "short")["refusal"]

# What one pass leaves may fold once more: "1-234" to "1 234" to "1234".
_PASSES = 8


def normalise_answer(text: str) -> str:
    """A short answer in a form in which equal answers compare equal.

    Compatibility forms are folded, case, punctuation, English articles,
    thousands separators and surplus spaces dropped; decimal points and signs
    of numbers stay, so that 1.5 is not 15.

    Example:
        >>> normalise_answer("  The €1,250.50 fee. ")
        '€1250.50 fee'
    """
    for _ in range(_PASSES):
        normalised = _normalised_once(text)
        if normalised == text:
            break
        text = normalised
    return text


def _normalised_once(text: str) -> str:
    folded = _THOUSANDS.sub("", _folded(text)).replace("'", "")
    kept = [
        " "
        if unicodedata.category(one)[0] == "P" and not _belongs_to_number(folded, index)
        else one
        for index, one in enumerate(folded)
    ]
    words = "".join(kept)
    # An article alone is the answer itself: "A" of a multiple choice.
    return " ".join((_ARTICLES.sub(" ", words).strip() or words).split())


def canonical_answer(text: str) -> str:
    """As `normalise_answer`, with numbers, dates and initials each in one form besides.

    Example:
        >>> canonical_answer("Twenty-three"), canonical_answer("July 4th, 1776")
        ('23', '1776 07 04')
    """
    return _CANONICAL.made(text, lambda: _canonical(text))


def _canonical(text: str) -> str:
    for _ in range(_PASSES):
        joined = _INITIALS.sub(lambda found: re.sub("[. ]", "", found.group()), _folded(text))
        figures = _PERCENT.sub("%", numerals_as_digits(joined))
        before, text = text, normalise_answer(dates_in_one_form(normalise_answer(figures)))
        if text == before:
            break
    return text


_CANONICAL: ByteCache[str, str] = ByteCache(4 * 2**20, getsizeof)


def same_answer(first: str, second: str) -> bool:
    """Whether two answers are equal in their canonical form; empty answers never are.

    Example:
        >>> same_answer("Paris.", "paris"), same_answer("4 July 1776", "1776-07-04")
        (True, True)
    """
    canonical = canonical_answer(first)
    return bool(canonical) and canonical == canonical_answer(second)


# Two answers → whether they are the same.
Sameness = Callable[[str, str], bool]


def told_question(same: Sameness, question: str) -> Sameness:
    """The comparison for answers to `question`, which one with a method `about` is told by it."""
    about: Callable[[str], Sameness] | None = getattr(same, "about", None)
    return about(question) if about else same


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def is_refusal(text: str) -> bool:
    """Whether a short answer says that there is none.

    Example:
        >>> is_refusal("I don't know.")
        True
    """
    folded = _folded(text)
    return not folded.strip() or _REFUSAL.search(folded) is not None


def _belongs_to_number(text: str, index: int) -> bool:
    before = text[index - 1] if index else " "
    after = text[index + 1] if index + 1 < len(text) else " "
    if text[index] in ".:/":
        return before.isdigit() and after.isdigit()
    if text[index] == "-":
        return not before.isalnum() and after.isdigit()
    return text[index] == "%" and before.isdigit()


_NUMBER = re.compile(r"\d+(?:[.:/]\d+)*")


class AnswerMatcher:
    """Same answer by letters, numbers and dates, or by a name that both go by.

    Args:
        aliases: a name → its other names. A name may stand in several groups; two
            answers are the same when some group has both.

    Example:
        >>> same = AnswerMatcher({"United States": ["USA", "United States of America"]})
        >>> same("the U.S.A.", "united states"), same("USA", "UK")
        (True, False)
    """

    def __init__(self, aliases: Mapping[str, Iterable[str]] | None = None) -> None:
        self._groups: dict[str, frozenset[str]] = {}
        for name, others in (aliases or {}).items():
            if isinstance(others, str):
                raise InputError(
                    "holds one text where a list should be", where="aliases", hint="use lists"
                )
            head = canonical_answer(name)
            for form in (name, *others):
                key = canonical_answer(form)
                if key:
                    self._groups[key] = self._groups.get(key, frozenset()) | {head}

    @property
    def fingerprint(self) -> str:
        """Names the aliases by their hash, for an estimator's own fingerprint."""
        groups = {key: sorted(found) for key, found in self._groups.items()}
        return f"aliases:{json_sha256(groups)[:16]}"

    def __call__(self, first: str, second: str) -> bool:
        """Whether the answers are the same; empty answers never are."""
        if same_answer(first, second):
            return True
        groups = self._groups.get(canonical_answer(first), frozenset())
        return not groups.isdisjoint(self._groups.get(canonical_answer(second), frozenset()))


# Words that say nothing about which answer a sentence gives.
_EMPTY_WORDS = listed("answers", "empty")
_SENTENCE_WORDS = 5
# "No. 5" is a number.
_NEGATION = re.compile(
    r"\b(?:not|never|none|nor|neither|nobody|nothing|nowhere|cannot|without|no(?!\.? ?\d)"
    r"|(?:is|are|was|were|do|does|did|has|have|had|ca|could|should|wo|would|must)nt)\b|n't\b"
)


class SentenceMatcher:
    """Same answer, also where replies are sentences that repeat the question.

    Short answers are compared by `same_answer`. Where one reply has at least five words, only
    those that neither the question nor a list of function words has count: the replies are the
    same where they share enough of the words of the one that has fewer. They differ in any case
    where only one of them has a negation, and where each has a number, or a word of the question
    ("Sydney or Canberra?"), that the other does not have.

    Args:
        question: that both answer; see `about`.
        share: of the words that must be shared, in (0, 1].

    Example:
        >>> same = SentenceMatcher().about("What is the capital of Poland?")
        >>> same("The capital of Poland is Warsaw.", "Warsaw is Poland's capital city.")
        True
        >>> same("The capital of Poland is Warsaw.", "The capital of Poland is Krakow.")
        False
    """

    def __init__(self, question: str = "", *, share: float = 0.6) -> None:
        if not 0.0 < share <= 1.0:
            raise InputError("must be in (0, 1]", where="share")
        self._share = share
        empty, asked = _EMPTY_WORDS, set(canonical_answer(question).split())
        self._spoken = empty | asked
        self._named = asked - empty

    @property
    def fingerprint(self) -> str:
        """Names the rule, its version and its share, for an estimator's own fingerprint."""
        return f"sentences:2:{self._share:g}"

    def about(self, question: str) -> SentenceMatcher:
        """The same rule for answers to `question`."""
        return SentenceMatcher(question, share=self._share)

    def __call__(self, first: str, second: str) -> bool:
        """Whether the answers are the same; empty answers never are."""
        if same_answer(first, second):
            return True
        forms = [canonical_answer(answer).split() for answer in (first, second)]
        if max(map(len, forms)) < _SENTENCE_WORDS:
            return False
        whole = [set(form) for form in forms]
        figures = [{word for word in words if _NUMBER.search(word)} for words in whole]
        named = [words & self._named for words in whole]
        if _each_has_its_own(*figures) or _each_has_its_own(*named):
            return False
        negated = [_NEGATION.search(_folded(answer)) is not None for answer in (first, second)]
        if negated[0] != negated[1]:
            return False
        one, other = (words - self._spoken for words in whole)
        shared = len(one & other)
        return shared > 0 and shared >= self._share * min(len(one), len(other))


def _each_has_its_own(one: set[str], other: set[str]) -> bool:
    """Whether each has something that the other lacks."""
    return bool(one - other) and bool(other - one)
