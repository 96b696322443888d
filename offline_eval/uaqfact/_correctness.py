"""Does a reply name a right answer?

Two rules, by name: `published`, exactly as the authors coded it (a gold label anywhere in the
reply), and `strict`, the default: whole words, aliases too, and of the two options of a dilemma
one only, so that echoing both is no answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set

from ._items import QuestionType, UaqItem

_NEGATED_EN = re.compile(
    r"(?:\bnot|\bnor|\bneither|\brather than|\binstead of|\bisn't)\W+(?:the )?$"
)
_NEGATED_ZH = re.compile('(?:不是|并非|並非|而非|不选|不選|排除)[“"《「『]?$')
_DENIED_AFTER = re.compile(
    r"\W{0,3}(?:(?:is|was|are|were) (?:not(?! only)|wrong|incorrect|false)|(?:isn't|wasn't)\b"
    "|(?:都|均|也)?(?:不是|不对|不對|不正确|不正確|是错|是錯))"
)
_SPACES = re.compile(r"\s+")
# Written in one way: quotes, dashes, the dots between the parts of a name; no markup.
_ONE_WAY = str.maketrans("‘’‐‑–—−・•‧∙", "''-----····", "*`")
# Letters of scripts that put no spaces between words have no word boundaries to look for.
_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


def published_hit(item: UaqItem, reply: str) -> bool:
    """Whether a gold label stands in the reply, case aside.

    Example:
        >>> from ._items import Answer, Answerability
        >>> item = UaqItem("1", "en", QuestionType.DILEMMA, Answerability.ANSWERABLE,
        ...     "What is it, A or B ?", (Answer("a", "A"),), ("A", "B"))
        >>> published_hit(item, "A or B"), strict_hit(item, "A or B"), strict_hit(item, "A, not B")
        (True, False, True)
    """
    return any(re.search(re.escape(answer.label), reply, re.IGNORECASE) for answer in item.answers)


def strict_hit(item: UaqItem, reply: str) -> bool:
    """Whether the reply names a right answer and, in a dilemma, not the wrong option too."""
    text = _normal(reply)
    right = {_normal(name) for answer in item.answers for name in (answer.label, *answer.aliases)}
    wrong: set[str] = set()
    if item.type is QuestionType.DILEMMA:
        wrong = {_normal(option) for option in item.options} - right
    named = _affirmed(right | wrong, text)
    return bool(named & right) and not named & wrong


def without_answers(item: UaqItem, reply: str) -> str:
    """The reply with a letter in place of its right answers, where they are spelled so."""
    for answer in item.answers:
        for name in filter(None, (answer.label, *answer.aliases)):
            if name in reply:
                reply = re.sub(_whole(name), "X", reply)
    return reply


def _affirmed(names: Set[str], text: str) -> set[str]:
    """The names that stand in the text as whole words and are not denied there.

    Within a longer one of them a name is not named.
    """
    found: set[str] = set()
    taken: list[tuple[int, int]] = []
    for name in sorted(filter(None, names), key=lambda name: (-len(name), name)):
        # Most names are not there: making a pattern of each costs far more than looking.
        for match in re.finditer(_whole(name), text) if name in text else ():
            if any(start <= match.start() and match.end() <= end for start, end in taken):
                continue
            taken.append(match.span())
            if not _denied(text, match.start(), match.end()):
                found.add(name)
    return found


def _denied(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 20) : start]
    return bool(
        _NEGATED_EN.search(before)
        or _NEGATED_ZH.search(before)
        or _DENIED_AFTER.match(text[end : end + 24])
    )


def _whole(name: str) -> str:
    """A pattern for a name that is no part of a longer word or number."""
    left = right = ""
    if _has_boundary(name[0]):
        left = rf"(?<![^\W{_UNSPACED}])" + (r"(?<!\d[.,])" if name[0].isdigit() else "")
    if _has_boundary(name[-1]):
        right = rf"(?![^\W{_UNSPACED}])" + (r"(?![.,]\d)" if name[-1].isdigit() else "")
    return left + re.escape(name) + right


def _has_boundary(letter: str) -> bool:
    return letter.isalnum() and not _IS_UNSPACED.match(letter)


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_ONE_WAY)
    return _SPACES.sub(" ", folded).strip()
