"""What kind of thing an answer is: a person, a place, a number, a date, …"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from ....guard.language import word_list
from ._matching import CJK, NUMBER


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


_WORDS = tomllib.loads((Path(__file__).parent / "answer_kinds.toml").read_text(encoding="utf-8"))


@cache
def listed(name: str) -> frozenset[str]:
    """Return the words of a list in the table."""
    return frozenset(_WORDS[name].split())


NUMERIC_KINDS = frozenset({AnswerKind.YEAR, AnswerKind.NUMBER, AnswerKind.QUANTITY})
_MONTH = re.compile(rf"\b(?:{'|'.join(word_list('dates', 'months'))})\b", re.IGNORECASE)
_WEEKDAY = re.compile(rf"\b(?:{'|'.join(word_list('dates', 'weekdays'))})\b", re.IGNORECASE)
_JOINS = tuple("-–—/")
_DETERMINERS, _PREPOSITIONS, _BE = listed("determiners"), listed("prepositions"), listed("be")
_EVENTS, _WHERE = listed("events"), listed("where")
_STOPS = _BE | _PREPOSITIONS | _DETERMINERS | listed("auxiliaries")
_ORDINAL = re.compile(
    r"\b(?:first|second|third|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|\w+teen|\w+tie)th)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<![\d,.$£€])(?:1\d{3}|20\d{2})(?![\d,.%]\d|\d)")
# Excludes lists, and titles with an article.
_ONE_NAME = re.compile(r"(?!(?:[Tt]he|[Aa]n?) )[^&,/\d]+")
_CJK_CHARACTER = re.compile(f"[{CJK}]")
# A foreign first name and surname in Chinese, with a dot between them; no battle or city.
_TRANSCRIBED = re.compile(f"[{CJK}]+(?:[·•・][{CJK}]+)+(?<![战役会奖市县州国队案桥河山岛])")
_ADJECTIVES = tuple(_WORDS["adjective_endings"].split())
_PEOPLE = tuple(_WORDS["people_endings"].split())
_OPENINGS = {
    name: listed(name) for name in ("determiners", "prepositions", "pronouns", "comparatives")
}


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An answer with its kind and grammatical form.

    Attributes:
        kind: what it is.
        pattern: form of its figures and months, e.g. `M 9, 9999`; empty without any.
        words: how many; two Chinese characters count as one.
        opening: class of its first word: a closed class such as `determiner`, else as `ending`;
            of a phrase, `to` or a determiner in front of it counts as its own.
        ending: class of its last word: `s` (plural), `ing`, `ed`, `ly`, adjective or other.
        capital: whether its first word and whether its last one begin with a capital.
        joined: whether a hyphen or a slash binds it to a neighbour.
        asked: what the question asks for: its question word, or the noun after `which`.
    """

    kind: AnswerKind
    pattern: str
    words: int
    opening: str
    ending: str
    capital: tuple[bool, bool]
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
    if kind is AnswerKind.PHRASE and (leading == "to" or leading in _DETERMINERS):
        opening = "to" if leading == "to" else "determiner"
    return AnswerShape(
        kind=kind,
        pattern=_pattern(answer),
        words=word_count(answer),
        opening=opening,
        ending=_ending(last),
        capital=(first[:1].isupper(), last[:1].isupper()),
        joined=before[-1:] in _JOINS or after[:1] in _JOINS,
        asked=asked,
    )


def _kind(answer: str, asked: str, question: str) -> AnswerKind:
    counted = re.match(r"\s*(?:.*\b)?how (?:many|much)\b", question, re.IGNORECASE) is not None
    if _MONTH.search(answer) and (re.search(r"\d", answer) or len(answer.split()) == 1):
        return AnswerKind.DATE
    if _WEEKDAY.fullmatch(answer):
        return AnswerKind.DATE
    numbers = NUMBER.findall(answer)
    if numbers:
        if len(numbers) == 1 and _YEAR.search(answer) and not counted and len(answer.split()) <= 2:
            return AnswerKind.YEAR
        if NUMBER.fullmatch(answer.strip()):
            return AnswerKind.NUMBER
        if len(numbers) == 1 and not re.match(r"[A-Z]", answer):
            return AnswerKind.QUANTITY
    return _name_kind(answer, asked)


