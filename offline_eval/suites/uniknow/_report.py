"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► UniKnowRun ─► UniKnowSummary ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ....calibration import Interval
from ....guard.decision import Scenario
from ....guard.policy import Policy
from ...report.document import Case, CaseLine, Cases, Document, Passages, Prose, Section
from ...report.prose import explained
from ...report.tables import Cell, Line, Table
from ...report.text import counted, decimal, estimate_text, one_line, percent
from ...report.what_if import WhatIf, WhatIfCase
from ._cases import PAPER_KINDS, ContextKind, UniKnowRow, UniKnowSignal
from ._cases import Case as UniKnowCase
from ._guard import calibrated, decide_signals
from ._matching import is_right
from ._metrics import (
    ERROR_TYPES,
    MethodMetrics,
    Outcome,
    PairedDifference,
    Rates,
    measured,
    outcome_of,
)
from ._plots import (
    abstention_share_plot,
    context_kind_plot,
    outcome_plot,
    rely_plot,
    situation_plot,
)
from ._summary import (
    CONTENT,
    SITUATIONS,
    TEXTS,
    Family,
    UniKnowSummary,
    in_order,
    shown_method,
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
    decided = [
        row
        for row in run.rows
        if row.method == _GUARD
        and not row.error
        and row.context_kind in PAPER_KINDS
        and row.case_key in replies
        and row.case_key in signals
    ]
    if policy is None or not decided:
        return None
    cases = [_case(run, policy, signals[row.case_key], replies[row.case_key]) for row in decided]
    routes = [decide_signals(policy, signals[row.case_key])[1] for row in decided]
    other = sum(route != row.route for route, row in zip(routes, decided, strict=True))
    if other:
        return TEXTS.text("no_what_if", other)
    block = WhatIf(
        cases=tuple(cases),
        policy=policy,
        which=f"Cases of the four situations, of the method {_GUARD}",
        leave_one_out=False,
        replies=True,
        notes=(TEXTS.text("what_if"),),
    )
    return block if block.sliders else None


def _case(run: UniKnowRun, policy: Policy, signal: UniKnowSignal, reply: UniKnowRow) -> WhatIfCase:
    relevance, confidence = calibrated(policy, signal)
    case = run.cases[signal.case_id]
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
    **{situation.name: situation.title for situation in SITUATIONS},
    "agreement": "Both agree",
}


def worst_cases(run: UniKnowRun) -> list[Section]:
    """Choose per kind of context the cases that most methods got wrong; ablations do not vote."""
    rows: dict[str, list[tuple[UniKnowRow, Outcome]]] = {}
    contexts = run.contexts
    for row in measured(run.rows):
        key = row.case_key
        if variant_of(row.method) is None and key in run.cases:
            rows.setdefault(key, []).append((row, outcome_of(row, contexts[key])))
    found = []
    for kind in ContextKind:
        of_kind = {key: own for key, own in rows.items() if own[0][0].context_kind == kind}
        wrong = {key: count for key, own in of_kind.items() if (count := _wrong(own))}
        chosen = sorted(wrong, key=lambda key: (-wrong[key], key))[:_SHOWN]
        if chosen:
            title, meaning = CONTENT["kinds"][kind]
            cases = tuple(_shown(key, run.cases[key], of_kind[key]) for key in chosen)
            title = f"{title}: {len(cases)} of {len(wrong)} that some method got wrong"
            found.append(Section(title, (meaning, Cases(cases)), folded=True))
    return found


def _wrong(rows: Sequence[tuple[UniKnowRow, Outcome]]) -> int:
    return sum(outcome in ERROR_TYPES for _, outcome in rows)


