"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ...data.answers.matching import is_right
from ...report.document import Document, Prose, Section
from ...report.plots import Colour, Plot, dots
from ...report.prose import explained
from ...report.tables import Cell, Table, Text
from ...report.text import counted, decimal, estimate_text, percent
from ...report.what_if import WhatIf, WhatIfCase
from ..parts import READ_REPLIES
from ._cases import PAPER_KINDS, ContextKind
from ._guard import calibrated, decide_signals
from ._metrics import ALL
from ._summary import PUBLISHED, SITUATIONS, UniKnowSummary, shown_method
from ._texts import CONTENT, TEXTS
from .plan import UniKnowRun

_TITLES = {situation["name"]: situation["title"] for situation in SITUATIONS}
_LETTERED = {one["name"]: f"{one['title']} ({one['letter']})" for one in SITUATIONS}
_MEAN = "Mean of the four"


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


# Heading, scenario or `all`, share, and which way is better.
_Column = tuple[str, str, str, int]


def _table(
    methods: Mapping[str, Mapping[Any, Any]],
    columns: Iterable[_Column],
    notes: tuple[Text, ...] = (),
) -> Table:
    """Make a table of shares, a line per method."""
    cells = []
    for heading, scenario, share, better in columns:
        shares = [found[scenario][share] for found in methods.values()]
        text = decimal if share == "rely" else percent
        cells.append((heading, Cell.column(shares, text, better=better)))
    return Table.from_columns("Method", list(methods), cells, notes=notes)


def _differences(summary: UniKnowSummary) -> Table:
    """Make the table of guard minus base, on the same cases."""
    found = [intervals for _, intervals in summary.differences.values()]
    signed = partial(decimal, digits=3, signed=True)
    columns = [("Rely", [Cell.difference(one["rely"], signed) for one in found])]
    for name, title in {ALL: _MEAN, **_TITLES}.items():
        columns.append((title, [Cell.difference(one[f"em_{name}"]) for one in found]))
    names = [f"{method} \N{MINUS SIGN} {base}" for method, base in summary.differences]
    notes = (*TEXTS.terms("differences"), *explained("clear"))
    return Table.from_columns("Compared", names, columns, notes=notes)


def _published(summary: UniKnowSummary) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""

    def column(scenario: str, share: str = "em") -> Iterator[Cell]:
        text = decimal if share == "rely" else percent
        for name, found in PUBLISHED.items():
            value = found["em"][scenario] if share == "em" else found["rely_nq"]
            own = summary.methods[name][scenario][share].value if name in summary.methods else None
            yield Cell(text(value), "" if own is None else f"here {text(own)}")

    columns = [(title, list(column(name))) for name, title in {**_TITLES, ALL: _MEAN}.items()]
    columns.append(("Rely", list(column(ALL, "rely"))))
    return Table.from_columns("Method", list(PUBLISHED), columns)


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
        sections=list(_sections(summary)),
        values=summary.to_dict(),
    )


def _sections(summary: UniKnowSummary) -> Iterator[Section | None]:
    shown = {name: found for name, found in summary.methods.items() if found[ALL].cases}
    yield _tested(summary)
    wanted = [(title, name, "em", 1) for name, title in _LETTERED.items()]
    wanted += [(f"{_MEAN} (All)", ALL, "em", 1), ("Both agree (not scored)", "agreement", "em", 0)]
    notes = (*TEXTS.terms("situations"), *explained("intervals", "best"))
    meanings = tuple((name, meaning) for name in shown if (meaning := shown_method(name)[1]))
    methods = Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None
    blocks = (_situations_plot(shown), _table(shown, wanted, notes), methods)
    yield Section("What each method did in each situation", blocks)
    overall = [("Rely", ALL, "rely", 1), ("Acc", ALL, "acc", 1), ("Truth", ALL, "truth", 1)]
    overall.append(("Ans", ALL, "ans", 0))
    notes = explained("acc", "truth", "ans", "rely")
    yield Section("Reliability", (_table(shown, overall, notes),))
    errors = [(title, ALL, name, -1) for name, title in CONTENT["errors"].items()]
    kinds = explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention")
    notes = (*TEXTS.terms("errors"), *kinds, *TEXTS.terms("other_errors"))
    yield Section("What went wrong", (_table(shown, errors, notes),))
    if summary.differences:
        yield Section("The guard against what it guards", (_differences(summary),))
    if what_if := uniknow_what_if(summary.run):
        yield Section("What if the guard’s thresholds were others?", (what_if,))
    yield _ablations(summary)
    yield _beyond(summary)
    yield READ_REPLIES
    yield _failures(summary)
    published = TEXTS.paragraphs("published", CONTENT["published"]["model"])
    yield Section("What the paper published", (*published, _published(summary)))
    manifest = summary.run.manifest
    yield Section.of_run(manifest.settings, manifest.inputs, manifest.created_by)


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
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = CONTENT["kinds"][kind]
        shown = {name: {kind: one} for name, one in by_method.items() if name in summary.methods}
        columns = [("As wanted", kind, "wanted", 1), ("Right answer", kind, "right", 0)]
        columns.append(("Abstained", kind, "abstained", 0))
        if kind is ContextKind.UNTRUE:
            columns.append(("Misled", kind, "misled", -1))
        parts.append(Section(title, (Prose((meaning,), small=True), _table(shown, columns))))
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
    none = "None: every method replied to every case it was given."
    left_out = tuple(summary.run.manifest.left_out.items())
    aside = ("Not run on this model:", Prose(left_out, bullets=True)) if left_out else ()
    return Section("Failures", (table if failed else none, *aside))
