"""The replies worth reading: wrong answers and false abstentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...report import Case, CaseLine, Cases, Passages, Section, one_line
from ...run import (
    CaseKind,
    Judgement,
    ReplyContext,
)
from ._replies_evidence import Evidence, JudgedReply

SHOWN = 10
_QUESTION_LIMIT, _ANSWER_LIMIT, _REPLY_LIMIT = 300, 300, 400
_PASSAGE_LIMIT, _REASON_LIMIT = 200, 300
_CONTEXTS, _REPLIES, _PASSAGES = 3, 3, 5


def wrong_answers(evidence: Evidence, names: Mapping[str, str]) -> Section:
    """Show wrong answers to questions outside the knowledge base: those of most systems first."""
    among = [reply for reply in evidence.replies if reply.out_of_kb]
    unknown = ""
    if not among:
        unknown = "No reply to a question outside the knowledge base."
    elif all(reply.wrong is None for reply in among):
        unknown = "Not known: nobody judged whether what was answered is right."
    return _section(
        "Confidently wrong: not in the knowledge base, yet answered",
        "{shown} of {all} such cases, those first that most systems got wrong. If a passage shown "
        "here does hold the answer, the knowledge base states the same thing twice and the case "
        "does not count.",
        unknown,
        evidence,
        [reply for reply in among if reply.wrong],
        names,
    )


def false_abstentions(evidence: Evidence, names: Mapping[str, str]) -> Section:
    """Show abstentions from questions whose answer is in the knowledge base."""
    among = [reply for reply in evidence.replies if not reply.out_of_kb]
    unknown = ""
    if not among:
        unknown = "No reply to a question whose answer is in the knowledge base."
    elif all(reply.abstained is None for reply in among):
        unknown = "Not known: nobody judged whether replies abstain."
    return _section(
        "False abstentions: in the knowledge base, yet not answered",
        "{shown} of {all} such cases.",
        unknown,
        evidence,
        [reply for reply in among if reply.abstained],
        names,
    )


def _section(
    title: str,
    text: str,
    unknown: str,
    evidence: Evidence,
    chosen: Sequence[JudgedReply],
    names: Mapping[str, str],
) -> Section:
    by_case: dict[str, list[JudgedReply]] = {}
    for reply in chosen:
        by_case.setdefault(reply.case.case_id, []).append(reply)
    if not by_case:
        return Section(title, (unknown or "No such case.",))
    asked: dict[str, int] = {}
    for reply in evidence.replies:
        asked[reply.case.case_id] = asked.get(reply.case.case_id, 0) + 1

    def rank(name: str) -> tuple[float, int, str]:
        own = by_case[name]
        return -len(own) / asked[name], -len(own), name

    order = sorted(by_case, key=rank)[:SHOWN]
    cases = tuple(_shown(evidence, by_case[name], asked[name], names) for name in order)
    return Section(title, (text.format(shown=len(cases), all=len(by_case)), Cases(cases)))


def _shown(
    evidence: Evidence, replies: Sequence[JudgedReply], asked: int, names: Mapping[str, str]
) -> Case:
    first = replies[0]
    grouped: dict[ReplyContext, list[JudgedReply]] = {}
    for reply in replies:
        grouped.setdefault(reply.row.context or ReplyContext(), []).append(reply)
    order = sorted(grouped, key=lambda context: (-len(grouped[context]), context.kind))
    expected = first.question.answer
    if first.case.kind is CaseKind.SYNTHETIC and not expected:
        expected = "(none: the question was made to have no answer in the knowledge base)"
    systems = f" · {len(replies)} of {asked} systems" if asked > 1 else ""
    parts: list[CaseLine | Passages] = [
        CaseLine(one_line(expected, _ANSWER_LIMIT), "Expected", right=True)
    ]
    for context in order[:_CONTEXTS]:
        parts += _context(evidence, grouped[context], names)
    more = len(order) - _CONTEXTS
    if more > 0:
        parts.append(CaseLine(f"… and {more} other contexts with a wrong reply."))
    question = one_line(first.question.question, _QUESTION_LIMIT)
    return Case(question, f"{first.case.case_id}{systems}", tuple(parts))


def _context(
    evidence: Evidence, replies: Sequence[JudgedReply], names: Mapping[str, str]
) -> list[CaseLine | Passages]:
    """The replies to one context, equal ones together, and the passages that were read."""
    first = replies[0]
    context = first.row.context or ReplyContext()
    texts: dict[tuple[str, str, str], list[str]] = {}
    for reply in replies:
        text = one_line(reply.row.response or "", _REPLY_LIMIT) or "(an empty reply)"
        reasoning = _reasoning(evidence, reply)
        # "none": the judge of failures saw none, which says nothing about a wrong answer.
        kind = "" if reply.failure in (None, "none") else reply.failure
        failure = one_line(kind.replace("_", " "), 60)
        texts.setdefault((text, failure, reasoning), []).append(names[reply.system.system_id])
    parts: list[CaseLine | Passages] = [
        CaseLine(text, "Reply", tag=failure, wrong=True, note="; ".join(systems), reason=reasoning)
        for (text, failure, reasoning), systems in list(texts.items())[:_REPLIES]
    ]
    description = _describe(evidence, first, context)
    shown = _passages(evidence, first, context)
    if not shown:
        return [*parts, CaseLine(description)]
    more = max(0, len(shown) - _PASSAGES)
    return [*parts, Passages(shown[:_PASSAGES], title=description, more=more)]


def _reasoning(evidence: Evidence, reply: JudgedReply) -> str:
    """The reasoning of the judge whose verdict says most about the case."""
    for criterion in (
        (Judgement.ABSTENTION,) if reply.abstained else (Judgement.FAILURE, Judgement.FACTUALITY)
    ):
        verdict = evidence.verdict(reply.row.reply_id, criterion)
        if verdict is not None and verdict.reasoning:
            return one_line(verdict.reasoning, _REASON_LIMIT)
    return ""


def _passages(
    evidence: Evidence, reply: JudgedReply, context: ReplyContext
) -> tuple[CaseLine, ...]:
    # A whole knowledge base is described by its size; only chosen passages say something.
    if context.kind != "passages":
        return ()
    own = reply.question.own_passage
    stored = evidence.run.passages
    return tuple(
        CaseLine(
            one_line(stored[name].text, _PASSAGE_LIMIT)
            if name in stored
            else f"({name}: text not stored in the run)",
            right=name == own,
        )
        for name in context.passages
    )


def _describe(evidence: Evidence, reply: JudgedReply, context: ReplyContext) -> str:
    if context.kind == "none":
        return "No context: asked without the knowledge base."
    if context.kind == "unknown":
        return "The log does not say what the context was."
    if context.kind == "passages":
        count = len(context.passages)
        return f"Context of {count} passage{'s' if count != 1 else ''}"
    base = reply.case.knowledge_base
    held = sum(passage.knowledge_base == base for passage in evidence.run.passages.values())
    gone = len(context.passages)
    return f"Context: the whole knowledge base ({held} passages)" + (
        f" without {gone} of them." if gone else "."
    )
