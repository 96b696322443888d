"""The report of a run of replies, in all its forms."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .._escaping import one_line
from .._junit import Check
from .._numbers import percent
from .._rendering import render_html, render_markdown
from .._suite_report import SuiteReport
from ._counts import ReplyCounts, ReplyShape
from ._csv import replies_csv
from ._plots import draw_plots
from ._summary import RepliesSummary, summarise_replies
from ._topics import Embed
from ._view import replies_view

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
                    words=_words(shape),
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
