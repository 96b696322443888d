"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from ...report.document import Document, Prose, Section
from ...report.plots import Colour, Plot, dots
from ...report.prose import explained
from ...report.tables import Cell, Line, Table, Text
from ...report.text import counted, decimal, estimate_text, percent
from ...report.what_if import WhatIf, WhatIfCase
from ...run.grouping import grouped
from ..parts import READ_REPLIES
from ._cases import PAPER_KINDS, ContextKind
from ._guard import calibrated, decide_signals
from ._matching import is_right
from ._metrics import ALL
from ._summary import (
    CONTENT,
    PUBLISHED,
    SITUATIONS,
    TEXTS,
    Methods,
    UniKnowSummary,
    shown_method,
)
from .plan import UniKnowRun

_GUARD, _BASE = "guard_naive", "naive"
_TITLES = {situation["name"]: situation["title"] for situation in SITUATIONS}
_LETTERED = {one["name"]: f"{one['title']} ({one['letter']})" for one in SITUATIONS}


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    if run.policy is None:
        return None
    replies = {row.case_key: row for row in run.rows if row.method == _BASE and not row.error}
    signals = {one.case_id: one for one in run.signals}
    found, other = [], 0
    for row in run.rows:
        reply, signal = replies.get(row.case_key), signals.get(row.case_key)
        guarded = row.method == _GUARD and not row.error and row.context_kind in PAPER_KINDS
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
    if not found:
        return None
    if other:
        return TEXTS.text("no_what_if", other)
    block = WhatIf(
        cases=tuple(found),
        policy=run.policy,
        which=f"Cases of the four situations, of the method {_GUARD}",
        leave_one_out=False,
        replies=True,
        notes=(TEXTS.text("what_if"),),
    )
    return block if block.moving else None


# Heading, scenario or `all`, share, and which way is better.
_Column = tuple[str, str, str, int]


def _table(methods: Methods, columns: Sequence[_Column], notes: tuple[Text, ...] = ()) -> Table:
    """Make a table of shares, a line per method."""
    found = [
        (heading, [one[scenario][share] for one in methods.values()], share, better)
        for heading, scenario, share, better in columns
    ]
    cells = [
        (heading, Cell.column(shares, decimal if share == "rely" else percent, better=better))
        for heading, shares, share, better in found
    ]
    return Table.from_columns("Method", list(methods), cells, notes=notes)


def difference_table(summary: UniKnowSummary) -> Table:
    """Make the table of guard minus base, on the same cases."""
    names = {"em_all": "Mean of the four"} | {
        f"em_{name}": title for name, title in _TITLES.items()
    }
    signed = partial(decimal, digits=3, signed=True)
    lines = tuple(
        Line(
            f"{method} \N{MINUS SIGN} {base}",
            (Cell.difference(found["rely"], signed), *(Cell.difference(found[n]) for n in names)),
        )
        for (method, base), (_, found) in summary.differences.items()
    )
    notes = (*TEXTS.terms("differences"), *explained("clear"))
    return Table("Compared", ("Rely", *names.values()), lines, notes=notes)


def published_table(methods: Methods) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""

    def cell(name: str, scenario: str, value: float | None, share: str = "em") -> Cell:
        text: Callable[[float | None], str] = decimal if share == "rely" else percent
        own = methods[name][scenario][share].value if name in methods else None
        return Cell(text(value), "" if own is None else f"here {text(own)}")

    columns = {**_TITLES, ALL: "Mean of the four"}
    lines = [
        Line(
            name,
            (
                *(cell(name, scenario, found["em"][scenario]) for scenario in columns),
                cell(name, ALL, found["rely_nq"], "rely"),
            ),
        )
        for name, found in PUBLISHED.items()
    ]
    return Table("Method", (*columns.values(), "Rely"), tuple(lines))


# -- Plots ------------------------------------------------------------------------------

