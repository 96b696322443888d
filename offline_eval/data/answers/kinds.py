"""What kind of thing an answer is: a person, a place, a number, a date, …"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import dropwhile

from ....guard.language import word_list
from ..rules import Rules
from .matching import NUMBER


class AnswerKind(StrEnum):
    """Kind of thing that an answer names."""

    PERSON = "person"
    PLACE = "place"
    ORGANISATION = "organisation"
    NAME = "name"
    DATE = "date"
    YEAR = "year"
    NUMBER = "number"
    QUANTITY = "quantity"
    PHRASE = "phrase"


_RULES = Rules(__file__, "kinds")
_RULE, WORDS = _RULES.patterns, _RULES.words
NAMES = (AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.ORGANISATION, AnswerKind.NAME)
NUMERIC_KINDS = frozenset({AnswerKind.YEAR, AnswerKind.NUMBER, AnswerKind.QUANTITY})
_MONTH = re.compile(rf"\b(?:{'|'.join(word_list('dates', 'months'))})\b", re.IGNORECASE)
_WEEKDAY = re.compile(rf"\b(?:{'|'.join(word_list('dates', 'weekdays'))})\b", re.IGNORECASE)
_JOINS = tuple("-–—/")
_STOPS = WORDS["be"] | WORDS["prepositions"] | WORDS["determiners"] | WORDS["auxiliaries"]
_ADJECTIVES, _PEOPLE = (tuple(WORDS[name]) for name in ("adjective_endings", "people_endings"))


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An answer with its kind and grammatical form.

    Attributes:
        kind: what it is.
        pattern: form of its figures and months, e.g. `M 9, 9999`; empty without any.
        words: how many; two Chinese characters count as one.
        form: what another answer must share to take its place: the kind, the pattern, and classes
            of the first word (a closed one such as `determiner`, else as the last; of a phrase,
            `to` or a determiner in front of it counts as its own) and of the last one (`s` for the
            plural, `ing`, `ed`, `ly`, adjective or other), as far as they matter for the kind.
        joined: whether a hyphen or a slash binds it to a neighbour.
        asked: what the question asks for: its question word, or the noun after `which`.
    """

    kind: AnswerKind
    pattern: str
    words: int
    form: tuple[object, ...]
    joined: bool
    asked: str


def answer_shape(question: str, answer: str, before: str = "", after: str = "") -> AnswerShape:
    """Classify an answer.

    Args:
        question: what is asked.
        answer: as the text has it.
        before: the text before it.
        after: the text after it.

    Example:
        >>> shape = answer_shape("Who wrote it?", "Mary Shelley", "It was written by ", " in 1816.")
        >>> shape.kind.value, shape.words, shape.asked
        ('person', 2, 'who')
    """
    words = answer.split()
    first, last = (words[0], words[-1]) if words else ("", "")
    asked = _asked(question)
    kind = _kind(answer, asked, question)
    opening, leading = _opening(first, alone=len(words) < 2), "".join(before.split()[-1:]).lower()
    if kind is AnswerKind.PHRASE and (leading == "to" or leading in WORDS["determiners"]):
        opening = "to" if leading == "to" else "determiner"
    pattern, ending = _pattern(answer), _ending(last)
    form: tuple[object, ...]
    if kind is AnswerKind.DATE:
        form = (pattern, opening)
    elif kind in NAMES:
        form = (ending == "s", opening, bool(pattern))
    else:
        form = (pattern, opening, ending, first[:1].isupper(), last[:1].isupper())
    joined = before[-1:] in _JOINS or after[:1] in _JOINS
    return AnswerShape(kind, pattern, word_count(answer), (kind, *form), joined, asked)


def _kind(answer: str, asked: str, question: str) -> AnswerKind:
    counted = _RULE["counting"].match(question) is not None
    words, numbers = len(answer.split()), NUMBER.findall(answer)
    month = _MONTH.search(answer) and (words == 1 or re.search(r"\d", answer))
    if month or _WEEKDAY.fullmatch(answer):
        return AnswerKind.DATE
    if len(numbers) == 1 and words <= 2 and _RULE["year"].search(answer) and not counted:
        return AnswerKind.YEAR
    if NUMBER.fullmatch(answer.strip()):
        return AnswerKind.NUMBER
    if len(numbers) == 1 and not re.match(r"[A-Z]", answer):
        return AnswerKind.QUANTITY
    return _name_kind(answer, asked)


