"""The replies worth reading: made-up answers, and answers that were withheld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...judging import FAILURE
from ...report import one_line, shortened
from ...run import ABSTENTION, FACTUALITY, CaseKind, ReplyContext
from ._replies_evidence import Evidence, JudgedReply

SHOWN = 10
_QUESTION_LIMIT, _ANSWER_LIMIT, _REPLY_LIMIT = 300, 300, 400
_PASSAGE_LIMIT, _REASON_LIMIT = 200, 300
_CONTEXTS, _REPLIES, _PASSAGES = 3, 3, 5


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply, with the systems that gave it and what the judge said of it."""

    text: str
    systems: str
    failure: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class ShownContext:
    """What was read, and the replies to that.

    Attributes:
        words: what kind of context it was.
        passages: in their order, shortened, each with whether it holds the answer.
        more: passages that are not shown.
        replies: equal ones together.
    """

    words: str
    passages: tuple[tuple[str, bool], ...]
    more: int
    replies: tuple[ShownReply, ...]


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case as it is shown.

    Attributes:
        case_id: as stored.
        question: shortened.
        expected: the answer that would be right.
        systems: how many went wrong, of how many that replied.
        contexts: those that most systems went wrong with first.
        more: contexts that are not shown.
    """

    case_id: str
    question: str
    expected: str
    systems: str
    contexts: tuple[ShownContext, ...]
    more: int


@dataclass(frozen=True, slots=True)
class WorstCases:
    """Cases of one kind, the worst first.

    Attributes:
        cases: how many there are in all.
        shown: the first of them.
        unknown: why there is nothing to show although there may be such cases; empty where
            replies were looked at.
    """

    cases: int
    shown: tuple[ShownCase, ...]
    unknown: str = ""


def made_up(evidence: Evidence, names: Mapping[str, str]) -> WorstCases:
    """Not in the knowledge base, yet answered and wrong: those of most systems first."""
    among = [reply for reply in evidence.replies if reply.out_of_kb]
    unknown = ""
    if not among:
        unknown = "No reply to a question outside the knowledge base."
    elif all(reply.wrong is None for reply in among):
        unknown = "Not known: nobody judged whether what was answered is right."
    chosen = [reply for reply in among if reply.wrong]
    return _worst(evidence, chosen, names, unknown)


def withheld(evidence: Evidence, names: Mapping[str, str]) -> WorstCases:
    """In the knowledge base, yet declined."""
    among = [reply for reply in evidence.replies if not reply.out_of_kb]
    unknown = ""
    if not among:
        unknown = "No reply to a question whose answer is in the knowledge base."
    elif all(reply.abstained is None for reply in among):
        unknown = "Not known: nobody judged whether replies decline."
    chosen = [reply for reply in among if reply.abstained]
    return _worst(evidence, chosen, names, unknown)


def _worst(
    evidence: Evidence, chosen: Sequence[JudgedReply], names: Mapping[str, str], unknown: str
) -> WorstCases:
    by_case: dict[str, list[JudgedReply]] = {}
    for reply in chosen:
        by_case.setdefault(reply.case.case_id, []).append(reply)
    asked: dict[str, int] = {}
    for reply in evidence.replies:
        asked[reply.case.case_id] = asked.get(reply.case.case_id, 0) + 1

    def rank(name: str) -> tuple[float, int, str]:
        own = by_case[name]
        return -len(own) / asked[name], -len(own), name

    order = sorted(by_case, key=rank)[:SHOWN]
    return WorstCases(
        len(by_case),
        tuple(_shown(evidence, by_case[name], asked[name], names) for name in order),
        unknown,
    )


def _shown(
    evidence: Evidence, replies: Sequence[JudgedReply], asked: int, names: Mapping[str, str]
) -> ShownCase:
    first = replies[0]
    grouped: dict[ReplyContext, list[JudgedReply]] = {}
    for reply in replies:
        grouped.setdefault(reply.row.context or ReplyContext(), []).append(reply)
    order = sorted(grouped, key=lambda context: (-len(grouped[context]), context.kind))
    expected = first.question.answer
    if first.case.kind is CaseKind.SYNTHETIC and not expected:
        expected = "(none: the question was made to have no answer in the knowledge base)"
    return ShownCase(
        case_id=one_line(first.case.case_id),
        question=shortened(first.question.question, _QUESTION_LIMIT),
        expected=shortened(expected, _ANSWER_LIMIT),
        systems=f"{len(replies)} of {asked} systems" if asked > 1 else "",
        contexts=tuple(
            _context(evidence, grouped[context], names) for context in order[:_CONTEXTS]
        ),
        more=max(0, len(order) - _CONTEXTS),
    )


def _context(
    evidence: Evidence, replies: Sequence[JudgedReply], names: Mapping[str, str]
) -> ShownContext:
    first = replies[0]
    context = first.row.context or ReplyContext()
    shown = _passages(evidence, first, context)
    texts: dict[tuple[str, str, str], list[str]] = {}
    for reply in replies:
        text = shortened(reply.row.response or "", _REPLY_LIMIT) or "(an empty reply)"
        reasoning = _reasoning(evidence, reply)
        # "none": the judge of failures saw none, which is no word on a wrong answer.
        kind = "" if reply.failure in (None, "none") else reply.failure
        failure = shortened(kind.replace("_", " "), 60)
        texts.setdefault((text, failure, reasoning), []).append(names[reply.system.system_id])
    return ShownContext(
        words=_context_words(evidence, first, context),
        passages=shown[:_PASSAGES],
        more=max(0, len(shown) - _PASSAGES),
        replies=tuple(
            ShownReply(text, "; ".join(systems), failure, reasoning)
            for (text, failure, reasoning), systems in list(texts.items())[:_REPLIES]
        ),
    )


def _reasoning(evidence: Evidence, reply: JudgedReply) -> str:
    """What a judge said before its verdict, of the one that says most about the case."""
    for criterion in (ABSTENTION,) if reply.abstained else (FAILURE, FACTUALITY):
        verdict = evidence.verdict(reply.row.reply_id, criterion)
        if verdict is not None and verdict.reasoning:
            return shortened(verdict.reasoning, _REASON_LIMIT)
    return ""


def _passages(
    evidence: Evidence, reply: JudgedReply, context: ReplyContext
) -> tuple[tuple[str, bool], ...]:
    # A whole knowledge base is told by its size; only chosen passages say something.
    if context.kind != "passages":
        return ()
    own = reply.question.own_passage
    return tuple(
        (
            shortened(evidence.run.passages[name].text, _PASSAGE_LIMIT)
            if name in evidence.run.passages
            else f"({one_line(name)}: text not stored in the run)",
            name == own,
        )
        for name in context.passages
    )


def _context_words(evidence: Evidence, reply: JudgedReply, context: ReplyContext) -> str:
    if context.kind == "none":
        return "No context: asked without the knowledge base."
    if context.kind == "unknown":
        return "The log does not tell what stood in the context."
    if context.kind == "passages":
        count = len(context.passages)
        return f"Context of {count} passage{'s' if count != 1 else ''}"
    base = reply.case.knowledge_base
    held = sum(passage.knowledge_base == base for passage in evidence.run.passages.values())
    gone = len(context.passages)
    return f"Context: the whole knowledge base ({held} passages)" + (
        f" without {gone} of them." if gone else "."
    )
