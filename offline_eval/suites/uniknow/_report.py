"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ....calibration import Interval
from ...data.answers.matching import is_right
from ...report.document import Document, Section
from ...report.plots import Colour, Plot, dots
from ...report.tables import Cell
from ...report.text import counted, decimal, estimate_text, percent
from ...report.what_if import WhatIf, WhatIfCase
from ..parts import run_sections
from ._cases import CONTENT, PAPER_KINDS, TEXTS
from ._guard import calibrated, decide_signals
from ._metrics import (
    ALL,
    PUBLISHED,
    SITUATIONS,
    MethodShares,
    UniKnowSummary,
    shown_method,
)
from .plan import UniKnowRun

_TITLES = {situation["name"]: situation["title"] for situation in SITUATIONS}


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    if run.policy is None:
        return None
    replies = {row.case_key: row for row in run.rows if row.method == "naive" and not row.error}
    signals = {one.case_id: one for one in run.signals}
    found, other = [], 0
    for row in run.rows:
        reply, signal = replies.get(row.case_key), signals.get(row.case_key)
        guarded = row.method == "guard_naive" and not row.error and row.context_kind in PAPER_KINDS
        if not guarded or reply is None or signal is None:
            continue
        case = run.cases[row.case_key]
        relevance, confidence = calibrated(run.policy, signal)
        remembered = is_right((signal.closed_book or "").strip(), case.expected)
        shown = WhatIfCase(
            relevance=relevance,
            confidence=confidence,
            context_right=signal.holds_answer,
            memory_right=bool(signal.closed_book_right),
            context_reply="abstained" if reply.abstained else "right" if reply.right else "wrong",
            memory_reply="right" if remembered else "wrong",
            name=signal.case_id,
            question=case.question,
        )
        found.append(shown)
        other += decide_signals(run.policy, signal)[1] != row.route
    if other:
        return TEXTS.text("no_what_if", other)
    block = WhatIf(
        cases=tuple(found),
        policy=run.policy,
        which="Cases of the four situations, of the method guard_naive",
        leave_one_out=False,
        replies=True,
        notes=(TEXTS.text("what_if"),),
    )
    return block if found and block.moving else None


def _published(summary: UniKnowSummary) -> Iterator[tuple[str, dict[str, Cell]]]:
    """Yield each method with the numbers that were published, those of this run beneath."""
    for name, found in PUBLISHED.items():
        own = summary.methods.get(name)
        cells = {
            scenario: _beneath(percent, value, own[scenario]["em"] if own else None)
            for scenario, value in found["em"].items()
        }
        cells["rely"] = _beneath(decimal, found["rely_nq"], own[ALL]["rely"] if own else None)
        yield name, cells


def _beneath(
    text: Callable[[float | None], str], published: float | None, own: Interval | None
) -> Cell:
    here = None if own is None else own.value
    return Cell(text(published), "" if here is None else f"here {text(here)}")


