"""One line per reply, for spreadsheets."""

from __future__ import annotations

import csv
import io
import unicodedata

from ....guard import clean_text
from ._evidence import Evidence, JudgedReply

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
# A spreadsheet takes a cell that starts so for a formula, and runs it.
# Full-width signs count as well in some languages' versions.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def replies_csv(evidence: Evidence) -> str:
    """The table; after the fixed columns one per criterion and judge, `criterion:judge`.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    verdicts = [
        (criterion, judge) for criterion, judges in evidence.judges.items() for judge in judges
    ]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_FIELDS, *(_text(f"{name}:{judge}") for name, judge in verdicts)])
    for reply in (*evidence.replies, *evidence.failed):
        said = evidence.verdicts.get(reply.row.reply_id, {})
        outcomes = [
            found.outcome if (found := said.get(name, {}).get(judge)) is not None else None
            for name, judge in verdicts
        ]
        values = _row(reply)
        writer.writerow(
            [
                *(_cell(values[field]) for field in _FIELDS),
                *(_cell(outcome) for outcome in outcomes),
            ]
        )
    return buffer.getvalue()


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


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return repr(value)
    return _text(str(value))


def _text(text: str) -> str:
    kept = "".join(
        sign
        for sign in clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
        if sign in "\n\t" or unicodedata.category(sign) != "Cc"
    )
    return f"'{kept}" if kept.startswith(_FORMULA) else kept
