"""The report of a run of replies: what systems replied, and how judges rated it.

run folder ─► Evidence ─► RepliesSummary ─► replies_document ─► a file per format

Sentences stand in `replies.txt`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...report.cascade import cascade_blocks
from ...report.document import Case, CaseLine, Cases, Check, Document, Prose, Section
from ...report.prose import explained
from ...report.tables import Table
from ...report.text import counted, decimal, one_line
from ...run.grouping import error_types, grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement
from ._replies_differences import Comparison
from ._replies_shown import cases_worth_reading, scatter_plot
from ._replies_summary import RepliesSummary
from ._replies_tables import (
    comparison_tables,
    cost_table,
    criterion_table,
    glance_table,
    label_tables,
    reply_rows,
    shape_table,
    support_table,
)
from ._replies_what_if import REPLIES_WORDS as WORDS
from ._replies_what_if import replies_what_if
from .replies import (
    FACTORS,
    LONGEST,
    MAIN,
    OFF,
    SEPARATOR,
    ReplyShape,
    distinct,
    varying,
)

_GROUP = "knowgate.ookb"
_SHOWN_ELSEWHERE = 10
# Topics with a line, and knowledge bases with a table of their own.
_MAX_TOPICS, _MAX_BASES = 25, 6
# Parts of the report of a single system that are not folded.
_OPEN = frozenset({"What was tested", "Results by system"})


def replies_document(summary: RepliesSummary) -> Document:
    """Make the report of a summarised run."""
    lines, opening = _headline(summary), _lead(summary)
    return Document(
        name="ookb",
        title=WORDS.text("title", [name for name in summary.knowledge_bases if name]),
        subtitle=WORDS.text("subtitle", summary.evidence.run),
        headline=[opening] if opening else lines,
        warnings=WORDS.paragraphs("warnings", summary, _facts(summary)),
        sections=_sections(summary, lines if opening else []),
        values=summary.to_dict(),
        systems={one.system.system_id: one.numbers() for one in summary.systems},
        rows=lambda: reply_rows(summary.evidence),
        checks=lambda: _checks(summary),
    )


# -- The sentences that open the report -------------------------------------------------


def _lead(summary: RepliesSummary) -> str:
    """Write the one sentence that opens a report of several systems; empty if nothing fits.

    With guards it says what the best of them changes, otherwise what all systems did together.
    """
    if len(summary.systems) < 2 or not summary.evidence.replies:
        return ""
    by_id = {one.system.system_id: one for one in summary.systems}
    ranked = []
    for one in _guard_comparisons(summary):
        shape, name = by_id[one.other].fair(), summary.names[one.other]
        if shape is not None:
            wrong, out = shape.out_of_kb.wrong_answer_rate.value, shape.out_of_kb
            rank = (1.0 if wrong is None else wrong, -(out.abstention_rate.value or 0.0), name)
            ranked.append((rank, WORDS.text("best_guard", name, shape, one)))
    best = min(ranked, key=lambda each: each[0])[1] if ranked else ""
    return best or WORDS.paragraphs("together", summary)[0]


def _headline(summary: RepliesSummary) -> list[str]:
    """Write the sentences on the results, the most important one first."""
    if not summary.evidence.replies:
        return WORDS.paragraphs("nothing", len(summary.evidence.failed))
    runs = grouped((one for one in summary.differences if one.run), lambda one: one.run)
    since = WORDS.paragraphs("since", runs, summary.names)
    if len(summary.systems) == 1:
        return [*WORDS.paragraphs("alone", summary.systems[0]), *since]
    # Rates over systems with and without a guard say little: what it changes comes first.
    guards = [one for one in _guard_comparisons(summary) if one.differences.keys() - {"factuality"}]
    said = WORDS.paragraphs("guards", guards, summary.names)
    return [*said, *WORDS.paragraphs("together", summary), *since]


def _guard_comparisons(summary: RepliesSummary) -> list[Comparison]:
    systems = summary.evidence.run.systems
    guards = (one for one in summary.differences if one.factor == "guard")
    return [one for one in guards if systems[one.base].guard == OFF]


def _facts(summary: RepliesSummary) -> dict[str, Any]:
    """Collect what warnings rest on besides the summary."""
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
        "errors": error_types(reply.row for reply in evidence.failed),
        "asked": len({case.question_id for case in cases}),
        "seen": len({case.question_id for case in cases if case.held_out is False}),
        "estimated": [criterion for criterion in MAIN if criterion in by_first],
        "stood_in": [(c, first[c], n, judge) for (c, judge), n in sorted(stood_in.items())],
        "elsewhere": len({one.question_id for one in summary.left_out_check or ()}),
        "with_passage": len(with_passage),
        "passages": len({run.questions[name].own_passage for name in with_passage}),
    }


def _checks(summary: RepliesSummary) -> list[Check]:
    """Check per system and knowledge base that all its replies are there and without error."""
    found = []
    for one in summary.systems:
        for base, shape in ReplyShape.by_base(one.every).items():
            failed = shape.out_of_kb.errors + shape.in_kb.errors
            total = shape.out_of_kb.n + shape.in_kb.n + failed
            failure = f"{failed} of {total} replies ended in an error" if failed else ""
            group = f"{_GROUP}.{base}" if base else _GROUP
            text = WORDS.text("measured", shape)
            found.append(Check(group, one.system.system_id, failure, text))
    if summary.missing:
        planned = summary.evidence.run.manifest.replies
        why = f"{summary.missing} of {planned} replies are missing"
        found.append(Check(_GROUP, "the run is finished", why, ""))
    return found


# -- Sections ---------------------------------------------------------------------------


def _sections(summary: RepliesSummary, lines: Sequence[str]) -> list[Section]:
    manifest, names = summary.evidence.run.manifest, summary.names
    small = Prose(explained("intervals", "wilson", "bootstrap"), small=True)
    sections = (
        _tested(summary),
        _results(summary, lines),
        Section("How to read the intervals", (WORDS.text("intervals"), small)),
        replies_what_if(summary.evidence, names),
        _cascades(summary),
        _support(summary),
        _differences(summary),
        _criteria(summary),
        _topics(summary),
        cases_worth_reading(summary.evidence, names),
        _people(summary),
        _elsewhere(summary),
        _costs(summary),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    )
    found = [section for section in sections if section is not None]
    last = Section.next_steps(WORDS.terms("next_steps", summary))
    # The most important part stays open; the rest is there for those who open it.
    if len(summary.systems) < 2 or not summary.evidence.replies:
        return [*(replace(one, folded=one.title not in _OPEN) for one in found), last]
    return [_glance(summary), *(replace(one, folded=True) for one in found), last]


def _heading(summary: RepliesSummary) -> str:
    systems = tuple(summary.evidence.run.systems.values())
    factors = varying(systems) if len(systems) > 1 else ()
    return SEPARATOR.join(name for name in FACTORS if name in factors).capitalize() or "System"


def _glance(summary: RepliesSummary) -> Section:
    note = Prose((WORDS.text("at_a_glance", summary.some_seen),), small=True)
    table = glance_table(_heading(summary), summary.systems)
    return Section("At a glance", (table, note, scatter_plot(summary)))


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


def _results(summary: RepliesSummary, lines: Sequence[str]) -> Section:
    heading, bases = _heading(summary), summary.knowledge_bases
    alone = scatter_plot(summary) if len(summary.systems) == 1 else None
    parts = []
    for base in bases if 1 < len(bases) <= _MAX_BASES else [None]:
        title = ""
        if base is not None:
            most = max(bases[base].out_of_kb.questions, bases[base].in_kb.questions)
            name = one_line(base, LONGEST) or "Knowledge base without a name"
            title = f"{name}: {counted(most, 'question')}"
        table = shape_table(heading, {one.name: one.shape(base) for one in summary.systems})
        parts.append(Section(title, (table if table.columns else None,)))
    unseen = {one.name: one.fair() for one in summary.systems if one.seen}
    if any(unseen.values()):
        table = shape_table("Guarded system", unseen)
        parts.append(Section("Without the questions known from the guard’s calibration", (table,)))
    terms = explained("abstained_not_in_kb", "right_of_answered", "wrong_of_all", "best")
    said = Prose(tuple(lines), bullets=True) if lines else None
    return Section("Results by system", (said, alone, *parts, Prose(terms, small=True)))


def _cascades(summary: RepliesSummary) -> Section | None:
    policies = summary.evidence.run.policies
    known = [(one, one.cascade) for one in summary.systems if one.cascade is not None]
    parts = [
        Section(of.name, cascade_blocks(found, policies.get(of.system.guard)))
        for of, found in known
    ]
    return Section("Cascade of scorers", tuple(parts)) if parts else None


def _support(summary: RepliesSummary) -> Section | None:
    shown = {one.name: one.support for one in summary.systems if one.support["checked"]}
    title, said = "Replies that their passages do not bear out", WORDS.text("support")
    return Section(title, (said, support_table(shown))) if shown else None


def _differences(summary: RepliesSummary) -> Section | None:
    compared = [one for one in summary.differences if one.differences]
    if not compared:
        return None
    others = {one.base: one_line(one.base, LONGEST) for one in summary.differences if one.run}
    tables = comparison_tables(compared, {**others, **summary.names}, summary.evidence.run.systems)
    tests = sum(len(one.differences) for one in compared)
    note = Prose((WORDS.text("both_answered"),), small=True)
    return Section("Differences", (WORDS.text("differences", tests), *tables, note))


def _criteria(summary: RepliesSummary) -> Section | None:
    blocks: list[Section | Prose] = []
    for found in summary.criteria:
        name = one_line(found["criterion"], LONGEST).replace("_", " ").capitalize()
        judge = one_line(WORDS.text("judge", found["judge"]), LONGEST)
        if found["estimate"] and found["judge"] != Judgement.ESTIMATE:
            judge += " (an offline estimate)"
        table = criterion_table(found["systems"], summary.names)
        blocks.append(Section(f"{name}, judged by {judge}", (table,)))
    if any(found["criterion"] == Judgement.FAILURE for found in summary.criteria):
        blocks.append(Prose((WORDS.text("failures"),), small=True))
    return Section("How answers go wrong", tuple(blocks)) if blocks else None


def _topics(summary: RepliesSummary) -> Section | None:
    if not summary.topics:
        return None
    shown, more = summary.topics[:_MAX_TOPICS], len(summary.topics) - _MAX_TOPICS
    shapes = {f"{one['topic']} ({one['questions']})": one["replies"] for one in shown}
    table = shape_table("Topic (questions)", shapes, best=False)
    note = WORDS.text("topics", summary.pooled, summary.topics_by, more)
    return Section("By topic", (table, Prose((note,), small=True)))


def _people(summary: RepliesSummary) -> Section:
    judges = None
    if len(summary.judges) > 1:
        words = {name: WORDS.text("judge", name) for name in summary.judges}
        lines = [name if name == said else f"{name}: {said}" for name, said in words.items()]
        shapes = dict(zip(distinct(lines), summary.judges.values(), strict=True))
        table = shape_table("Judge", shapes, best=False)
        judges = Section("The same replies by each judge alone", (table,))
    tables = [] if summary.labels is None else label_tables(summary.labels, summary.names)
    said = WORDS.paragraphs("labels", summary.labels)
    return Section("Judges and people", (judges, *said, *tables))


def _elsewhere(summary: RepliesSummary) -> Section:
    found = summary.left_out_check
    run, cases = summary.evidence.run, []
    for one in (found or ())[:_SHOWN_ELSEWHERE]:
        asked, held = run.questions.get(one.question_id), run.passages.get(one.passage_id)
        similarity = "" if one.similarity is None else f", similarity {decimal(one.similarity)}"
        question = one.question_id if asked is None else asked.question
        passage = one_line(one.passage_id if held is None else held.text, 240)
        how = f"found by: {one.how.replace('_', ' ')}{similarity}"
        cases.append(Case(one_line(question, 240), how, (CaseLine(passage, "Passage"),)))
    more = len(found or ()) - _SHOWN_ELSEWHERE
    rest = f"… and {more} more in left_out_check.jsonl." if more > 0 else None
    said, shown = WORDS.text("elsewhere", found), Cases(tuple(cases)) if cases else None
    return Section("Is the answer really gone?", (said, shown, rest))


def _costs(summary: RepliesSummary) -> Section:
    costs = {summary.names[name]: cost for name, cost in summary.costs["systems"].items()}
    judges = summary.costs["judges"]
    second = Section("Of the judges", (cost_table("Judge", judges),)) if judges else None
    return Section("Cost", (cost_table("System", costs), second))
