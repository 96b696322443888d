"""The report of a run of replies.

    run folder ─► RepliesSummary ─► replies_document ─► a file per format

Sentences stand in `replies.txt`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...judging.rated import MAIN
from ...report.document import Check, Document, Section
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN, counted, one_line, p_value, percent
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement
from ...systems.guards import OFF
from ..parts import run_document
from ._preparing import WORDS
from ._replies_differences import (
    FACTORS,
    LEVEL,
    LONGEST,
    SEPARATOR,
    Difference,
    change,
    distinct,
    measured,
)
from ._replies_summary import Counts, RepliesSummary, reply_rows

_SPACE = "\u00a0"
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
_GLANCE = ("wrong_answer_rate", "abstention_rate", "false_abstention_rate")
_CORRECTED = {
    "abstention_rate": "Abstained, answer not in KB",
    "factuality_rate": "Right of those answered",
    "false_abstention_rate": "False abstentions",
}


def replies_document(summary: RepliesSummary) -> Document:
    """Make the report of a summarised run."""
    evidence = summary.evidence
    found = run_document(
        "ookb",
        WORDS,
        evidence.run.manifest,
        summary,
        {**_facts(summary), **_lines(summary)},
        rows=lambda: reply_rows(evidence),
        checks=lambda: _checks(summary),
    )
    last = Section.next_steps(WORDS.terms("next_steps", summary.values, evidence))
    # The most important part stays open; the rest is there for those who open it.
    kept = {"At a glance"} if len(summary.names) > 1 and evidence.replies else _OPEN
    sections = (one for one in found.sections if one is not None)
    folded = [replace(one, folded=one.title not in kept) for one in sections]
    return replace(found, sections=[*folded, last])


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
    verdicts = [one for reply in evidence.replies for one in reply.verdicts.values()]
    given = Counter((one.criterion, one.judge) for one in verdicts if one.criterion in first)
    estimates = {(one.criterion, one.judge) for one in verdicts if one.estimate}
    differences = summary.values["differences"]
    runs = grouped((one for one in differences if one["run"]), lambda one: one["run"])
    # Rates over systems with and without a guard say little: what it changes comes first.
    guards = [
        one
        for one in differences
        if one["factor"] == "guard" and run.systems[one["base"]].guard == OFF
    ]
    return {
        "runs": runs,
        "guards": guards,
        "fair": list(map(_fair, summary.values["systems"])),
        "counts": counts_table,
        "asked": len({case.question_id for case in cases}),
        "seen": len({case.question_id for case in cases if case.held_out is False}),
        "estimated": [of[0] for of in first.items() if of in estimates],
        "stood_in": [
            (c, first[c], n, by) for (c, by), n in sorted(given.items()) if by != first[c]
        ],
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


def _lines(summary: RepliesSummary) -> dict[str, Any]:
    """Return the lines of tables by what they show; of some each with its title."""
    values, names, labels = summary.values, summary.names, summary.values["labels"]
    costs = values["cost"]
    return {
        "heading": _heading(summary),
        "glance": _glance(summary),
        "kinds": _kinds(summary),
        "shared": _shared(summary),
        "results": _results(summary),
        "support": _support(summary),
        "differences": _differences(summary),
        "tests": sum(len(measured(one)) for one in values["differences"]),
        "criteria": list(_criteria(summary)),
        "topics": {
            f"{one['topic']} ({one['questions']})": one["replies"]
            for one in values["topics"][:_MAX_TOPICS]
        },
        "more_topics": len(values["topics"]) - _MAX_TOPICS,
        "judges": _by_judge(values["replies"]["judges"]),
        "labelled": () if labels is None else list(_labelled(labels, names)),
        "gone": _elsewhere(summary),
        "costs": {
            "System": {names[name]: _cost(of) for name, of in costs["systems"].items()},
            "Judge": {name: _cost(of) for name, of in costs["judges"].items()},
        },
    }


def _heading(summary: RepliesSummary) -> str:
    factors = summary.factors if len(summary.names) > 1 else ()
    return SEPARATOR.join(factors).capitalize() or "System"


def _glance(summary: RepliesSummary) -> dict[str, dict[str, Any]]:
    """Return a number per question and system, without intervals; empty for one system."""
    systems = _named(summary)
    if len(systems) < 2 or not summary.evidence.replies:
        return {}
    failed, found = any(one["failed"] for one in systems.values()), {}
    for name, one in systems.items():
        counts = _fair(one) or one["replies"]
        rates = {**counts["in_kb"], **counts}
        shown = {key: replace(rates[key], low=None, high=None) for key in _GLANCE}
        found[name] = {**shown, "failed": one["failed"] if failed else None}
    return found


def _kinds(summary: RepliesSummary) -> list[tuple[str | int, ...]]:
    counts = Counter(case.kind.value for case in summary.evidence.run.cases.values())
    lines = [line.split(" :: ") for line in WORDS.paragraphs("kinds")]
    return [(*text, counts[kind]) for kind, *text in lines if counts[kind]]


def _shared(summary: RepliesSummary) -> list[str]:
    """Return what all of several systems have in common."""
    systems = tuple(summary.evidence.run.systems.values())
    alike = [name for name in FACTORS if len(systems) > 1 and name not in summary.factors]
    shared = {name: one_line(getattr(systems[0], name)) for name in alike}
    return [f"{name} {value}" for name, value in shared.items() if value]


def _results(summary: RepliesSummary) -> list[tuple[str, str, dict[str, Counts | None]]]:
    """Return title, heading and lines of the tables of results: of all, or of each base."""
    heading, systems = _heading(summary), _named(summary)
    bases = summary.values["knowledge_bases"]
    given = {"": {name: _some(one["replies"]) for name, one in systems.items()}}
    if 1 < len(bases) <= _MAX_BASES:
        given = {}
        for base, counts in bases.items():
            most = max(counts["questions"], counts["in_kb"]["questions"])
            name = one_line(base, LONGEST) or "Knowledge base without a name"
            title = f"{name}: {counted(most, 'question')}"
            # Long names may be alike in what is shown of them.
            given[title if title not in given else f"{title} ({len(given) + 1})"] = {
                key: one["knowledge_bases"].get(base) for key, one in systems.items()
            }
    unseen = {name: _fair(one) for name, one in systems.items() if one["held_out"]}
    found = [(title, heading, own) for title, own in given.items()]
    found.append(
        ("Without the questions known from the guard’s calibration", "Guarded system", unseen)
    )
    return [one for one in found if any(one[2].values())]


def _support(summary: RepliesSummary) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """Return per system how many replies its passages do not bear out, and columns of why."""
    shown = {name: one["support"] for name, one in _named(summary).items() if "support" in one}
    kinds = sorted({kind for one in shown.values() for kind in one["found"]})
    lines = {
        name: {**one, **dict.fromkeys(kinds, 0), **one["found"]} for name, one in shown.items()
    }
    return lines, [(kind.capitalize(), kind) for kind in kinds]


def _differences(summary: RepliesSummary) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the lines of a table for each kind of change."""
    systems = summary.evidence.run.systems

    def title(found: Difference) -> str:
        if found["factor"] == "guard" and systems[found["base"]].guard != OFF:
            return "Another guard"
        run = found["run"]
        return f"Against the run “{run}”" if run else _TITLES[found["factor"]]

    compared = [one for one in summary.values["differences"] if measured(one)]
    return {
        name: [(_compared(one, summary), _difference_cells(one)) for one in own]
        for name, own in grouped(compared, title).items()
    }


