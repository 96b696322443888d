"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ....calibration import Interval
from ....guard.decision import Scenario
from ...report.document import Block, Case, CaseLine, Cases, Document, Passages, Prose, Section
from ...report.prose import explained
from ...report.tables import Cell, Line, Table
from ...report.text import counted, decimal, estimate_text, one_line, percent
from ...report.what_if import WhatIf, WhatIfCase
from ...run.grouping import grouped
from ._cases import PAPER_KINDS, ContextKind, UniKnowRow
from ._cases import Case as UniKnowCase
from ._guard import calibrated, decide_signals
from ._matching import is_right
from ._metrics import ERROR_TYPES, Outcome, measured, outcome_of
from ._summary import (
    CONTENT,
    PUBLISHED,
    SITUATIONS,
    TEXTS,
    Methods,
    UniKnowSummary,
    in_order,
    plots,
    shown_method,
)
from .plan import UniKnowRun

_GUARD, _BASE = "guard_naive", "naive"


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
            name=signal.case_id,
            question=case.question,
            relevance=relevance,
            confidence=confidence,
            context_right=signal.holds_answer,
            memory_right=bool(signal.closed_book_right),
            context_reply="abstained" if reply.abstained else "right" if reply.right else "wrong",
            memory_reply="right" if remembered else "wrong",
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
    return block if block.sliders else None


_SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
_TITLES = {situation["name"]: situation["title"] for situation in SITUATIONS}
_TITLES["agreement"] = "Both agree"
_Judged = Sequence[tuple[UniKnowRow, Outcome]]


def worst_cases(run: UniKnowRun) -> list[Section]:
    """Choose per kind of context the cases that most methods got wrong; ablations do not vote."""
    votes = (
        (row, outcome_of(row, run.cases[row.case_key].context))
        for row in measured(run.rows)
        if "@" not in row.method
    )
    by_case = grouped(votes, lambda vote: vote[0].case_key)
    wrong = {key: sum(one in ERROR_TYPES for _, one in judged) for key, judged in by_case.items()}
    found = []
    for kind in ContextKind:
        own = [key for key in wrong if wrong[key] and run.cases[key].context_kind is kind]
        chosen = sorted(own, key=lambda key: (-wrong[key], key))[:_SHOWN]
        if chosen:
            title, meaning = CONTENT["kinds"][kind]
            cases = Cases(tuple(_shown(run.cases[key], by_case[key]) for key in chosen))
            title = f"{title}: {len(chosen)} of {len(own)} that some method got wrong"
            found.append(Section(title, (meaning, cases), folded=True))
    return found


