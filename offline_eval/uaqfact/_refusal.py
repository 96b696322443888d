"""Does a reply to a question of this suite decline to name an answer?

Two rules, by name: `published`, exactly as the authors coded it (English only), and
`strict`, the default: the bundled detector of abstentions with what is said of questions
whose answer does not exist, in English and Chinese.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from ...guard.abstention import AbstentionDetector, load_rule
from ._absence import concludes, says_absence

RuleName = Literal["published", "strict"]


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
        (says_absence(reply) or verdict.abstained) and not concludes(reply)
        for reply, verdict in zip(replies, detector.detect_many(list(replies)), strict=True)
    ]