def _compared(found: Difference, summary: RepliesSummary) -> str:
    base, other, systems = found["base"], found["other"], summary.evidence.run.systems
    if found["factor"] in FACTORS:
        return change(systems[base], systems[other], found["factor"], summary.factors)
    names = [summary.names.get(one, one_line(one, LONGEST)) for one in (base, other)]
    return names[1] if found["run"] and names[0] == names[1] else " → ".join(names)


def _difference_cells(found: Difference) -> dict[str, Any]:
    cells: dict[str, Any] = {"pairs": found["pairs"]}
    for measure in measured(found):
        one = found[measure]
        cell, p = Cell.difference(one["difference"]), one["p_adjusted"]
        n = "" if measure != "factuality" else f"; n{_SPACE}={_SPACE}{one['difference'].n}"
        under = f"{cell.under};\np{_SPACE}{p_value(p)}{n}"
        mark = "clear" if p is not None and p <= LEVEL else ""
        cells[measure] = Cell(cell.value, under, mark)
    return cells


def _criteria(
    summary: RepliesSummary,
) -> Iterator[tuple[str, dict[str, Any], list[tuple[str, str]]]]:
    """Yield title, lines and columns: how often each outcome of a criterion occurs."""
    for found in summary.values["criteria"]:
        name = one_line(found["criterion"], LONGEST).replace("_", " ").capitalize()
        judge = one_line(WORDS.text("judge", found["judge"]), LONGEST)
        if found["estimate"] and found["judge"] != Judgement.ESTIMATE:
            judge += " (an offline estimate)"
        lines = {summary.names[name]: _shares(of) for name, of in found["systems"].items()}
        outcomes: Iterable[str] = next(iter(found["systems"].values()), ())
        columns = [
            (one_line(outcome, LONGEST).replace("_", " "), str(place))
            for place, outcome in enumerate(outcomes)
        ]
        yield f"{name}, judged by {judge}", lines, columns


