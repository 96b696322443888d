"""One line per reply, for spreadsheets."""

from __future__ import annotations

import csv
import io
import os
import unicodedata
from collections.abc import Sequence

from ....guard.text import clean_text
from ...report import Check, SuiteReport, one_line, percent, render_html, render_markdown
from ._replies_evidence import Evidence, JudgedReply, ReplyCounts, ReplyShape
from ._replies_plots import draw_plots
from ._replies_topics import Embed
from ._replies_view import replies_view
from ._summary import RepliesSummary, summarise_replies

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


_SUITE = "knowgate.ookb"


def replies_report(
    run_dir: str | os.PathLike[str],
    *,
    compare: Sequence[str | os.PathLike[str]] = (),
    embed: Embed | None = None,
) -> SuiteReport:
    """The report of a run folder.

    Args:
        run_dir: of a run of replies, finished or not.
        compare: folders of other runs of replies.
        embed: for topics that no input names; None: the embedded model.

    Raises:
        InputError: a file of a run is missing, broken or written by a newer knowgate, or a
            run that was to be compared has no system or question in common with this one.
    """
    summary = summarise_replies(run_dir, compare=compare, embed=embed)
    return SuiteReport(
        name=_SUITE,
        values=summary.to_dict(),
        html=lambda gates: render_html(
            replies_view(summary, gates), draw_plots(summary), "replies.html"
        ),
        markdown=lambda gates: render_markdown(replies_view(summary, gates), "replies.md"),
        csv=lambda: replies_csv(summary.evidence),
        checks=lambda: system_checks(summary),
    )


def system_checks(summary: RepliesSummary) -> list[Check]:
    """Per system and knowledge base, whether all its replies are there and without error."""
    found = []
    for one in summary.systems:
        for base, shape in one.knowledge_bases.items():
            failed = shape.out_of_kb.errors + shape.in_kb.errors
            total = shape.out_of_kb.n + shape.in_kb.n + failed
            found.append(
                Check(
                    group=f"{_SUITE}.{one_line(base)}" if base else _SUITE,
                    name=one_line(one.system.system_id),
                    failure=f"{failed} of {total} replies ended in an error" if failed else "",
                    text=_words(shape),
                )
            )
    if summary.missing:
        planned = summary.evidence.run.manifest.replies
        why = f"{summary.missing} of {planned} replies are missing"
        found.append(Check(_SUITE, "the run is finished", why, ""))
    return found


def _words(shape: ReplyShape) -> str:
    out, in_kb = shape.out_of_kb, shape.in_kb
    parts = [
        _part("declined, answer not in the knowledge base", out.abstained, out),
        _part("wrong answers, answer not in the knowledge base", out.tiers["tier_3"], out),
        _part("declined without need", in_kb.abstained, in_kb),
    ]
    return "; ".join(part for part in parts if part)


def _part(words: str, count: int | None, counts: ReplyCounts) -> str:
    if count is None or not counts.n:
        return ""
    return f"{words}: {count} of {counts.n} ({percent(count / counts.n)})"