def _shown(key: str, case: UniKnowCase, rows: Sequence[tuple[UniKnowRow, Outcome]]) -> Case:
    scenario = rows[0][0].scenario
    grouped: dict[tuple[str, Outcome], list[str]] = {}
    for row, outcome in rows:
        text = one_line(row.answer or "", _REPLY_LIMIT)
        grouped.setdefault((text, outcome), []).append(row.method)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    situation = _TITLES.get(scenario or "", "Not settled whether the model knows it")
    passages = tuple(CaseLine(one_line(passage, _PASSAGE_LIMIT)) for passage in case.passages)
    replies = (
        CaseLine(
            text or "(no answer)",
            tag=CONTENT["outcomes"][outcome][0],
            wrong=outcome in ERROR_TYPES,
            note=", ".join(in_order(methods)),
        )
        for (text, outcome), methods in ordered
    )
    return Case(
        question=one_line(case.question, _QUESTION_LIMIT),
        note=f"{key} · {situation}",
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


def situation_table(methods: _Methods) -> Table:
    """Make the table of exact match by situation."""
    columns = [*_situations(methods, "{0.title} ({0.letter})")]
    columns.append(("Mean of the four (All)", _em(methods, "all")))
    columns.append(("Both agree (not scored)", _em(methods, "agreement", better=0)))
    notes = (*TEXTS.terms("situations"), *explained("intervals", "best"))
    return Table.from_columns("Method", list(methods), columns, notes=notes)


def overall_table(methods: _Methods) -> Table:
    """Make the table of Rely and its parts."""
    columns = [
        ("Rely", _overall(methods, "rely", decimal)),
        ("Acc", _overall(methods, "acc")),
        ("Truth", _overall(methods, "truth")),
        ("Ans", _overall(methods, "ans", better=0)),
    ]
    notes = explained("acc", "truth", "ans", "rely")
    return Table.from_columns("Method", list(methods), columns, notes=notes)


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


def ablation_table(summary: UniKnowSummary) -> Table:
    """Make the table of the variants of trained methods."""
    variants = {name: found for name, found in summary.methods.items() if name not in summary.main}
    bases = {name.partition("@")[0] for name in variants}
    shown = {name: found for name, found in summary.main.items() if name in bases} | variants
    columns = [("Rely", _overall(shown, "rely", decimal)), *_situations(shown, "{0.title}")]
    return Table.from_columns("Method", list(shown), columns)


def beyond_table(by_method: Mapping[str, Rates], kind: ContextKind) -> Table:
    """Make the table of one kind of context beyond the paper."""
    rates = list(by_method.values())
    columns = [
        ("As wanted", Cell.column([one["wanted"] for one in rates], better=1)),
        ("Right answer", Cell.column([one["right"] for one in rates])),
        ("Abstained", Cell.column([one["abstained"] for one in rates])),
    ]
    if kind is ContextKind.UNTRUE:
        columns.append(("Misled", Cell.column([one["misled"] for one in rates], better=-1)))
    return Table.from_columns("Method", list(by_method), columns)


def difference_table(differences: Sequence[PairedDifference]) -> Table:
    """Make the table of guard minus base, on the same cases."""
    names = ["em_all", *(f"em_{situation.name}" for situation in SITUATIONS)]
    headings = ("Rely", "Mean of the four", *(situation.title for situation in SITUATIONS))

    def rely(value: float) -> str:
        return decimal(value, 3, signed=True)

    lines = tuple(
        Line(
            f"{found.method} \N{MINUS SIGN} {found.base}",
            (
                Cell.difference(found.metrics["rely"], rely),
                *(Cell.difference(found.metrics[name]) for name in names),
            ),
        )
        for found in differences
    )
    notes = (*TEXTS.terms("differences"), *explained("clear"))
    return Table("Compared", headings, lines, notes=notes)


def published_table(methods: _Methods) -> Table:
    """Make the table of the published numbers, with those of this run beneath."""
    columns = (*(situation.name for situation in SITUATIONS), "all")
    headings = (*(situation.title for situation in SITUATIONS), "Mean of the four", "Rely")

    def here(interval: Interval | None, text: Callable[[float], str]) -> str:
        return "" if interval is None or interval.value is None else f"here {text(interval.value)}"

    lines = []
    for name, published in CONTENT["published"]["methods"].items():
        own = methods.get(name)
        cells = [
            Cell(
                percent(published["em"][column]),
                here(own.scenarios[column]["em"] if own else None, percent),
            )
            for column in columns
        ]
        rely = Cell(
            decimal(published.get("rely_nq")), here(own.overall["rely"] if own else None, decimal)
        )
        lines.append(Line(name, (*cells, rely)))
    return Table("Method", headings, tuple(lines))


def _situations(methods: _Methods, heading: str) -> list[tuple[str, list[Cell]]]:
    return [(heading.format(one), _em(methods, one.name)) for one in SITUATIONS]


def _em(methods: _Methods, scenario: str, *, better: int = 1) -> list[Cell]:
    found = [one.scenarios[scenario]["em"] for one in methods.values()]
    return Cell.column(found, better=better)


def _overall(
    methods: _Methods, name: str, text: Callable[[float], str] = percent, *, better: int = 1
) -> list[Cell]:
    return Cell.column([one.overall[name] for one in methods.values()], text, better=better)


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
    found = [one.metrics for one in summary.differences if (one.method, one.base) == (guard, base)]
    losses = [
        (situation.title, -100 * difference.value)
        for metrics in found
        for situation in SITUATIONS
        for difference in [metrics[f"em_{situation.name}"]]
        if difference.value is not None and difference.high is not None and difference.high < 0
    ]
    return TEXTS.text("guarded", base, ours, theirs, losses)


def _against_trained(summary: UniKnowSummary) -> str:
    compared = [
        (rely.value, found.base, rely)
        for found in summary.differences
        if found.method == _GUARD and shown_method(found.base)[0] is Family.TRAINED
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
        one.title: [method.scenarios[one.name] for method in summary.main.values()]
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
    manifest, differences = summary.run.manifest, summary.differences
    worst, what_if = worst_cases(summary.run), uniknow_what_if(summary.run)
    return [
        _tested(summary),
        Section(
            "What each method did in each situation",
            (situation_plot(measured), situation_table(measured), _methods(measured)),
        ),
        Section("Reliability", (rely_plot(measured), overall_table(measured))),
        Section("What went wrong", (outcome_plot(measured), error_table(measured))),
        Section("The guard against what it guards", (difference_table(differences),))
        if differences
        else None,
        Section("What if the guard’s thresholds were others?", (what_if,)) if what_if else None,
        _ablations(summary),
        _beyond(summary),
        Section(
            "Cases worth reading",
            (*TEXTS.paragraphs("worst"), *worst) if worst else ("No method got any case wrong.",),
        ),
        _failures(summary),
        Section(
            "What the paper published",
            (
                *TEXTS.paragraphs("published", CONTENT["published"]["model"]),
                published_table(summary.main),
            ),
        ),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _tested(summary: UniKnowSummary) -> Section:
    def most(name: str, what: str) -> int:
        counts = [getattr(found.scenarios[name], what) for found in summary.main.values()]
        return max(counts, default=0)

    situations = Table.of_text(
        ("Situation", "What is the case", "What is wanted", "Questions", "Cases"),
        [
            (
                f"{one.title} ({one.letter})",
                one.what,
                one.wanted,
                most(one.name, "questions"),
                most(one.name, "cases"),
            )
            for one in SITUATIONS
        ],
    )
    knows = TEXTS.text("tested", **summary.knowledge, questions=summary.questions)
    blocks = (TEXTS.text("sources"), situations, knows, TEXTS.text("right"))
    return Section("What was tested", blocks)


def _methods(methods: Mapping[str, MethodMetrics]) -> Section | None:
    meanings = tuple((name, meaning) for name in methods if (meaning := shown_method(name)[1]))
    return Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None


def _ablations(summary: UniKnowSummary) -> Section | None:
    if len(summary.main) == len(summary.methods):
        return None
    return Section(
        "What the training needs",
        (
            abstention_share_plot(summary.ablations[0]),
            context_kind_plot(summary.ablations[1]),
            ablation_table(summary),
            Prose(TEXTS.terms("ablations", CONTENT["published"]), small=True),
        ),
    )


def _beyond(summary: UniKnowSummary) -> Section | None:
    if not summary.beyond:
        return None
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = CONTENT["kinds"][kind]
        shown = {name: found for name, found in by_method.items() if variant_of(name) is None}
        parts.append(Section(title, (Prose((meaning,), small=True), beyond_table(shown, kind))))
    return Section("More than one passage, and untrue ones", (*TEXTS.paragraphs("beyond"), *parts))


def _failures(summary: UniKnowSummary) -> Section:
    failed = [
        (method, kind, count)
        for method, types in summary.failures.items()
        for kind, count in types.items()
    ]
    if failed:
        table = Table.of_text(
            ("Method", "Type of error", "Replies"),
            failed,
            notes=("They count in no number of this report.",),
        )
    left_out = tuple(summary.run.manifest.left_out.items())
    return Section(
        "Failures",
        (
            table if failed else "None: every method replied to every case it was given.",
            "Not run on this model:" if left_out else None,
            Prose(left_out, bullets=True) if left_out else None,
        ),
    )