def _shown(case: UniKnowCase, judged: _Judged) -> Case:
    alike = grouped(judged, lambda one: (one_line(one[0].answer or "", _REPLY_LIMIT), one[1]))
    ordered = sorted(alike.items(), key=lambda item: (-len(item[1]), item[0]))
    scenario = judged[0][0].scenario
    situation = _TITLES.get(scenario or "", "Not settled whether the model knows it")
    wanted = _answers(case.expected)
    if scenario == Scenario.UNKNOWN:
        wanted = f"to abstain (the answer would be: {_answers(case.answers)})"
    replies = (
        CaseLine(
            text or "(no answer)",
            tag=CONTENT["outcomes"][outcome][0],
            wrong=outcome in ERROR_TYPES,
            note=", ".join(in_order(row.method for row, _ in some)),
        )
        for (text, outcome), some in ordered
    )
    passages = tuple(CaseLine(one_line(passage, _PASSAGE_LIMIT)) for passage in case.passages)
    return Case(
        question=one_line(case.question, _QUESTION_LIMIT),
        note=f"{case.case_id} · {situation}",
        parts=(CaseLine(wanted, "Wanted", right=True), Passages(passages), *replies),
    )


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(one_line(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest


_Column = tuple[str, list[Cell]]


def _em(methods: Methods, scenario: str, heading: str, better: int = 1) -> _Column:
    """Return the column of exact match in a situation."""
    shares = [one.scenarios[scenario]["em"] for one in methods.values()]
    return heading, Cell.column(shares, better=better)


def _overall(
    methods: Methods, name: str, heading: str, better: int, text: Callable[[float], str] = percent
) -> _Column:
    """Return the column of a share over all scored cases."""
    return heading, Cell.column(
        [one.overall[name] for one in methods.values()], text, better=better
    )


def situation_table(methods: Methods) -> Table:
    """Make the table of exact match by situation."""
    columns = [
        *(_em(methods, one["name"], f"{one['title']} ({one['letter']})") for one in SITUATIONS),
        _em(methods, "all", "Mean of the four (All)"),
        _em(methods, "agreement", "Both agree (not scored)", better=0),
    ]
    notes = (*TEXTS.terms("situations"), *explained("intervals", "best"))
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def overall_table(methods: Methods) -> Table:
    """Make the table of Rely and its parts."""
    columns = [
        _overall(methods, "rely", "Rely", 1, decimal),
        _overall(methods, "acc", "Acc", 1),
        _overall(methods, "truth", "Truth", 1),
        _overall(methods, "ans", "Ans", 0),
    ]
    notes = explained("acc", "truth", "ans", "rely")
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def error_table(methods: Methods) -> Table:
    """Make the table of errors by type."""
    columns = [_overall(methods, name, title, -1) for name, title in CONTENT["errors"].items()]
    notes = (
        *TEXTS.terms("errors"),
        *explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention"),
        *TEXTS.terms("other_errors"),
    )
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def difference_table(summary: UniKnowSummary) -> Table:
    """Make the table of guard minus base, on the same cases."""
    names = {"em_all": "Mean of the four"}
    names |= {f"em_{situation['name']}": situation["title"] for situation in SITUATIONS}
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
    columns = {**{one["name"]: one["title"] for one in SITUATIONS}, "all": "Mean of the four"}

    def cell(value: float | None, own: Interval | None, text: Callable[..., str]) -> Cell:
        here = None if own is None else own.value
        return Cell(text(value), "" if here is None else f"here {text(here)}")

    lines = []
    for name, published in PUBLISHED.items():
        own = methods.get(name)
        cells = [
            cell(published["em"][column], own.scenarios[column]["em"] if own else None, percent)
            for column in columns
        ]
        rely = cell(published["rely_nq"], own.overall["rely"] if own else None, decimal)
        lines.append(Line(name, (*cells, rely)))
    return Table("Method", (*columns.values(), "Rely"), tuple(lines))


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
        name: found.overall["rely"]
        for name, found in summary.main.items()
        if found.overall.cases
        and found.failed <= _MOST_FAILED * (found.failed + found.overall.cases)
        and not (shut and name.startswith("guard_"))
    }
    if not rely:
        return TEXTS.text("best", None, None, None)
    best = min(rely, key=lambda name: (-(rely[name].value or 0.0), name))
    naive = summary.main.get("naive")
    beside = None if naive is None or best == "naive" else naive.overall["rely"].value
    return TEXTS.text("best", best, estimate_text(rely[best], decimal), beside)


def _guarded(summary: UniKnowSummary, guard: str, base: str) -> str:
    """Say what a guard changes, and where it is clearly worse than what it guards."""
    if guard not in summary.main or base not in summary.main:
        return ""
    ours, theirs = (
        {name: rates["em"].value for name, rates in summary.main[method].scenarios.items()}
        for method in (guard, base)
    )
    _, found = summary.differences.get((guard, base), (0, {}))
    losses = [
        (one["title"], -100 * difference.value)
        for one in SITUATIONS
        if (difference := found.get(f"em_{one['name']}", Interval())).value is not None
        and (difference.high or 0.0) < 0
    ]
    return TEXTS.text("guarded", base, ours, theirs, losses)


def warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    asked = grouped(summary.run.rows, lambda row: row.method)
    found = {
        one["title"]: [method.scenarios[one["name"]] for method in summary.main.values()]
        for one in SITUATIONS
    }
    sizes = [rate.questions for rates in found.values() for rate in rates if rate.questions]
    return TEXTS.paragraphs(
        "warnings",
        summary,
        failed=sum(sum(types.values()) for types in summary.failures.values()),
        asked={len(asked[name]) for name in summary.main},
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
            f"{counted(len(summary.main), 'method')} · UniKnow suite"
        ),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
        systems={name: found.to_dict() for name, found in summary.methods.items()},
    )


