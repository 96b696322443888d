"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from ....calibration import Interval
from ....guard.decision import Scenario
from ....guard.policy import Policy
from ...report.document import Block, Case, CaseLine, Cases, Document, Passages, Prose, Section
from ...report.prose import explained
from ...report.tables import Cell, Line, Table
from ...report.text import counted, decimal, estimate_text, one_line, percent
from ...report.what_if import WhatIf, WhatIfCase
from ...run.grouping import grouped
from ._cases import PAPER_KINDS, ContextKind, UniKnowRow, UniKnowSignal
from ._cases import Case as UniKnowCase
from ._guard import calibrated, decide_signals
from ._matching import is_right
from ._metrics import ERROR_TYPES, MethodMetrics, Outcome, measured, outcome_of
from ._summary import (
    CONTENT,
    SITUATIONS,
    TEXTS,
    UniKnowSummary,
    in_order,
    outcome_plot,
    rely_plot,
    shown_method,
    situation_plot,
    variant_of,
)
from .plan import UniKnowRun

_GUARD, _BASE = "guard_naive", "naive"


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    policy = run.policy
    replies = {row.case_key: row for row in run.rows if row.method == _BASE and not row.error}
    signals = {one.case_id: one for one in run.signals}
    found, other = [], 0
    for row in run.rows if policy is not None else ():
        reply, signal = replies.get(row.case_key), signals.get(row.case_key)
        guarded = row.method == _GUARD and not row.error and row.context_kind in PAPER_KINDS
        if guarded and reply is not None and signal is not None:
            assert policy is not None
            found.append(_what_if_case(run.cases[row.case_key], policy, signal, reply))
            other += decide_signals(policy, signal)[1] != row.route
    if policy is None or not found:
        return None
    if other:
        return TEXTS.text("no_what_if", other)
    block = WhatIf(
        cases=tuple(found),
        policy=policy,
        which=f"Cases of the four situations, of the method {_GUARD}",
        leave_one_out=False,
        replies=True,
        notes=(TEXTS.text("what_if"),),
    )
    return block if block.sliders else None


def _what_if_case(
    case: UniKnowCase, policy: Policy, signal: UniKnowSignal, reply: UniKnowRow
) -> WhatIfCase:
    relevance, confidence = calibrated(policy, signal)
    context: Literal["right", "wrong", "abstained"] = "right" if reply.right else "wrong"
    from_memory = is_right((signal.closed_book or "").strip(), case.expected)
    return WhatIfCase(
        name=signal.case_id,
        question=case.question,
        relevance=relevance,
        confidence=confidence,
        context_right=signal.holds_answer,
        memory_right=bool(signal.closed_book_right),
        context_reply="abstained" if reply.abstained else context,
        memory_reply="right" if from_memory else "wrong",
    )


_SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
_TITLES = {
    **{situation["name"]: situation["title"] for situation in SITUATIONS},
    "agreement": "Both agree",
}


_Judged = Sequence[tuple[UniKnowRow, Outcome]]


def worst_cases(run: UniKnowRun) -> list[Section]:
    """Choose per kind of context the cases that most methods got wrong; ablations do not vote."""
    votes = (row for row in measured(run.rows) if variant_of(row.method) is None)
    by_case = grouped(votes, lambda row: row.case_key)
    found = []
    for kind in ContextKind:
        wrong: dict[str, tuple[int, _Judged]] = {}
        for key, rows in by_case.items():
            if rows[0].context_kind is kind:
                judged = [(row, outcome_of(row, run.cases[key].context)) for row in rows]
                wrong[key] = sum(outcome in ERROR_TYPES for _, outcome in judged), judged
        number = sum(count > 0 for count, _ in wrong.values())
        chosen = sorted(wrong, key=lambda key: (-wrong[key][0], key))[: min(_SHOWN, number)]
        if chosen:
            title, meaning = CONTENT["kinds"][kind]
            cases = Cases(tuple(_shown(run.cases[key], wrong[key][1]) for key in chosen))
            title = f"{title}: {len(chosen)} of {number} that some method got wrong"
            found.append(Section(title, (meaning, cases), folded=True))
    return found


def _shown(case: UniKnowCase, judged: _Judged) -> Case:
    alike = grouped(judged, lambda one: (one_line(one[0].answer or "", _REPLY_LIMIT), one[1]))
    ordered = sorted(alike.items(), key=lambda item: (-len(item[1]), item[0]))
    scenario = judged[0][0].scenario
    situation = _TITLES.get(scenario or "", "Not settled whether the model knows it")
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
        parts=(
            CaseLine(_wanted(case, scenario), "Wanted", right=True),
            Passages(passages),
            *replies,
        ),
    )


