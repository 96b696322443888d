"""What a judge is shown of one reply."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...guard import clean_text
from ..replies import RepliesRun, ReplyRow

FIELDS = ("question", "expected_answer", "reply", "context", "citation")
_WORD = re.compile(r"[^\W_]{3,}")


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """One reply with all that a judge may see of it.

    Attributes:
        reply_id: of the run.
        question: that was asked.
        expected_answer: empty where none is known.
        reply: its text.
        context: the passages that it was given, in their order; empty where it had none,
            or the run kept none.
        citation: what the reply names as its source, None where it has no such field.
    """

    reply_id: str
    question: str
    expected_answer: str
    reply: str
    context: tuple[str, ...] = ()
    citation: str | None = None

    def nearest_context(self, most: int) -> list[str]:
        """At most `most` passages, those that share most words with reply and expected answer.

        In the order of the context; words that are in many passages count less.
        """
        if len(self.context) <= most:
            return list(self.context)
        words = [set(_WORD.findall(passage.casefold())) for passage in self.context]
        common = Counter(word for found in words for word in found)
        wanted = set(_WORD.findall(f"{self.expected_answer} {self.reply}".casefold()))
        shared = [sum(1 / common[word] for word in sorted(found & wanted)) for found in words]
        best = sorted(range(len(words)), key=lambda index: (-shared[index], index))[:most]
        return [self.context[index] for index in sorted(best)]


def judged_reply(run: RepliesRun, row: ReplyRow) -> JudgedReply:
    """What judges are shown of a row that has a response."""
    question = run.question_of(row)
    return JudgedReply(
        reply_id=row.reply_id,
        question=clean_text(question.question),
        expected_answer=clean_text(question.answer),
        reply=clean_text(row.response or ""),
        context=tuple(clean_text(passage.text) for passage in run.context_passages(row)),
        citation=None if row.citation is None else clean_text(row.citation),
    )


def shown(material: JudgedReply, sees: Sequence[str], *, most_characters: int) -> str:
    """The fields as elements that their content cannot close or imitate.

    Args:
        material: one reply.
        sees: fields, some of `FIELDS`.
        most_characters: of the context; further passages are left out, and counted.
    """
    blocks = []
    for field in FIELDS:
        if field not in sees:
            continue
        if field == "context":
            blocks.append(_context(material, most_characters))
            continue
        value: str | None = getattr(material, field)
        if value is not None:
            blocks.append(f"<{field}>\n{_escaped(value)}\n</{field}>")
    return "\n\n".join(blocks)


def _context(material: JudgedReply, most_characters: int) -> str:
    if not material.context:
        return "<context>\n(none)\n</context>"
    sizes = sum(map(len, material.context)) / len(material.context)
    passages = material.nearest_context(max(1, int(most_characters / max(sizes, 1))))
    kept: list[str] = []
    for passage in passages:
        room = most_characters - sum(map(len, kept))
        if room <= 0:
            break
        kept.append(passage[:room])
    lines = [f"<passage>\n{_escaped(passage)}\n</passage>" for passage in kept]
    gone = len(material.context) - len(kept)
    if gone:
        lines.append(f"(and {gone} passages that share fewer words with the reply)")
    return "<context>\n" + "\n".join(lines) + "\n</context>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
