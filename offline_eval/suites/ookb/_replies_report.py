"""The report of a run of replies.

    run folder ─► RepliesSummary ─► replies_document ─► a file per format

Sentences stand in `replies.txt`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...judging.rated import MAIN
from ...report.document import Check, Document, Prose, Section
from ...report.prose import explained
from ...report.tables import Cell, Table
from ...report.text import counted, one_line, p_value, percent
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement
from ...systems.guards import OFF
from ..parts import READ_REPLIES
from ._preparing import WORDS
from ._replies_differences import (
    FACTORS,
    LEVEL,
    LONGEST,
    MEASURES,
    SEPARATOR,
    Difference,
    change,
    distinct,
    measured,
    varying,
)
from ._replies_summary import Counts, RepliesSummary
from ._replies_tables import SPACE, Columns, cost_table, counts_table, label_tables, reply_rows

_GROUP = "knowgate.ookb"
_SHOWN_ELSEWHERE = 10
# Topics with a line, and knowledge bases with a table of their own.
_MAX_TOPICS, _MAX_BASES = 25, 6
# Parts of the report of a single system that are not folded.
_OPEN = frozenset({"What was tested", "Results by system"})
_TITLES = {
    "guard": "The guard against none",
    "model": "Another model",
    "retrieval": "Another retrieval",
    "prompt": "Another prompt",
    "several": "Against the first system",
}
_GLANCE = (
    ("Wrong answers, answer not in KB", False, "wrong_answer_rate", -1),
    ("Abstains, answer not in KB", False, "abstention_rate", 1),
    ("Abstains falsely, answer in KB", True, "false_abstention_rate", -1),
)


def replies_document(summary: RepliesSummary) -> Document:
    """Make the report of a summarised run."""
    bases = [name for name in summary.values["knowledge_bases"] if name]
    return Document(
        name="ookb",
        title=WORDS.text("title", bases),
        subtitle=WORDS.text("subtitle", summary.evidence.run),
        headline=_headline(summary),
        warnings=WORDS.paragraphs("warnings", summary, summary.values, _facts(summary)),
        sections=_sections(summary),
        values=summary.to_dict(),
        rows=lambda: reply_rows(summary.evidence),
        checks=lambda: _checks(summary),
    )


def _headline(summary: RepliesSummary) -> list[str]:
    """Write the sentences on the results, the most important one first."""
    values, differences = summary.values, summary.values["differences"]
    if not summary.evidence.replies:
        return WORDS.paragraphs("nothing", values["errors"])
    runs = grouped((one for one in differences if one["run"]), lambda one: one["run"])
    since = WORDS.paragraphs("since", runs, summary.names)
    if len(values["systems"]) == 1:
        (system,) = values["systems"]
        return [*WORDS.paragraphs("alone", _fair(system), system["held_out"]), *since]
    # Rates over systems with and without a guard say little: what it changes comes first.
    systems = summary.evidence.run.systems
    guards = [
        one for one in differences if one["factor"] == "guard" and systems[one["base"]].guard == OFF
    ]
    said = WORDS.paragraphs("guards", guards, summary.names)
    return [*said, *WORDS.paragraphs("together", values), *since]


def _some(counts: Counts | None) -> Counts | None:
    """Return counts of replies, failed ones included; None where there are none."""
    sides = () if counts is None else (counts, counts["in_kb"])
    return counts if any(one["n"] or one["errors"] for one in sides) else None


def _fair(system: Mapping[str, Any]) -> Counts | None:
    """Return the counts of a system, of unseen questions where some were seen in calibration."""
    return _some(system["held_out"] or system["replies"])


def _named(summary: RepliesSummary) -> dict[str, dict[str, Any]]:
    """Return the numbers of each system by its name in tables."""
    return {summary.names[one["system_id"]]: one for one in summary.values["systems"]}


def _facts(summary: RepliesSummary) -> dict[str, Any]:
    """Collect what warnings rest on besides the numbers."""
    evidence, run = summary.evidence, summary.evidence.run
    cases = run.cases.values()
    with_passage = {case.question_id for case in cases if case.kind is not CaseKind.SYNTHETIC}
    first = {criterion: str(evidence.primary(criterion)) for criterion in MAIN}
    verdicts = [
        (criterion, reply.verdicts[criterion])
        for reply in evidence.replies
        for criterion in MAIN
        if criterion in reply.verdicts
    ]
    stood_in = Counter((c, one.judge) for c, one in verdicts if one.judge != first[c])
    by_first = {c for c, one in verdicts if one.judge == first[c] and one.estimate}
    return {
        "asked": len({case.question_id for case in cases}),
        "seen": len({case.question_id for case in cases if case.held_out is False}),
        "estimated": [criterion for criterion in MAIN if criterion in by_first],
        "stood_in": [(c, first[c], n, judge) for (c, judge), n in sorted(stood_in.items())],
        "elsewhere": len({one.question_id for one in summary.values["left_out_check"] or ()}),
        "with_passage": len(with_passage),
        "passages": len({run.questions[name].own_passage for name in with_passage}),
    }


def _checks(summary: RepliesSummary) -> list[Check]:
    """Check per system and knowledge base that all its replies are there and without error."""
    values, found = summary.values, []
    for one in values["systems"]:
        for base, counts in one["knowledge_bases"].items():
            sides = (counts, counts["in_kb"])
            failed = sum(side["errors"] for side in sides)
            total = failed + sum(side["n"] for side in sides)
            failure = f"{failed} of {total} replies ended in an error" if failed else ""
            group = f"{_GROUP}.{base}" if base else _GROUP
            text = WORDS.text("measured", counts)
            found.append(Check(group, one["system_id"], failure, text))
    if missing := values["replies_missing"]:
        why = f"{missing} of {values['replies_planned']} replies are missing"
        found.append(Check(_GROUP, "the run is finished", why, ""))
    return found


# -- Sections ---------------------------------------------------------------------------


def _sections(summary: RepliesSummary) -> list[Section]:
    manifest = summary.evidence.run.manifest
    small = Prose(explained("intervals", "wilson", "bootstrap"), small=True)
    sections = (
        _tested(summary),
        _results(summary),
        Section("How to read the intervals", (WORDS.text("intervals"), small)),
        _support(summary),
        _differences(summary),
        _criteria(summary),
        _topics(summary.values),
        READ_REPLIES,
        _people(summary),
        _elsewhere(summary),
        _costs(summary),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    )
    found = [section for section in sections if section is not None]
    last = Section.next_steps(WORDS.terms("next_steps", summary.values, summary.evidence))
    # The most important part stays open; the rest is there for those who open it.
    if len(summary.names) < 2 or not summary.evidence.replies:
        return [*(replace(one, folded=one.title not in _OPEN) for one in found), last]
    return [_glance(summary), *(replace(one, folded=True) for one in found), last]


def _heading(summary: RepliesSummary) -> str:
    systems = tuple(summary.evidence.run.systems.values())
    factors = varying(systems) if len(systems) > 1 else ()
    return SEPARATOR.join(factors).capitalize() or "System"


def _glance(summary: RepliesSummary) -> Section:
    """Show a number per question and system."""
    systems = _named(summary)
    counts = [_fair(one) or one["replies"] for one in systems.values()]
    columns: Columns = []
    for heading, in_kb, name, better in _GLANCE:
        rates = [one["in_kb"][name] if in_kb else one[name] for one in counts]
        if any(rate.value is not None for rate in rates):
            cells = Cell.column(rates, better=better)
            columns.append((heading, [replace(cell, under="") for cell in cells]))
    failed = [one["failed"] for one in systems.values()]
    if any(failed):
        columns.append(("Failed replies", list(map(percent, failed))))
    table = Table.from_columns(_heading(summary), list(systems), columns)
    some_seen = any(one["held_out"] for one in systems.values())
    note = Prose((WORDS.text("at_a_glance", some_seen),), small=True)
    return Section("At a glance", (table, note))


def _tested(summary: RepliesSummary) -> Section:
    run = summary.evidence.run
    counts = Counter(case.kind.value for case in run.cases.values())
    lines = [line.split(" :: ") for line in WORDS.paragraphs("kinds")]
    kinds = Table.of_text(
        ("Kind of case", "What is the case", "What is wanted", "Cases"),
        [(*text, counts[kind]) for kind, *text in lines if counts[kind]],
    )
    systems = tuple(run.systems.values())
    alike = [name for name in FACTORS if len(systems) > 1 and name not in varying(systems)]
    shared = {name: one_line(getattr(systems[0], name)) for name in alike}
    said = [f"{name} {value}" for name, value in shared.items() if value]
    judged = WORDS.paragraphs("judged", summary.evidence, said)
    return Section("What was tested", (WORDS.text("tested"), kinds, *judged))


def _results(summary: RepliesSummary) -> Section:
    heading, systems = _heading(summary), _named(summary)
    bases = summary.values["knowledge_bases"]
    given = {"": {name: _some(one["replies"]) for name, one in systems.items()}}
    if 1 < len(bases) <= _MAX_BASES:
        given = {}
        for base, counts in bases.items():
            most = max(counts["questions"], counts["in_kb"]["questions"])
            name = one_line(base, LONGEST) or "Knowledge base without a name"
            of_base = {key: one["knowledge_bases"].get(base) for key, one in systems.items()}
            title = f"{name}: {counted(most, 'question')}"
            # Long names may be alike in what is shown of them.
            given[title if title not in given else f"{title} ({len(given) + 1})"] = of_base
    unseen = {name: _fair(one) for name, one in systems.items() if one["held_out"]}
    if any(unseen.values()):
        given["Without the questions known from the guard’s calibration"] = unseen
    parts = [
        Section(title, (counts_table("Guarded system" if own is unseen else heading, own),))
        for title, own in given.items()
        if any(own.values())
    ]
    terms = explained("abstained_not_in_kb", "right_of_answered", "wrong_of_all", "best")
    return Section("Results by system", (*parts, Prose(terms, small=True)))


def _support(summary: RepliesSummary) -> Section | None:
    """Show per system how many replies its passages do not bear out, and why."""
    shown = {name: one["support"] for name, one in _named(summary).items() if "support" in one}
    rows = list(shown.values())
    kinds = sorted({kind for one in rows for kind in one["found"]})
    columns: Columns = [
        ("Checked", [one["checked"] for one in rows]),
        ("Unsupported", Cell.column([one["unsupported"] for one in rows], better=-1)),
        *((kind.capitalize(), [one["found"].get(kind, 0) for one in rows]) for kind in kinds),
    ]
    table = Table.from_columns("System", list(shown), columns)
    title, said = "Replies that their passages do not bear out", WORDS.text("support")
    return Section(title, (said, table)) if shown else None


def _differences(summary: RepliesSummary) -> Section | None:
    """Show differences in percentage points, a table for each kind of change."""
    compared = [one for one in summary.values["differences"] if measured(one)]
    systems = summary.evidence.run.systems

    def title(found: Difference) -> str:
        if found["factor"] == "guard" and systems[found["base"]].guard != OFF:
            return "Another guard"
        run = found["run"]
        return f"Against the run “{run}”" if run else _TITLES[found["factor"]]

    tables = []
    for name, own in grouped(compared, title).items():
        columns: Columns = [
            (heading, [_difference(one.get(key), key) for one in own])
            for key, (heading, *_) in MEASURES.items()
            if any(key in one for one in own)
        ]
        columns.append(("Cases", [one["pairs"] for one in own]))
        lines = [_compared(one, summary) for one in own]
        tables.append(Section(name, (Table.from_columns("Compared", lines, columns),)))
    tests = sum(len(measured(one)) for one in compared)
    note = Prose((WORDS.text("both_answered"),), small=True)
    said = WORDS.text("differences", tests)
    return Section("Differences", (said, *tables, note)) if compared else None


def _compared(found: Difference, summary: RepliesSummary) -> str:
    base, other, systems = found["base"], found["other"], summary.evidence.run.systems
    if found["factor"] in FACTORS:
        factors = varying(tuple(systems.values()))
        return change(systems[base], systems[other], found["factor"], factors)
    names = [summary.names.get(one, one_line(one, LONGEST)) for one in (base, other)]
    return names[1] if found["run"] and names[0] == names[1] else " → ".join(names)


def _difference(found: Mapping[str, Any] | None, measure: str) -> Cell | None:
    if found is None:
        return None
    cell, p = Cell.difference(found["difference"]), found["p_adjusted"]
    n = "" if measure != "factuality" else f"; n{SPACE}={SPACE}{found['difference'].n}"
    under = f"{cell.under};\np{SPACE}{p_value(p)}{n}"
    return Cell(cell.value, under, "clear" if p is not None and p <= LEVEL else "")


def _criteria(summary: RepliesSummary) -> Section | None:
    """Show how often each outcome of a criterion occurs, a line per system."""
    blocks: list[Section | Prose] = []
    for found in summary.values["criteria"]:
        name = one_line(found["criterion"], LONGEST).replace("_", " ").capitalize()
        judge = one_line(WORDS.text("judge", found["judge"]), LONGEST)
        if found["estimate"] and found["judge"] != Judgement.ESTIMATE:
            judge += " (an offline estimate)"
        rows = {summary.names[system]: counts for system, counts in found["systems"].items()}
        totals = [sum(counts.values()) for counts in rows.values()]
        of = list(zip(rows.values(), totals, strict=True))
        columns: Columns = [
            (
                one_line(outcome, LONGEST).replace("_", " "),
                [Cell(str(counts[outcome]), percent(counts[outcome] / n)) for counts, n in of],
            )
            for outcome in next(iter(rows.values()), {})
        ]
        table = Table.from_columns("System", list(rows), [*columns, ("Judged", totals)])
        blocks.append(Section(f"{name}, judged by {judge}", (table,)))
    if any(found["criterion"] == Judgement.FAILURE for found in summary.values["criteria"]):
        blocks.append(Prose((WORDS.text("failures"),), small=True))
    return Section("How answers go wrong", tuple(blocks)) if blocks else None


def _topics(values: Mapping[str, Any]) -> Section | None:
    shown, more = values["topics"][:_MAX_TOPICS], len(values["topics"]) - _MAX_TOPICS
    counts = {f"{one['topic']} ({one['questions']})": one["replies"] for one in shown}
    table = counts_table("Topic (questions)", counts, best=False)
    note = WORDS.text("topics", values["pooled"], values["topics_by"], more)
    return Section("By topic", (table, Prose((note,), small=True))) if shown else None


def _people(summary: RepliesSummary) -> Section:
    blocks: list[Section] = []
    judges, labels = summary.values["replies"]["judges"], summary.values["labels"]
    if len(judges) > 1:
        words = {name: WORDS.text("judge", name) for name in judges}
        lines = [name if name == said else f"{name}: {said}" for name, said in words.items()]
        counts = dict(zip(distinct(lines), judges.values(), strict=True))
        table = counts_table("Judge", counts, best=False)
        blocks.append(Section("The same replies by each judge alone", (table,)))
    if labels is not None:
        blocks += label_tables(labels, summary.names)
    return Section("Judges and people", (*WORDS.paragraphs("labels", labels), *blocks))


def _elsewhere(summary: RepliesSummary) -> Section:
    found, run = summary.values["left_out_check"], summary.evidence.run
    lines = []
    for one in (found or ())[:_SHOWN_ELSEWHERE]:
        asked, held = run.questions.get(one.question_id), run.passages.get(one.passage_id)
        question = one.question_id if asked is None else asked.question
        passage = one.passage_id if held is None else held.text
        lines.append((one_line(question, 240), one_line(passage, 240)))
    table = Table.of_text(("Question", "Passage"), lines) if lines else None
    more = len(found or ()) - _SHOWN_ELSEWHERE
    rest = f"… and {more} more in left_out_check.jsonl." if more > 0 else None
    return Section("Is the answer really gone?", (WORDS.text("elsewhere", found), table, rest))


def _costs(summary: RepliesSummary) -> Section:
    cost = summary.values["cost"]
    systems = {summary.names[name]: of for name, of in cost["systems"].items()}
    judges = cost["judges"]
    second = Section("Of the judges", (cost_table("Judge", judges),)) if judges else None
    return Section("Cost", (cost_table("System", systems), second))