_MARKS = {
    "prompt only": ("o", Colour.GREY),
    "decoding": ("^", Colour.AMBER),
    "fine-tuned": ("s", Colour.BLUE),
    "guarded": ("D", Colour.VERMILION),
    "other": ("X", Colour.PURPLE),
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def _situations_plot(methods: Mapping[str, Mapping[str, Any]]) -> Plot | None:
    """Plot what some methods with cases did in each situation; None without any."""
    # A name that no plot can hold becomes a number.
    labels = [
        name if _PLAIN.fullmatch(name) else f"method {number}"
        for number, name in enumerate(methods, start=1)
    ]
    panels = {
        f"{one['title']}\n({one['letter']})": [
            ("", *_MARKS[shown_method(name)[0]], [*[None] * line, found[one["name"]]["em"]])
            for line, (name, found) in enumerate(methods.items())
        ]
        for one in SITUATIONS
    }
    words = CONTENT["plot"]
    return (
        dots(("situations", words["title"], words["caption"]), labels, panels) if labels else None
    )


# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def _headline(summary: UniKnowSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    shut, methods = summary.abstains_always, summary.methods
    rely = {
        name: found[ALL]["rely"]
        for name, found in methods.items()
        if (cases := found[ALL].cases)
        and summary.failed(name) <= _MOST_FAILED * (summary.failed(name) + cases)
        and not (shut and name.startswith("guard_"))
    }
    best = min(rely, key=lambda name: (-(rely[name].value or 0.0), name), default=None)
    lines = TEXTS.paragraphs("best", best, best and estimate_text(rely[best], decimal), methods)
    if shut:
        return lines
    for base in ("naive", "coiecd"):
        if {base, f"guard_{base}"} <= methods.keys():
            lines += TEXTS.paragraphs("guarded", base, methods[f"guard_{base}"], methods[base])
    # The smallest difference belongs to the best of the trained methods.
    trained = [
        (found["rely"].value, base, found["rely"])
        for (method, base), (_, found) in summary.differences.items()
        if method == "guard_naive" and shown_method(base)[0] == "fine-tuned"
        if found["rely"].value is not None
    ]
    for _, base, difference in sorted(trained, key=lambda one: one[:2])[:1]:
        lines += TEXTS.paragraphs("against_trained", base, difference)
    return lines


def _warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    shares = {
        title: [method[name] for method in summary.methods.values()]
        for name, title in _TITLES.items()
    }
    sizes = [one.questions for own in shares.values() for one in own if one.questions]
    return TEXTS.paragraphs(
        "warnings",
        summary,
        asked={summary.asked[name] for name in summary.methods},
        empty=[title for title, own in shares.items() if not any(one.cases for one in own)],
        smallest=min(sizes, default=None),
    )


def uniknow_document(summary: UniKnowSummary) -> Document:
    """Make the report of a summarised run."""
    cases = summary.run.cases
    names = ", ".join(sorted({case.dataset for case in cases.values()}))
    counts = (summary.questions, "question"), (len(cases), "case"), (len(summary.methods), "method")
    return Document(
        name="uniknow",
        title=f"Knowledge scenarios: {names}" if names else "Knowledge scenarios",
        subtitle=f"{', '.join(counted(*one) for one in counts)} · UniKnow suite",
        headline=_headline(summary),
        warnings=_warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def _sections(summary: UniKnowSummary) -> list[Section]:
    methods, ablations = summary.methods, summary.ablations
    shown = {name: found for name, found in methods.items() if found[ALL].cases}
    bases = {name.partition("@")[0] for name in ablations}
    usual = {name: found for name, found in methods.items() if name in bases}
    differences = summary.differences.items()
    lines = {
        "shown": shown,
        "differences": {f"{pair[0]} − {pair[1]}": found for pair, (_, found) in differences},
        "ablations": usual | ablations if ablations else {},
        "beyond": {
            kind: {name: one for name, one in found.items() if name in methods}
            for kind, found in summary.beyond.items()
        },
        "published": dict(_published(summary)),
    }
    texts = {
        "situations": [_situation(one, methods.values()) for one in SITUATIONS],
        "meanings": [(name, meaning) for name in shown if (meaning := shown_method(name)[1])],
        "failures": [
            (method, kind, count)
            for method, types in summary.failures.items()
            for kind, count in types.items()
        ],
    }
    shapes = _situations_plot(shown), uniknow_what_if(summary.run)
    given = summary, lines, texts, *shapes, CONTENT
    return run_sections(TEXTS, summary.run.manifest, *given)


def _situation(one: Mapping[str, str], methods: Iterable[MethodShares]) -> tuple[str | int, ...]:
    found = [method[one["name"]] for method in methods]
    questions = max((shares.questions for shares in found), default=0)
    cases = max((shares.cases for shares in found), default=0)
    title = f"{one['title']} ({one['letter']})"
    return title, one["what"], one["wanted"], questions, cases