def _wanted(case: UniKnowCase, scenario: str | None) -> str:
    if scenario == Scenario.UNKNOWN:
        return f"to abstain (the answer would be: {_answers(case.answers)})"
    return _answers(case.context_answers or case.answers)


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(one_line(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest


_Methods = Mapping[str, MethodMetrics]
_Columns = list[tuple[str, list[Cell]]]


def _em(methods: _Methods, heading: str) -> _Columns:
    """Return the columns of exact match by situation."""
    return [
        (heading.format(**one), Cell.column(_scores(methods, one["name"]), better=1))
        for one in SITUATIONS
    ]


def _scores(methods: _Methods, scenario: str) -> list[Interval]:
    return [one.scenarios[scenario]["em"] for one in methods.values()]


def _rely(methods: _Methods) -> tuple[str, list[Cell]]:
    rely = [one.overall["rely"] for one in methods.values()]
    return "Rely", Cell.column(rely, decimal, better=1)


def situation_table(methods: _Methods) -> Table:
    """Make the table of exact match by situation."""
    columns = [
        *_em(methods, "{title} ({letter})"),
        ("Mean of the four (All)", Cell.column(_scores(methods, "all"), better=1)),
        ("Both agree (not scored)", Cell.column(_scores(methods, "agreement"))),
    ]
    notes = (*TEXTS.terms("situations"), *explained("intervals", "best"))
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def overall_table(methods: _Methods) -> Table:
    """Make the table of Rely and its parts."""
    parts = [
        (name.capitalize(), Cell.column([one.overall[name] for one in methods.values()], better=by))
        for name, by in (("acc", 1), ("truth", 1), ("ans", 0))
    ]
    notes = explained("acc", "truth", "ans", "rely")
    return Table.from_columns("Method", list(methods), [_rely(methods), *parts], notes=notes)


def error_table(methods: _Methods) -> Table:
    """Make the table of errors by type."""
    columns = [
        (title, Cell.column([found.errors[name] for found in methods.values()], better=-1))
        for name, title in CONTENT["errors"].items()
    ]
    notes = (
        *TEXTS.terms("errors"),
        *explained("context_used_wrongly", "memory_used_wrongly", "needless_abstention"),
        *TEXTS.terms("other_errors"),
    )
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def difference_table(summary: UniKnowSummary) -> Table:
    """Make the table of guard minus base, on the same cases."""
    names = ["em_all", *(f"em_{situation['name']}" for situation in SITUATIONS)]
    headings = ("Rely", "Mean of the four", *(situation["title"] for situation in SITUATIONS))
    lines = tuple(
        Line(
            f"{found.method} \N{MINUS SIGN} {found.base}",
            (
                Cell.difference(found.metrics["rely"], partial(decimal, digits=3, signed=True)),
                *(Cell.difference(found.metrics[name]) for name in names),
            ),
        )
        for found in summary.differences
    )
    notes = (*TEXTS.terms("differences"), *explained("clear"))
    return Table("Compared", headings, lines, notes=notes)


def published_table(methods: _Methods) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""
    columns = [*((one["name"], one["title"]) for one in SITUATIONS), ("all", "Mean of the four")]

    def cell(value: float | None, own: Interval | None, text: Callable[..., str]) -> Cell:
        here = None if own is None else own.value
        return Cell(text(value), "" if here is None else f"here {text(here)}")

    lines = []
    for name, published in CONTENT["published"]["methods"].items():
        own = methods.get(name)
        cells = [
            cell(published["em"][column], own.scenarios[column]["em"] if own else None, percent)
            for column, _ in columns
        ]
        rely = cell(published.get("rely_nq"), own.overall["rely"] if own else None, decimal)
        lines.append(Line(name, (*cells, rely)))
    return Table("Method", (*(title for _, title in columns), "Rely"), tuple(lines))


# Share of a method's replies that may have failed for it still to be compared.
_MOST_FAILED = 0.05


def headline(summary: UniKnowSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    shut = summary.promise is not None and not summary.promise.certified
    lines = [_best(summary, shut=shut)]
    if not shut:
        lines += [_guarded(summary, f"guard_{base}", base) for base in ("naive", "coiecd")]
        lines.append(_against_trained(summary))
    return [line for line in lines if line]


def _best(summary: UniKnowSummary, *, shut: bool) -> str:
    """Name the method with the highest Rely, guards that always abstain left out."""
    rely = {
        name: found.overall["rely"]
        for name, found in summary.main.items()
        if found.overall["rely"].value is not None
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
    losses = [
        (situation["title"], -100 * difference.value)
        for found in summary.differences
        if (found.method, found.base) == (guard, base)
        for situation in SITUATIONS
        for difference in [found.metrics[f"em_{situation['name']}"]]
        if difference.value is not None and difference.high is not None and difference.high < 0
    ]
    return TEXTS.text("guarded", base, ours, theirs, losses)


def _against_trained(summary: UniKnowSummary) -> str:
    compared = [
        (rely.value, found.base, rely)
        for found in summary.differences
        if found.method == _GUARD and shown_method(found.base)[0] == "fine-tuned"
        for rely in [found.metrics["rely"]]
        if rely.value is not None
    ]
    if not compared:
        return ""
    # The smallest difference belongs to the best of the trained methods.
    _, base, rely = min(compared, key=lambda item: item[:2])
    return TEXTS.text("against_trained", base, rely)


def warnings(summary: UniKnowSummary) -> list[str]:
    """Write what a reader must know before trusting the numbers; often nothing."""
    asked = Counter(row.method for row in summary.run.rows)
    found = {
        one["title"]: [method.scenarios[one["name"]] for method in summary.main.values()]
        for one in SITUATIONS
    }
    sizes = [rate.questions for rates in found.values() for rate in rates if rate.questions]
    return TEXTS.paragraphs(
        "warnings",
        summary,
        failed=sum(sum(types.values()) for types in summary.failures.values()),
        asked={asked[name] for name in summary.main},
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
    measured = {name: found for name, found in summary.main.items() if found.overall.cases}
    meanings = tuple((name, meaning) for name in measured if (meaning := shown_method(name)[1]))
    methods = Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None
    what_if = uniknow_what_if(summary.run)
    worst: tuple[Block, ...] = (*TEXTS.paragraphs("worst"), *worst_cases(summary.run))
    published, manifest = CONTENT["published"]["model"], summary.run.manifest
    return [
        _tested(summary),
        Section(
            "What each method did in each situation",
            (situation_plot(measured), situation_table(measured), methods),
        ),
        Section("Reliability", (rely_plot(measured), overall_table(measured))),
        Section("What went wrong", (outcome_plot(measured), error_table(measured))),
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
    columns = [_rely(shown), *_em(shown, "{title}")]
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
        shown = {name: found for name, found in by_method.items() if variant_of(name) is None}
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
