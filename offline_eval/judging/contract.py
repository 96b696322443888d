"""The `Judge` protocol, what judges see, and verdicts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from ...guard.text import clean_text
from ..run import RepliesRun
from ..run.replies import ReplyRow

Seen = Literal["question", "expected_answer", "reply", "context", "citation"]
FIELDS: tuple[Seen, ...] = get_args(Seen)
_WORD = re.compile(r"[^\W_]{3,}")


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """A reply with everything that a judge may see.

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
    """Return what judges are shown of a row that has a response."""
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one reply.

    Attributes:
        outcome: one of the criterion's.
        probability: of the positive outcome, in [0, 1], where the judge gives one.
        reasoning: its words, where it gives any.
        input_tokens: of all calls made for it, None where not metered.
        output_tokens: likewise.
        calls: of language models.
    """

    outcome: str
    probability: float | None = None
    reasoning: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int = 0


# Criterion → outcome that the same judge gave to the same reply before.
Known = Mapping[str, str]


@runtime_checkable
class Judge(Protocol):
    """Gives verdicts on replies.

    Attributes:
        name: unique in a run; what verdicts are stored under.
        estimate: whether its verdicts are offline estimates and no judgements.
        criteria: names, in the order in which they are asked; verdicts on the earlier
            ones are known when the later ones are asked.
    """

    @property
    def name(self) -> str:
        """What verdicts are stored under."""
        ...

    @property
    def estimate(self) -> bool:
        """Whether its verdicts are offline estimates."""
        ...

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names, in the order in which they are asked."""
        ...

    def version(self, criterion: str) -> str:
        """Hexadecimal sha256 of everything that decides its verdicts."""
        ...

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Whether there is anything to judge; False leaves the reply without a verdict."""
        ...

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """The verdict. Whatever it raises becomes the row of a failure."""
        ...


def sha256_of(*parts: str) -> str:
    """One hash of several texts; no two lists of texts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
