"""The rows of `replies.csv`: one per reply."""

from __future__ import annotations

from collections.abc import Iterator

from ._replies_evidence import Evidence, JudgedReply

_FIELDS = (
    "reply_id",
    "system_id",
    "model",
    "prompt",
    "retrieval",
    "guard",
    "replayed",
    "case_id",
    "question_id",
    "kind",
    "knowledge_base",
    "topic",
    "held_out",
    "question",
    "expected_answer",
    "context",
    "context_passages",
    "response",
    "citation",
    "route",
    "reason",
    "relevance",
    "confidence",
    "calls",
    "input_tokens",
    "output_tokens",
    "seconds",
    "error_type",
    "error",
    "abstained",
    "factuality",
    "failure",
)


def reply_rows(evidence: Evidence) -> Iterator[list[object]]:
    """Yield the header and a row per reply; one more column per criterion and judge."""
    verdicts = [
        (criterion, judge) for criterion, judges in evidence.judges.items() for judge in judges
    ]
    yield [*_FIELDS, *(f"{name}:{judge}" for name, judge in verdicts)]
    for reply in (*evidence.replies, *evidence.failed):
        said = evidence.verdicts.get(reply.row.reply_id, {})
        values = _row(reply)
        yield [
            *(values[field] for field in _FIELDS),
            *(
                found.outcome if (found := said.get(name, {}).get(judge)) is not None else None
                for name, judge in verdicts
            ),
        ]


def _row(reply: JudgedReply) -> dict[str, object]:
    row, case, system, question = reply.row, reply.case, reply.system, reply.question
    own = row.model_dump(
        include={"citation", "reason", "relevance", "confidence", "calls", "seconds", "response"}
        | {"input_tokens", "output_tokens", "reply_id", "system_id"}
    )
    return {
        **own,
        "model": system.model,
        "prompt": system.prompt,
        "retrieval": system.retrieval,
        "guard": system.guard,
        "replayed": system.replayed,
        "case_id": case.case_id,
        "question_id": case.question_id,
        "kind": case.kind.value,
        "knowledge_base": case.knowledge_base,
        "topic": question.topic,
        "held_out": case.held_out,
        "question": question.question,
        "expected_answer": question.answer,
        "context": None if row.context is None else row.context.kind,
        "context_passages": None if row.context is None else "; ".join(row.context.passages),
        "route": None if row.route is None else row.route.value,
        "error_type": None if row.error is None else row.error.type,
        "error": None if row.error is None else row.error.detail,
        "abstained": reply.abstained,
        "factuality": reply.tier,
        "failure": reply.failure,
    }
