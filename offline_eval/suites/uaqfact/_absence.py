"""Replies that say that what was asked for does not exist, in English and Chinese.

Patterns are read in sentence case: a title such as "No Such Thing" is a name, "no such thing"
abstains. Where a long reply ends in "the answer is …", a name there outweighs what was
said on the way to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

from ....guard.abstention import AbstentionDetector
from ....guard.abstention.detector import load_rule
from ...data.answers.matching import occurrences
from ...data.graph.items import QuestionType, UaqItem
from ...data.rules import Rules

_SPACES = re.compile(r"\s+")
_CURLY = str.maketrans("‘’ʼ", "'''")
_CONTRACTED = re.compile(r"\b(do|does|did|is|are|was|were|has|have|had)n't\b", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE_START = re.compile(r"(?:^\W*|[.!?:]\s+\W*)[A-Z]")
# An abstention says so early; a long answer that mentions absence late is an answer.
_READ = 400

_RULES = Rules(__file__, "absence")
_RULE = _RULES.patterns


def says_absence(reply: str) -> bool:
    """Whether a reply says that nothing meets what was asked.

    Example:
        >>> says_absence("No such person exists."), says_absence("No Such Thing")
        (True, False)
    """
    text = _RULE["excepted_zh"].sub("", plain(reply))
    return _RULES.finds(text, "marker", "absence_en", "absence_zh")


def concludes(reply: str) -> bool:
    """Whether a reply ends in "the answer is …" with something like a name.

    Example:
        >>> concludes("No child of his is known. So the answer is Ann Li.")
        True
    """
    match = _RULE["conclusion"].match(_SPACES.sub(" ", _MARKUP.sub("", reply.strip())))
    if match is None:
        return False
    name = (match.group("en") or match.group("zh") or "").strip()
    return bool(name) and not _RULE["no_name"].search(name)


def plain(reply: str) -> str:
    """The part of a reply that is read: no markup, plain letters, sentences in lower case."""
    text = unicodedata.normalize("NFKC", reply[:_READ]).translate(_CURLY)
    text = _SPACES.sub(" ", _MARKUP.sub("", text)).strip().lstrip("-–—>\"'“”() ")
    text = re.sub(r"^(?:final )?(?:answer|a|答案)\s*[:：]\s*", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\bthere's\b", "there is", text, flags=re.IGNORECASE)
    text = _CONTRACTED.sub(r"\1 not", text)
    if text.isupper():
        return text.lower()
    return _SENTENCE_START.sub(lambda match: match.group().lower(), text)


RuleName = Literal["published", "strict"]


# Tells replies that abstain from replies that name an answer: a verdict per reply, in order.
RefusalRule = Callable[[Sequence[str]], list[bool]]


def published_refusals(replies: Sequence[str]) -> list[bool]:
    """The rule as the authors coded it; see `knowgate.guard.abstention.load_rule`."""
    return [verdict.abstained for verdict in load_rule("uaqfact").detect_many(list(replies))]


def strict_refusals(replies: Sequence[str]) -> list[bool]:
    """The bundled detector, or a reply that says that there is no such answer.

    Example:
        >>> strict_refusals(["##None##", "Nobody.", "不存在这样的人", "Not Joe, but Ann."])
        [True, True, True, False]
    """
    detector = AbstentionDetector()
    return [
        (says_absence(reply) or verdict.abstained) and not concludes(reply)
        for reply, verdict in zip(replies, detector.detect_many(list(replies)), strict=True)
    ]


# Written in one way: quotes, dashes, the dots between the parts of a name; no markup.
_ONE_WAY = str.maketrans("‘’‐‑–—−・•‧∙", "''-----····", "*`")


def published_hit(item: UaqItem, reply: str) -> bool:
    """Whether a gold label stands in the reply, case aside."""
    return any(re.search(re.escape(answer.label), reply, re.IGNORECASE) for answer in item.answers)


def strict_hit(item: UaqItem, reply: str) -> bool:
    """Whether the reply names a right answer and, in a dilemma, not the wrong option too."""
    text = _normal(reply)
    right = {_normal(name) for answer in item.answers for name in (answer.label, *answer.aliases)}
    wrong: set[str] = set()
    if item.type is QuestionType.DILEMMA:
        wrong = {_normal(option) for option in item.options} - right
    # Most names are not there: making a pattern of each costs far more than looking.
    spans = occurrences(text, [name for name in right | wrong if name in text])
    named = {text[start:end] for start, end in spans if not _denied(text, start, end)}
    return bool(named & right) and not named & wrong


def without_answers(item: UaqItem, reply: str) -> str:
    """The reply with a letter in place of its right answers, where they are spelled so."""
    names = {name for answer in item.answers for name in (answer.label, *answer.aliases)}
    for start, end in reversed(occurrences(reply, [name for name in names if name in reply])):
        if reply[start:end] in names:
            reply = f"{reply[:start]}X{reply[end:]}"
    return reply


def _denied(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 20) : start], text[end : end + 24]
    return _RULES.finds(before, "negated") or bool(_RULE["denied_after"].match(after))


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_ONE_WAY)
    return _SPACES.sub(" ", folded).strip()
