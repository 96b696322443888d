"""The report of a run of replies: what systems replied, and how judges rated it.

run folder ─► judged replies ─► summarise_replies ─► replies_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...report import (
    Case,
    CaseLine,
    Cases,
    Check,
    Document,
    Prose,
    Section,
    Table,
    counted,
    decimal,
    explained,
    one_line,
    percent,
)
from ...run import CaseKind, Judgement
from ._replies_csv import reply_rows
from ._replies_evidence import CriterionCounts, ReplyCounts, ReplyShape
from ._replies_labels import label_blocks
from ._replies_names import labels, shared_factors, varying
from ._replies_plots import base_plots, shown_bases
from ._replies_prose import headline, judge_words, judged_words, lead, next_steps
from ._replies_summary import RepliesSummary
from ._replies_tables import (
    comparison_tables,
    cost_table,
    criterion_table,
    glance_table,
    heading_of,
    judge_table,
    metered,
    shape_table,
    topic_table,
)
from ._replies_warnings import warnings
from ._replies_what_if import replies_what_if
from ._replies_worst import false_abstentions, wrong_answers

_SUITE = "ookb"
_SHOWN_ELSEWHERE = 10
_MOST_TOPICS = 25
# Parts of the report of a single system that are not folded.
_OPEN = frozenset({"What was tested", "Results by system"})
_MOST_NAMED = 3
_KINDS = {
    CaseKind.LEFT_OUT: (
        "Answer left out",
        "The passage that holds the answer was left out of the knowledge base.",
        "Abstain.",
    ),
    CaseKind.SYNTHETIC: (
        "Never in it",
        "A question on the topics of the knowledge base that it never answered.",
        "Abstain.",
    ),
    CaseKind.IN_KB: ("Answer in it", "The whole knowledge base was there.", "Answer."),
}
_TESTED = (
    "Systems were asked questions whose answer the knowledge base holds, or does not hold. Where "
    "it does not, the only right reply is to abstain: any other reply comes from the model’s "
    "memory, from a passage about something else, or from nowhere."
)
_TIERS = (
    "A reply that does not abstain is of tier 1 (says the same as the expected answer), tier 2 "
    "(deviates, but would not mislead) or tier 3 (wrong, misleading or incomplete)."
)
_INTERVALS = (
    "Beneath each rate is its 95 % interval: Wilson’s where each question occurs once, a bootstrap "
    "interval where several systems answered the same questions. Neither includes the judge’s own "
    "errors: see people’s labels below. Two rates whose intervals overlap may still differ: the "
    "paired tests below compare the same questions."
)
_FAILURES = (
    "Failures are looked for in every reply that did not abstain, right ones included. "
    "Contradiction: against the context or the expected answer. Fabrication: stated without any "
    "ground. Over-specification: right in the main, with details that nothing supports. None: "
    "the judge found none of these, which does not make the reply right."
)
_TOPICS = {
    "topic": "Topics as the questions name them.",
    "source": "Topics are the sources that the questions come from.",
    "clusters": "The questions name no topics: these were found by grouping questions of similar "
    "meaning (embeddings, k-means with a fixed seed), and are named by the words that set them "
    "apart. Read them as a rough map.",
    "word_clusters": "The questions name no topics: these were found by grouping questions of "
    "similar words (k-means with a fixed seed; there are too many questions to embed, or no "
    "embedding model), and are named by the words that set them apart. Read them as a very rough "
    "map.",
}


def replies_document(summary: RepliesSummary) -> Document:
    """Make the report of a summarised run."""
    run = summary.evidence.run
    return Document(
        name=_SUITE,
        title=_title(summary),
        subtitle=_subtitle(summary),
        headline=_headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary, labels(tuple(run.systems.values()))),
        values=summary.to_dict(),
        systems={one.system.system_id: one.numbers() for one in summary.systems},
        rows=lambda: reply_rows(summary.evidence),
        checks=lambda: system_checks(summary),
    )


def _headline(summary: RepliesSummary) -> list[str]:
    lines = headline(summary)
    opening = lead(summary) if len(summary.systems) > 1 and summary.evidence.replies else ""
    return [opening] if opening else lines


def system_checks(summary: RepliesSummary) -> list[Check]:
    """Check per system and knowledge base that all its replies are there and without error."""
    found = []
    for one in summary.systems:
        for base, shape in one.knowledge_bases.items():
            failed = shape.out_of_kb.errors + shape.in_kb.errors
            total = shape.out_of_kb.n + shape.in_kb.n + failed
            found.append(
                Check(
                    group=f"knowgate.{_SUITE}.{base}" if base else f"knowgate.{_SUITE}",
                    name=one.system.system_id,
                    failure=f"{failed} of {total} replies ended in an error" if failed else "",
                    text=_measured(shape),
                )
            )
    if summary.missing:
        planned = summary.evidence.run.manifest.replies
        why = f"{summary.missing} of {planned} replies are missing"
        found.append(Check(f"knowgate.{_SUITE}", "the run is finished", why, ""))
    return found


def _measured(shape: ReplyShape) -> str:
    out, in_kb = shape.out_of_kb, shape.in_kb
    parts = [
        _part("abstained, answer not in the knowledge base", out.abstained, out),
        _part("wrong answers, answer not in the knowledge base", out.tiers["tier_3"], out),
        _part("false abstentions", in_kb.abstained, in_kb),
    ]
    return "; ".join(part for part in parts if part)


def _part(text: str, count: int | None, counts: ReplyCounts) -> str:
    if count is None or not counts.n:
        return ""
    return f"{text}: {count} of {counts.n} ({percent(count / counts.n)})"


def _title(summary: RepliesSummary) -> str:
    title = "Out-of-knowledge-base report"
    named = [one_line(name, 60) for name in summary.knowledge_bases if name]
    if not named:
        return title
    more = len(named) - _MOST_NAMED
    return f"{title}: {', '.join(named[:_MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


def _subtitle(summary: RepliesSummary) -> str:
    run = summary.evidence.run
    parts = [
        counted(run.manifest.questions, "question"),
        counted(run.manifest.cases, "case"),
        counted(len(run.systems), "system"),
        counted(len(run.replies), "reply", "replies"),
    ]
    return " · ".join(parts) + " · out-of-knowledge-base suite"


def _sections(summary: RepliesSummary, names: Mapping[str, str]) -> list[Section]:
    manifest = summary.evidence.run.manifest
    sections: Sequence[Section | None] = (
        _tested(summary),
        _results(summary, names),
        Section(
            "How to read the intervals",
            (_INTERVALS, Prose(explained("intervals", "wilson", "bootstrap"), small=True)),
        ),
        replies_what_if(summary.evidence, names),
        _cascades(summary, names),
        _differences(summary, names),
        _criteria(summary, names),
        _topics(summary),
        Section(
            "Cases worth reading",
            (
                wrong_answers(summary.evidence, names),
                false_abstentions(summary.evidence, names),
            ),
        ),
        _people(summary, names),
        _elsewhere(summary),
        _costs(summary, names),
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    )
    found = [section for section in sections if section is not None]
    last = Section.next_steps(next_steps(summary))
    # The most important part stays open; the rest is there for those who open it.
    if len(summary.systems) < 2 or not summary.evidence.replies:
        shown = [replace(one, folded=one.title not in _OPEN) for one in found]
        return [*shown, last]
    return [_glance(summary, names), *(replace(one, folded=True) for one in found), last]


def _glance(summary: RepliesSummary, names: Mapping[str, str]) -> Section:
    heading = heading_of(summary.evidence, varying(tuple(summary.evidence.run.systems.values())))
    systems = {names[one.system.system_id]: one for one in summary.systems}
    known = any(one.held_out is not None for one in summary.systems)
    note = (
        "KB: knowledge base. ★ is the best number of its column; Results by system has the "
        "intervals, which tell whether systems differ at all."
    )
    if known:
        note += " Questions known from a guard’s calibration do not count for it."
    bases = shown_bases(summary)
    scatter = base_plots(summary, None, 0)[0] if bases == [None] else None
    return Section(
        "At a glance",
        (glance_table(heading, systems), Prose((note,), small=True), scatter),
    )


def _tested(summary: RepliesSummary) -> Section:
    counts: dict[CaseKind, int] = {}
    for case in summary.evidence.run.cases.values():
        counts[case.kind] = counts.get(case.kind, 0) + 1
    kinds = Table.of_text(
        ("Kind of case", "What is the case", "What is wanted", "Cases"),
        [(*text, counts[kind]) for kind, text in _KINDS.items() if counts.get(kind)],
    )
    systems = tuple(summary.evidence.run.systems.values())
    shared = shared_factors(systems) if len(systems) > 1 else []
    common = "; ".join(f"{name} {value}" for name, value in shared)
    return Section(
        "What was tested",
        (
            _TESTED,
            kinds,
            f"{judged_words(summary)} {_TIERS}",
            *([f"All systems have in common: {common}."] if common else []),
        ),
    )


def _results(summary: RepliesSummary, names: Mapping[str, str]) -> Section:
    heading = heading_of(summary.evidence, varying(tuple(summary.evidence.run.systems.values())))
    parts = []
    for number, base in enumerate(shown_bases(summary)):
        shapes = {
            names[one.system.system_id]: one.shape if base is None else one.knowledge_bases[base]
            for one in summary.systems
            if base is None or base in one.knowledge_bases
        }
        title = ""
        if base is not None:
            asked = summary.knowledge_bases[base]
            most = max(asked.out_of_kb.questions, asked.in_kb.questions)
            name = one_line(base, 60) or "Knowledge base without a name"
            title = f"{name}: {counted(most, 'question')}"
        table = shape_table(heading, shapes)
        scatter, bars = base_plots(summary, base, number)
        if base is None and len(summary.systems) > 1:
            scatter = None  # opens the report
        blocks = (scatter, table if table.columns else None, bars)
        parts.append(Section(title, tuple(block for block in blocks if block is not None)))
    held_out = {
        names[one.system.system_id]: one.held_out
        for one in summary.systems
        if one.held_out is not None and one.held_out_bases
    }
    if held_out:
        table = shape_table("Guarded system", held_out)
        parts.append(Section("Without the questions known from the guard’s calibration", (table,)))
    words = headline(summary)
    said = Prose(tuple(words), bullets=True) if _headline(summary) != words else None
    return Section(
        "Results by system",
        (
            said,
            *parts,
            Prose(
                explained("abstained_not_in_kb", "right_of_answered", "wrong_of_all", "best"),
                small=True,
            ),
        ),
    )


def _cascades(summary: RepliesSummary, names: Mapping[str, str]) -> Section | None:
    policies = summary.evidence.run.policies
    parts = [
        Section(names[one.system.system_id], one.cascade.blocks(policies.get(one.system.guard)))
        for one in summary.systems
        if one.cascade is not None
    ]
    return Section("Cascade of scorers", tuple(parts)) if parts else None


def _differences(summary: RepliesSummary, names: Mapping[str, str]) -> Section | None:
    compared = [one for one in summary.differences if one.differences]
    others = {one.base: one_line(one.base, 60) for one in summary.differences if one.run}
    tables = comparison_tables(compared, {**others, **names}, summary.evidence.run.systems)
    if not tables:
        return None
    tests = sum(len(one.differences) for one in summary.differences)
    return Section(
        "Differences",
        (
            "Second system minus first, in percentage points, on the cases that both replied to; "
            "beneath it the 95 % interval (paired bootstrap over questions) and the p-value. The "
            f"p-values are McNemar’s, adjusted by Holm’s method for all {tests} tests shown here; "
            "● marks those of at most 0.05.",
            *(Section(title, (table,)) for title, table in tables),
            Prose(
                (
                    "“Right where both answered” looks at questions from which neither abstained: "
                    "easy ones may be over-represented among them.",
                ),
                small=True,
            ),
        ),
    )


def _criteria(summary: RepliesSummary, names: Mapping[str, str]) -> Section | None:
    if not summary.criteria:
        return None
    blocks = [
        Section(_criterion_title(found), (criterion_table(found, names),))
        for found in summary.criteria
    ]
    judged = any(found.criterion == Judgement.FAILURE for found in summary.criteria)
    notes = (Prose((_FAILURES,), small=True),) if judged else ()
    return Section("How answers go wrong", (*blocks, *notes))


def _criterion_title(found: CriterionCounts) -> str:
    name = one_line(found.criterion, 60).replace("_", " ").capitalize()
    judge = one_line(judge_words(found.judge), 60)
    if found.estimate and found.judge != "estimate":
        judge += " (an offline estimate)"
    return f"{name}, judged by {judge}"


def _topics(summary: RepliesSummary) -> Section | None:
    topics = summary.topics.topics
    if not topics:
        return None
    more = len(topics) - _MOST_TOPICS
    who = "All systems" if summary.pooled == "all" else "All systems with a guard"
    note = f"{who} together. {_TOPICS[summary.topics.how]}"
    if more > 0:
        note += f" Not shown: {more} smaller ones."
    return Section("By topic", (topic_table(topics[:_MOST_TOPICS]), Prose((note,), small=True)))


def _people(summary: RepliesSummary, names: Mapping[str, str]) -> Section:
    judges: tuple[Section, ...] = ()
    if len(summary.judges) > 1:
        title = "The same replies by each judge alone"
        judges = (Section(title, (judge_table(summary.judges),)),)
    return Section("Judges and people", (*judges, *label_blocks(summary.labels, names)))


def _elsewhere(summary: RepliesSummary) -> Section:
    title = "Is the answer really gone?"
    found = summary.left_out_check
    if found is None:
        return Section(
            title,
            (
                "Nobody has checked whether the rest of the knowledge base holds an answer that "
                "was left out.",
            ),
        )
    if not found:
        return Section(
            title,
            (
                "Checked: the rest of the knowledge base seems to hold none of the answers that "
                "were left out.",
            ),
        )
    run = summary.evidence.run
    cases = []
    for one in found[:_SHOWN_ELSEWHERE]:
        asked, held = run.questions.get(one.question_id), run.passages.get(one.passage_id)
        similarity = "" if one.similarity is None else f", similarity {decimal(one.similarity)}"
        passage = one.passage_id if held is None else held.text
        cases.append(
            Case(
                one_line(one.question_id if asked is None else asked.question, 240),
                f"found by: {one.how.replace('_', ' ')}{similarity}",
                (CaseLine(one_line(passage, 240), "Passage"),),
            )
        )
    more = len(found) - _SHOWN_ELSEWHERE
    return Section(
        title,
        (
            "Passages that may answer a question whose own passage was left out:",
            Cases(tuple(cases)),
            *([f"… and {more} more in left_out_check.jsonl."] if more > 0 else []),
        ),
    )


def _costs(summary: RepliesSummary, names: Mapping[str, str]) -> Section:
    costs, judges = summary.costs, summary.judge_costs
    if metered(costs) or summary.evidence.failed:
        first = cost_table("System", {names[name]: cost for name, cost in costs.items()})
        blocks: list[Table | str | Section] = [first]
    else:
        blocks = [
            "Nothing was metered: the replies were logged elsewhere, without calls, tokens or "
            "times."
        ]
    if metered(judges) or any(cost.errors for cost in judges.values()):
        blocks.append(Section("Of the judges", (cost_table("Judge", judges),)))
    return Section("Cost", tuple(blocks))