def _name_kind(answer: str, asked: str) -> AnswerKind:
    if _RULE["transcribed"].fullmatch(answer):
        return AnswerKind.PERSON
    aside = WORDS["determiners"] | WORDS["prepositions"] | WORDS["joining"]
    content = [word for word in re.findall(r"[^\W\d_]+", answer) if word.lower() not in aside]
    if not content or not all(word[0].isupper() for word in content):
        return AnswerKind.PHRASE
    lower = {word.lower() for word in content}
    if content[-1].lower() in WORDS["events"] and asked not in WORDS["where"]:
        # A Schools Act is no school.
        return AnswerKind.NAME
    if lower & WORDS["organisations"]:
        return AnswerKind.ORGANISATION
    if asked in WORDS["where"] or lower & WORDS["places"]:
        return AnswerKind.PLACE
    person = asked in WORDS["who"] or (asked.endswith(_PEOPLE) and asked not in WORDS["no_people"])
    # To "who", a final s is more often a team's than a person's.
    team = asked == "who" and answer.rstrip(".").endswith("s")
    if person and not team and not lower & WORDS["events"] and _RULE["one_name"].fullmatch(answer):
        return AnswerKind.PERSON
    return AnswerKind.NAME


def _asked(question: str) -> str:
    """Return the question word, or the head noun after `what` and `which`."""
    found = _RULE["question_word"].search(question)
    if found is None:
        return ""
    if found.lastindex:
        return " ".join(part.lower() for part in found.groups() if part)
    return _thing_asked(re.findall(r"[^\W\d_]+", question[found.end() :])) or "what"


def _thing_asked(words: list[str]) -> str:
    """Return the noun of `which city`, `what is the city`, `what kind of city` and the like."""
    noun, rest = _noun(words)
    verb, article = (word.lower() for word in [*words, "", ""][:2])
    if not noun and verb in WORDS["be"] and article in ("the", "a", "an"):
        noun, rest = _noun(words[2:])
    if noun in WORDS["sorts"] and [word.lower() for word in rest[:1]] == ["of"]:
        bare = list(dropwhile(lambda word: word.lower() in WORDS["determiners"], rest[1:]))
        return _noun(bare)[0] or noun
    return noun


def _noun(words: list[str]) -> tuple[str, list[str]]:
    """Return the head noun that `German city is` begins with, if any, and what follows."""
    head, rest = "", words
    for index, whole in enumerate(words[:5], start=1):
        word = whole.lower()
        if word in _STOPS:
            break
        head, rest = word, words[index:]
        # "which team won": what follows the first plain noun is most often a verb.
        describes = (
            word.endswith(_ADJECTIVES)
            or whole.endswith(("man", "ese", "ish", "ch"))
            or (word.endswith("est") and word not in WORDS["no_superlatives"])
            or _RULE["ordinal"].fullmatch(word) is not None
        )
        if not describes and word not in WORDS["stands_before"]:
            break
    return head, rest


def _pattern(answer: str) -> str:
    text = _MONTH.sub("M", _WEEKDAY.sub("W", answer))
    if not re.search(r"\d|\bM\b|\bW\b", text):
        words = "word number" if NUMBER.search(answer) else ""
        return "ordinal" if _RULE["ordinal"].search(answer) else words
    text = re.sub(r"\d+(?:,\d{3})+", "9", text)
    text = re.sub(r"\d{4}", "Y", text)
    return re.sub(r"\d+", "9", text)


def _opening(word: str, *, alone: bool) -> str:
    if word.lower() == "to":
        return "to"
    for name in ("determiners", "prepositions", "pronouns", "comparatives"):
        if word.lower() in WORDS[name]:
            return name.removesuffix("s")
    # Of several words the first one shows whether a verb or a noun begins them.
    return "other" if alone or word[:1].isupper() else _ending(word)


def _ending(word: str) -> str:
    lower = word.lower().rstrip(".,;:)'\"")
    forms: dict[str, str] = _RULES.table["endings"]
    return next((name for name, form in forms.items() if re.fullmatch(form, lower)), "other")


def word_count(text: str) -> int:
    """Count words between spaces; every two Chinese characters count as one.

    Example:
        >>> word_count("New York"), word_count("法国国王")
        (2, 2)
    """
    characters = len(_RULE["cjk_character"].findall(text))
    return len(_RULE["cjk_character"].sub(" ", text).split()) + (characters + 1) // 2
