"""Does a reply to a question of this suite decline to name an answer?

Two rules, by name: `published`, exactly as the authors coded it (English only), and
`strict`, the default: the bundled detector of abstentions with what is said of questions
whose answer does not exist, in English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from ...guard.abstention import AbstentionDetector, load_rule

RuleName = Literal["published", "strict"]

_MARKER = re.compile(r"#+\s*none\s*#*|^\W*none\b(?!\s+(?:other|but)\b)", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
# Said of what does not exist. Each names the absence itself: "there was no war" names none.
_THING = (
    "(?:such|suitable|valid|correct|right|known|single|common|real|matching|possible|answer"
    "|person|people|one|option|intersection|overlap|record|individual|entity|team|position|work"
    "|candidate|match)"
)
_ABSENCE_EN = re.compile(
    rf"\bthere(?:'s| is| are| was| were) (?:no|not any|not an?)\b(?: \w+)? ?\b{_THING}\b"
    r"|^(?:no one|nobody|nothing|nowhere|no person|no such \w+)"
    r"(?=\W*$|[.,;:!]| (?:is|was|were|has|had|have|did|does|holds?|held|meets?|met|satisf\w+"
    r"|match\w*|fits?|both|in|at|of|from|between|during)\b)"
    r"|\bno (?:suitable|valid|correct|right|such|common|matching|possible) \w+"
    r"|\b(?:neither|none) of (?:the|these|those|them|both|either)\b"
    r"|^neither\b(?! \w+ nor \w+ \w+ed\b)"
    r"|\bneither (?:option|one|answer|is|of)\b"
    r"|\b(?:do|does|did) not (?:exist|overlap|intersect|apply)\b"
    r"|\b(?:no|not any) (?:answer|overlap|intersection)\b"
    r"|\b(?:both|the) (?:options|choices|answers) (?:\w+ ){0,3}(?:are|is|were)"
    r" (?:wrong|incorrect|false)\b"
    r"|\bnon-?existent\b|\b(?:the )?question (?:has|is) (?:no answer|unanswerable|invalid)\b"
    r"|\bfalse (?:premise|dilemma)\b|\bempty set\b",
    re.IGNORECASE,
)
_ABSENCE_ZH = re.compile(
    "(?:没有|无|沒有|無)(?:合适|适合|正确|符合|任何|这样|此类|交集|共同|重叠|对应|匹配|答案|人(?:同时|既)|一个)"
    "|不存在|并不存在|无人|没有人(?!不)|没人|空集|均不正确|都不正确|都不是|均不是|都不对|皆非|两者皆不|以上皆非|以上都不"
    "|^(?:没有|沒有|无|無|否)[。.!！]?$"
)
_CURLY = str.maketrans("‘’ʼ＇", "''''")
_CONTRACTED = re.compile(r"\b(do|does|did|is|are|was|were)n't\b", re.IGNORECASE)
# A refusal says so early; a long answer that mentions absence late is an answer.
_READ = 400


class RefusalRule(Protocol):
    """Tells replies that decline from replies that name an answer."""

    def __call__(self, replies: Sequence[str]) -> list[bool]:
        """One verdict per reply, in order."""
        ...


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
        _says_absence(reply) or verdict.abstained
        for reply, verdict in zip(replies, detector.detect_many(list(replies)), strict=True)
    ]


def _says_absence(reply: str) -> bool:
    text = _SPACES.sub(" ", reply[:_READ].translate(_CURLY)).strip()
    text = _CONTRACTED.sub(r"\1 not", text)
    return any(pattern.search(text) for pattern in (_MARKER, _ABSENCE_EN, _ABSENCE_ZH))
