"""Does a reply name a right answer?

Two rules, by name: `published`, exactly as the authors coded it (a gold label anywhere in the
reply), and `strict`, the default: whole words, aliases too, and of the two options of a dilemma
one only, so that echoing both is no answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from ._items import QuestionType, UaqItem

_NEGATED_EN = re.compile(
    r"(?:\bnot|\bnor|\bneither|\brather than|\binstead of|\bisn't)\W+(?:the )?$"
)
_NEGATED_ZH = re.compile('(?:不是|并非|而非|而不是|不选|排除)[“"《「『]?$')
_SPACES = re.compile(r"\s+")


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
    names = [name for answer in item.answers for name in (answer.label, *answer.aliases)]
    right = _stands(names, text)
    if not right or item.type is not QuestionType.DILEMMA:
        return right
    gold = {_normal(name) for name in names}
    wrong = [option for option in item.options if _normal(option) not in gold]
    # A wrong option within a right one, or the other way round, is not named by it.
    for name in sorted(gold, key=len, reverse=True):
        text = text.replace(name, " ∎ ")
    return not _stands(wrong, text)


def _stands(names: Iterable[str], text: str) -> bool:
    """Whether one of the names stands in the text as whole words and is not denied there."""
    return any(_affirmed(_normal(name), text) for name in names if name.strip())


def _affirmed(name: str, text: str) -> bool:
    left = r"(?<!\w)" if _is_spaced(name[0]) else ""
    right = r"(?!\w)" if _is_spaced(name[-1]) else ""
    return any(
        not _NEGATED_EN.search(text[max(0, match.start() - 20) : match.start()])
        and not _NEGATED_ZH.search(text[max(0, match.start() - 6) : match.start()])
        for match in re.finditer(left + re.escape(name) + right, text)
    )


def _is_spaced(letter: str) -> bool:
    # Scripts without spaces between words have no word boundaries to look for.
    return letter.isalnum() and not (
        "\u2e80" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff"
    )


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return _SPACES.sub(" ", folded).strip()