def _sections(summary: UniKnowSummary) -> list[Section | None]:
    shown = {name: found for name, found in summary.main.items() if found.overall.cases}
    meanings = tuple((name, meaning) for name in shown if (meaning := shown_method(name)[1]))
    methods = Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None
    drawn: Mapping[str, Any] = plots(shown)
    what_if = uniknow_what_if(summary.run)
    worst: tuple[Block, ...] = (*TEXTS.paragraphs("worst"), *worst_cases(summary.run))
    published, manifest = CONTENT["published"]["model"], summary.run.manifest
    return [
        _tested(summary),
        Section(
            "What each method did in each situation",
            (drawn.get("situations"), situation_table(shown), methods),
        ),
        Section("Reliability", (drawn.get("acc-rely"), overall_table(shown))),
        Section("What went wrong", (drawn.get("outcomes"), error_table(shown))),
        Section("The guard against what it guards", (difference_table(summary),))
        if summary.differences
        else None,
        Section("What if the guard’s thresholds were others?", (what_if,)) if what_if else None,
        _ablations(summary),
        _beyond(summary),
        Section(
            "Cases worth reading",
            worst if len(worst) > 1 else ("No method got any case wrong.",),
        ),
        _failures(summary),
        Section(
            "What the paper published",
            (*TEXTS.paragraphs("published", published), published_table(summary.main)),
        ),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _tested(summary: UniKnowSummary) -> Section:
    lines = []
    for one in SITUATIONS:
        found = [method.scenarios[one["name"]] for method in summary.main.values()]
        questions = max((shares.questions for shares in found), default=0)
        cases = max((shares.cases for shares in found), default=0)
        title = f"{one['title']} ({one['letter']})"
        lines.append((title, one["what"], one["wanted"], questions, cases))
    headings = ("Situation", "What is the case", "What is wanted", "Questions", "Cases")
    knows = TEXTS.text("tested", **summary.knowledge, questions=summary.questions)
    situations = Table.of_text(headings, lines)
    blocks = (TEXTS.text("sources"), situations, knows, TEXTS.text("right"))
    return Section("What was tested", blocks)


def _ablations(summary: UniKnowSummary) -> Section | None:
    """Show the variants of trained methods, below their usual training."""
    variants = {name: found for name, found in summary.methods.items() if name not in summary.main}
    if not variants:
        return None
    bases = {name.partition("@")[0] for name in variants}
    shown = {name: found for name, found in summary.main.items() if name in bases} | variants
    columns = [_overall(shown, "rely", "Rely", 1, decimal)]
    columns += [_em(shown, one["name"], one["title"]) for one in SITUATIONS]
    notes = Prose(TEXTS.terms("ablations", CONTENT["published"]), small=True)
    table = Table.from_columns("Method", list(shown), columns)
    return Section("What the training needs", (table, notes))


def _beyond(summary: UniKnowSummary) -> Section | None:
    if not summary.beyond:
        return None
    headings = [("wanted", "As wanted", 1), ("right", "Right answer", 0)]
    headings += [("abstained", "Abstained", 0), ("misled", "Misled", -1)]
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = CONTENT["kinds"][kind]
        shown = {name: found for name, found in by_method.items() if "@" not in name}
        columns = [
            (heading, Cell.column([one[name] for one in shown.values()], better=better))
            for name, heading, better in headings
            if name != "misled" or kind is ContextKind.UNTRUE
        ]
        table = Table.from_columns("Method", list(shown), columns)
        parts.append(Section(title, (Prose((meaning,), small=True), table)))
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
