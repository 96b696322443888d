"""Counts of replies, from which tables and sentences follow, and the names of systems there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...judging.rated import RatedReply, rate
from ...report.text import one_line
from ...run.grouping import grouped
from ...run.replies import Judgement, ReplySystem

OFF = "off"
Counts = dict[str, Any]
"""Outcomes of replies as `report.json` has them; see `count_replies`."""


def count_replies(given: Iterable[RatedReply]) -> Counts:
    """Count outcomes of replies, failed ones included.

    Returns:
        Of questions whose answer the knowledge base does not hold: replies without an error, errors
        (which count nowhere else), different questions; abstentions and answers, and answers of
        each tier, None where nobody judged that; replies without a verdict on abstention, and
        answers without a tier, by criterion; and the shares of abstentions among those judged, of
        tiers 1 and 2 among answers with a tier, and of tier 3 among all replies that abstained or
        have a tier. Beneath `in_kb` the same of the other questions, where abstaining is wrong.
    """
    sides = grouped(given, lambda reply: reply.out_of_kb)
    found, in_kb = (_counts(sides.get(side, ())) for side in (True, False))
    in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
    return {**found, "in_kb": in_kb}


def count_by_base(replies: Iterable[RatedReply]) -> dict[str, Counts]:
    """Count replies by name of the knowledge base."""
    bases = grouped(replies, lambda reply: reply.case.knowledge_base)
    return {name: count_replies(own) for name, own in bases.items()}


def _counts(given: Sequence[RatedReply]) -> Counts:
    replies = [reply for reply in given if reply.row.error is None]
    judged = [reply for reply in replies if reply.abstained is not None]
    answers = [reply for reply in replies if not reply.abstained]
    tiered = [reply for reply in answers if reply.tier is not None]
    # Without any tier, nothing is known of answers: only abstentions would be left.
    known = [one for one in replies if one.wrong is not None and (tiered or not answers)]
    abstained = sum(reply.abstained is True for reply in judged)
    tiers = Counter(reply.tier for reply in tiered)
    told = bool(judged) or not replies
    return {
        "n": len(replies),
        "errors": len(given) - len(replies),
        "questions": len({reply.case.question_id for reply in replies}),
        "abstained": abstained if told else None,
        "answered": len(judged) - abstained if told else None,
        **{name: tiers[name] if tiered or not answers else None for name in Judgement.TIERS},
        "unjudged": {
            Judgement.ABSTENTION: len(replies) - len(judged),
            Judgement.FACTUALITY: len(answers) - len(tiered),
        },
        "abstention_rate": rate((reply, reply.abstained is True) for reply in judged),
        "factuality_rate": rate((reply, reply.right is True) for reply in tiered),
        "wrong_answer_rate": rate((reply, reply.wrong is True) for reply in known),
    }


# -- Names of systems -------------------------------------------------------------------

FACTORS = ("model", "retrieval", "prompt", "guard")
SEPARATOR = " \N{MIDDLE DOT} "
LONGEST = 60


def varying(systems: Sequence[ReplySystem]) -> tuple[str, ...]:
    """List the factors in which the systems differ; of a single system, all known ones."""
    values = {name: {getattr(system, name) for system in systems} for name in FACTORS}
    found = tuple(name for name in FACTORS if len(values[name]) > 1)
    return found or tuple(name for name in FACTORS if any(values[name]))


def labels(systems: Sequence[ReplySystem]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    short = {system.system_id: label(system, varying(systems)) for system in systems}
    alike = len(set(short.values())) < len(short)
    shown = [name if alike else text or name for name, text in short.items()]
    return dict(zip(short, distinct(shown), strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """Shorten each name to one line, and number those that then look alike.

    Example:
        >>> distinct(["a", "b", "a\\n"])
        ['a', 'b', 'a #2']
    """
    found: list[str] = []
    for name in names:
        short = one_line(name, LONGEST)
        numbered = (f"{short} #{number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (short, *numbered) if one not in found))
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    texts = (one_line(getattr(one, factor)) or "unknown" for one in (base, other))
    changed = " → ".join(one_line(text, LONGEST) for text in texts)
    same = one_line(label(base, [name for name in factors if name != factor]), LONGEST)
    return f"{same}: {changed}" if same else changed


def label(system: ReplySystem, factors: Sequence[str]) -> str:
    """Name a system by some of its factors."""
    values = {name: one_line(getattr(system, name)) or f"{name} unknown" for name in factors}
    return SEPARATOR.join(f"guard {v}" if name == "guard" else v for name, v in values.items())