_MARKS = {
    "prompt only": ("o", Colour.GREY),
    "decoding": ("^", Colour.AMBER),
    "fine-tuned": ("s", Colour.BLUE),
    "guarded": ("D", Colour.VERMILION),
    "other": ("X", Colour.PURPLE),
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def situations_plot(methods: Methods) -> Plot | None:
    """Plot what some methods with cases did in each situation; None without any."""
    if not methods:
        return None
    # A name that no plot can hold becomes a number.
    labels = [
        name if _PLAIN.fullmatch(name) else f"method {number}"
        for number, name in enumerate(methods, start=1)
    ]
    marks = [_MARKS[shown_method(name)[0]] for name in methods]
    panels = {}
    for one in SITUATIONS:
        shares = [found[one["name"]]["em"] for found in methods.values()]
        lines = enumerate(zip(marks, shares, strict=True))
        series = [("", *mark, [*[None] * line, share]) for line, (mark, share) in lines]
        panels[f"{one['title']}\n({one['letter']})"] = series
    words = CONTENT["plot"]
    return dots(("situations", words["title"], words["caption"]), labels, panels)


# -- Sentences --------------------------------------------------------------------------

# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def headline(summary: UniKnowSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    shut = summary.promise is not None and not summary.promise.certified
    lines = [_best(summary, shut=shut)]
    if not shut:
        lines += [_guarded(summary, f"guard_{base}", base) for base in ("naive", "coiecd")]
        # The smallest difference belongs to the best of the trained methods.
        trained = [
            (rely.value, base, rely)
            for (method, base), (_, found) in summary.differences.items()
            for rely in [found["rely"]]
            if method == _GUARD and shown_method(base)[0] == "fine-tuned" and rely.value is not None
        ]
        for _, base, rely in sorted(trained, key=lambda one: one[:2])[:1]:
            lines.append(TEXTS.text("against_trained", base, rely))
    return [line for line in lines if line]


def _best(summary: UniKnowSummary, *, shut: bool) -> str:
    """Name the method with the highest Rely, guards that always abstain left out."""
    rely = {
        name: found[ALL]["rely"]
        for name, found in summary.methods.items()
        if found[ALL].cases
        and summary.failed(name) <= _MOST_FAILED * (summary.failed(name) + found[ALL].cases)
        and not (shut and name.startswith("guard_"))
    }
    if not rely:
        return TEXTS.text("best", None, None, None)
    best = min(rely, key=lambda name: (-(rely[name].value or 0.0), name))
    naive = summary.methods.get("naive")
    beside = None if naive is None or best == "naive" else naive[ALL]["rely"].value
    return TEXTS.text("best", best, estimate_text(rely[best], decimal), beside)


def _guarded(summary: UniKnowSummary, guard: str, base: str) -> str:
    """Say what a guard changes where memory decides, or nothing can."""
    if guard not in summary.methods or base not in summary.methods:
        return ""
    ours, theirs = (
        {name: rates["em"].value for name, rates in summary.methods[method].items()}
        for method in (guard, base)
    )
    return TEXTS.text("guarded", base, ours, theirs)


def warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    asked = grouped(summary.run.rows, lambda row: row.method)
    found = {
        title: [method[name] for method in summary.methods.values()]
        for name, title in _TITLES.items()
    }
    sizes = [rate.questions for rates in found.values() for rate in rates if rate.questions]
    return TEXTS.paragraphs(
        "warnings",
        summary,
        failed=sum(sum(types.values()) for types in summary.failures.values()),
        asked={len(asked[name]) for name in summary.methods},
        empty=[title for title, rates in found.items() if all(not rate.cases for rate in rates)],
        smallest=min(sizes, default=None),
    )


def uniknow_document(summary: UniKnowSummary) -> Document:
    """Make the report of a summarised run."""
    cases = summary.run.cases
    names = ", ".join(sorted({case.dataset for case in cases.values()}))
    return Document(
        name="uniknow",
        title=f"Knowledge scenarios: {names}" if names else "Knowledge scenarios",
        subtitle=(
            f"{counted(summary.questions, 'question')}, {counted(len(cases), 'case')}, "
            f"{counted(len(summary.methods), 'method')} · UniKnow suite"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def _sections(summary: UniKnowSummary) -> list[Section | None]:
    shown = {name: found for name, found in summary.methods.items() if found[ALL].cases}
    meanings = tuple((name, meaning) for name in shown if (meaning := shown_method(name)[1]))
    methods = Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None
    published, manifest = CONTENT["published"]["model"], summary.run.manifest
    situations = _table(
        shown,
        [
            *((title, name, "em", 1) for name, title in _LETTERED.items()),
            ("Mean of the four (All)", ALL, "em", 1),
            ("Both agree (not scored)", "agreement", "em", 0),
        ],
        (*TEXTS.terms("situations"), *explained("intervals", "best")),
    )
    better = {"rely": 1, "acc": 1, "truth": 1, "ans": 0}
    parts = [(name.capitalize(), ALL, name, sign) for name, sign in better.items()]
    overall = _table(shown, parts, explained("acc", "truth", "ans", "rely"))
    kinds = explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention")
    errors = _table(
        shown,
        [(title, ALL, name, -1) for name, title in CONTENT["errors"].items()],
        (*TEXTS.terms("errors"), *kinds, *TEXTS.terms("other_errors")),
    )
    what_if = uniknow_what_if(summary.run)
    return [
        _tested(summary),
        Section(
            "What each method did in each situation", (situations_plot(shown), situations, methods)
        ),
        Section("Reliability", (overall,)),
        Section("What went wrong", (errors,)),
        Section("The guard against what it guards", (difference_table(summary),))
        if summary.differences
        else None,
        Section("What if the guard’s thresholds were others?", (what_if,)) if what_if else None,
        _ablations(summary),
        _beyond(summary),
        READ_REPLIES,
        _failures(summary),
        Section(
            "What the paper published",
            (*TEXTS.paragraphs("published", published), published_table(summary.methods)),
        ),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _tested(summary: UniKnowSummary) -> Section:
    lines = []
    for one in SITUATIONS:
        found = [method[one["name"]] for method in summary.methods.values()]
        questions = max((shares.questions for shares in found), default=0)
        cases = max((shares.cases for shares in found), default=0)
        lines.append((_LETTERED[one["name"]], one["what"], one["wanted"], questions, cases))
    headings = ("Situation", "What is the case", "What is wanted", "Questions", "Cases")
    knows = TEXTS.text("tested", **summary.knowledge, questions=summary.questions)
    situations = Table.of_text(headings, lines)
    blocks = (TEXTS.text("sources"), situations, knows, TEXTS.text("right"))
    return Section("What was tested", blocks)


def _ablations(summary: UniKnowSummary) -> Section | None:
    """Show the variants of trained methods, below their usual training."""
    if not summary.ablations:
        return None
    bases = {name.partition("@")[0] for name in summary.ablations}
    usual = {name: found for name, found in summary.methods.items() if name in bases}
    columns = [
        ("Rely", ALL, "rely", 1),
        *((title, name, "em", 1) for name, title in _TITLES.items()),
    ]
    notes = TEXTS.terms("ablations", CONTENT["published"])
    return Section("What the training needs", (_table(usual | summary.ablations, columns, notes),))


def _beyond(summary: UniKnowSummary) -> Section | None:
    headings = [("wanted", "As wanted", 1), ("right", "Right answer", 0)]
    headings += [("abstained", "Abstained", 0), ("misled", "Misled", -1)]
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = CONTENT["kinds"][kind]
        shown = {name: found for name, found in by_method.items() if name in summary.methods}
        columns = [
            (heading, Cell.column([one[name] for one in shown.values()], better=better))
            for name, heading, better in headings
            if name != "misled" or kind is ContextKind.UNTRUE
        ]
        table = Table.from_columns("Method", list(shown), columns)
        parts.append(Section(title, (Prose((meaning,), small=True), table)))
    if not parts:
        return None
    return Section("More than one passage, and untrue ones", (*TEXTS.paragraphs("beyond"), *parts))


def _failures(summary: UniKnowSummary) -> Section:
    failed = [
        (method, kind, count)
        for method, types in summary.failures.items()
        for kind, count in types.items()
    ]
    notes = ("They count in no number of this report.",)
    table = Table.of_text(("Method", "Type of error", "Replies"), failed, notes=notes)
    left_out = tuple(summary.run.manifest.left_out.items())
    return Section(
        "Failures",
        (
            table if failed else "None: every method replied to every case it was given.",
            "Not run on this model:" if left_out else None,
            Prose(left_out, bullets=True) if left_out else None,
        ),
    )