def _name_kind(answer: str, asked: str) -> AnswerKind:
    if _TRANSCRIBED.fullmatch(answer):
        return AnswerKind.PERSON
    words = [word for word in re.findall(r"[^\W\d_]+", answer) if word.lower() not in _DETERMINERS]
    content = [word for word in words if word.lower() not in _PREPOSITIONS | listed("joining")]
    if not content or not all(word[0].isupper() for word in content):
        return AnswerKind.PHRASE
    lower = {word.lower() for word in content}
    if content[-1].lower() in _EVENTS and asked not in _WHERE:
        return AnswerKind.NAME  # a Schools Act is no school
    if lower & listed("organisations"):
        return AnswerKind.ORGANISATION
    if asked in _WHERE or lower & listed("places"):
        return AnswerKind.PLACE
    person = asked in listed("who") or (
        asked.endswith(_PEOPLE) and asked not in listed("no_people")
    )
    # To "who", a final s is more often a team's than a person's.
    team = asked == "who" and answer.rstrip(".").endswith("s")
    if person and not team and not lower & _EVENTS and _ONE_NAME.fullmatch(answer):
        return AnswerKind.PERSON
    return AnswerKind.NAME


def _asked(question: str) -> str:
    """Return the question word, or the head noun after `what` and `which`."""
    spelt: list[str] = re.findall(r"[^\W\d_]+", question)
    words = [word.lower() for word in spelt]
    for index, word in enumerate(words):
        follower = words[index + 1] if index + 1 < len(words) else ""
        if word in {"who", "whom", "whose"}:
            return "who"
        if word in {"where", "when", "why"} and follower not in {"what", "which", "who"}:
            return word
        if word == "how":
            return f"how {follower}" if follower in {"many", "much", "long", "old", "far"} else word
        if word in {"what", "which"}:
            return _thing_asked(spelt, index + 1) or "what"
    return ""


def _thing_asked(spelt: list[str], start: int) -> str:
    """Return the noun of `which city`, `what is the city`, `what kind of city` and the like."""
    words = [word.lower() for word in spelt]
    noun, end = _noun_after(spelt, start)
    verb, article = [*words[start : start + 2], "", ""][:2]
    if not noun and verb in _BE and article in {"the", "a", "an"}:
        noun, end = _noun_after(spelt, start + 2)
    if noun in listed("sorts") and words[end : end + 1] == ["of"]:
        end += 1
        while words[end : end + 1] and words[end] in _DETERMINERS:
            end += 1
        return _noun_after(spelt, end)[0] or noun
    return noun


def _noun_after(spelt: list[str], start: int) -> tuple[str, int]:
    """Return the head noun of `German city is` from `start`, and its end; empty without one."""
    head, end = "", start
    for index, whole in enumerate(spelt[start : start + 5], start=start):
        word = whole.lower()
        if word in _STOPS:
            break
        head, end = word, index + 1
        # "which team won": what follows the first plain noun is most often a verb.
        describes = (
            word.endswith(_ADJECTIVES)
            or whole.endswith(("man", "ese", "ish", "ch"))
            or (word.endswith("est") and word not in listed("no_superlatives"))
            or _ORDINAL.fullmatch(word) is not None
        )
        if not describes and word not in listed("stands_before"):
            break
    return head, end


def _pattern(answer: str) -> str:
    text = _MONTH.sub("M", _WEEKDAY.sub("W", answer))
    if not re.search(r"\d|\bM\b|\bW\b", text):
        words = "word number" if NUMBER.search(answer) else ""
        return "ordinal" if _ORDINAL.search(answer) else words
    text = re.sub(r"\d+(?:,\d{3})+", "9", text)
    text = re.sub(r"\d{4}", "Y", text)
    return re.sub(r"\d+", "9", text)


def _opening(word: str, *, alone: bool) -> str:
    if word.lower() == "to":
        return "to"
    for name, members in _OPENINGS.items():
        if word.lower() in members:
            return name.removesuffix("s")
    # Of several words the first one shows whether a verb or a noun begins them.
    return "other" if alone or word[:1].isupper() else _ending(word)


def _ending(word: str) -> str:
    lower = word.lower().rstrip(".,;:)'\"")
    for ending, shortest in (("ing", 5), ("ed", 4), ("ly", 5)):
        if lower.endswith(ending) and len(lower) >= shortest:
            return ending
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        return "s"
    if lower.endswith(_ADJECTIVES) and len(lower) > 4:
        return "adjective"
    return "other"


def word_count(text: str) -> int:
    """Count words between spaces; every two Chinese characters count as one.

    Example:
        >>> word_count("New York"), word_count("法国国王")
        (2, 2)
    """
    characters = len(_CJK_CHARACTER.findall(text))
    return len(_CJK_CHARACTER.sub(" ", text).split()) + (characters + 1) // 2