def _shares(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return cells of counts by their places, and the sum."""
    n = sum(counts.values())
    cells = [Cell(str(one), percent(one / n)) for one in counts.values()]
    return {**{str(place): cell for place, cell in enumerate(cells)}, "judged": n}


def _by_judge(judges: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return the counts of each judge alone, by its name; empty for one judge."""
    words = {name: WORDS.text("judge", name) for name in judges}
    lines = [name if name == said else f"{name}: {said}" for name, said in words.items()]
    return dict(zip(distinct(lines), judges.values(), strict=True)) if len(judges) > 1 else {}


def _labelled(labels: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield what people's labels say of each other, of judges, and of rates."""
    yield labels["agreement"]
    yield {f"{one['criterion']}, {one['judge']}": one for one in labels["judges"]}
    yield {
        f"{_CORRECTED[one['rate']]}: {names.get(one['system'] or '', 'all systems')}": one
        for one in labels["corrected"]
    }


def _elsewhere(summary: RepliesSummary) -> list[tuple[str, str]]:
    run, lines = summary.evidence.run, []
    for one in (summary.values["left_out_check"] or ())[:_SHOWN_ELSEWHERE]:
        asked, held = run.questions.get(one.question_id), run.passages.get(one.passage_id)
        question = one.question_id if asked is None else asked.question
        passage = one.passage_id if held is None else held.text
        lines.append((one_line(question, 240), one_line(passage, 240)))
    return lines


def _cost(cost: Mapping[str, Any]) -> dict[str, Any]:
    kinds = ", ".join(f"{one_line(name)}: {count}" for name, count in cost["errors"].items())
    return {**cost, "errors": Cell(str(sum(cost["errors"].values())), one_line(kinds, 120))}


# -- Tables of counts -------------------------------------------------------------------

# Heading, whether the knowledge base holds the answer, rate, and which way is better.
_RATES = (
    ("Abstained, answer not in KB", False, "abstention_rate", 1),
    ("Right of those answered", False, "factuality_rate", 1),
    ("Wrong answers of all", False, "wrong_answer_rate", -1),
    ("False abstentions, answer in KB", True, "false_abstention_rate", -1),
    ("Right of those answered, in KB", True, "factuality_rate", 1),
)


def counts_table(first: str, given: Mapping[str, Counts | None], *, best: bool = True) -> Table:
    """Make a table of rates and counts, a line per name.

    Args:
        first: heading of the names.
        given: in the order of the lines; None for no line.
        best: mark the best of each column.
    """
    columns: list[tuple[str, Sequence[object]]] = []
    lines = {name: counts for name, counts in given.items() if counts is not None}
    for heading, in_kb, rate, better in _RATES:
        counts = [one["in_kb"] if in_kb else one for one in lines.values()]
        if not any(one["n"] for one in counts):
            continue
        cells = Cell.column([one[rate] for one in counts], better=better * best)
        columns.append((heading, list(map(partial(_counted, rate), cells, counts))))
        if rate == "wrong_answer_rate":
            tiers = [[one[name] for name in Judgement.TIERS] for one in counts]
            shown = [None if None in of else " / ".join(map(str, of)) for of in tiers]
            columns.append((f"Tiers 1{_SPACE}/{_SPACE}2{_SPACE}/{_SPACE}3", shown))
    failed = [one["errors"] + one["in_kb"]["errors"] for one in lines.values()]
    if any(failed):
        columns.append(("Errors", failed))
    return Table.from_columns(first, list(lines), columns)


def _counted(rate: str, cell: Cell, counts: Counts) -> Cell:
    """Write beneath a rate, above its interval, of how many replies it is."""
    if cell.value == UNKNOWN:
        return cell
    tiers, unjudged = [counts[name] for name in Judgement.TIERS], counts["unjudged"]
    if rate == "factuality_rate":
        hits, n = sum(tiers[:2]), sum(tiers)
    elif rate == "wrong_answer_rate":
        hits, n = tiers[2], counts["n"] - unjudged[Judgement.FACTUALITY]
    else:
        hits, n = counts["abstained"], counts["n"] - unjudged[Judgement.ABSTENTION]
    return replace(cell, under=f"{hits}{_SPACE}of{_SPACE}{n};\n{cell.under}")
