"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...._version import __version__
from ...judging import FAILURE
from ...report import GateResult, Table, counted, decimal, flat, one_line, questions, shortened
from ...run import CaseKind, InputFile
from ._replies_evidence import CriterionCounts
from ._replies_labels import LabelsView, labels_view
from ._replies_plots import shown_bases
from ._replies_prose import headline, judge_words, judged_words
from ._replies_tables import labels, shared_factors, varying
from ._replies_warnings import warnings
from ._replies_worst import WorstCases, made_up, withheld
from ._summary import RepliesSummary
from ._tables import (
    comparison_tables,
    cost_table,
    criterion_table,
    heading_of,
    judge_table,
    metered,
    shape_table,
    topic_table,
)

_SHOWN_ELSEWHERE = 10
_MOST_TOPICS = 25
_KINDS = {
    CaseKind.LEFT_OUT: (
        "Answer taken out",
        "The passage that holds the answer was taken out of the knowledge base.",
        "Decline.",
    ),
    CaseKind.SYNTHETIC: (
        "Never in it",
        "A question on the topics of the knowledge base that it never answered.",
        "Decline.",
    ),
    CaseKind.IN_KB: ("Answer in it", "The whole knowledge base was there.", "Answer."),
}


_FAILURES = (
    "Failures are looked for in every reply that did not decline, right ones included. "
    "Contradiction: against the context or the expected answer. Fabrication: stated without any "
    "ground. Over-specification: right in the main, with details that nothing supports. None: "
    "the judge found none of these, which does not make the reply right."
)
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class KindLine:
    """A kind of case: what it is, what is wanted, and how many there are."""

    title: str
    what: str
    wanted: str
    cases: int


@dataclass(frozen=True, slots=True)
class BaseView:
    """One knowledge base, or all: its plots by number, its table."""

    title: str
    number: int
    table: Table


@dataclass(frozen=True, slots=True)
class ElsewhereLine:
    """A question whose answer may stand elsewhere."""

    question: str
    passage: str
    how: str


@dataclass(frozen=True, slots=True)
class RepliesView:
    """Everything that both templates show.

    Attributes:
        title: names the knowledge bases.
        subtitle: what was run, in one line.
        headline: sentences, the most important one first.
        warnings: what to know before trusting the numbers.
        gates: what was asked of the numbers, and whether it held.
        kinds: of cases, what was tested.
        shared: what all systems have in common.
        judged: who judged, in one sentence.
        bases: the main tables.
        held_out: guarded systems on questions that their policy had not seen.
        comparisons: headings and tables.
        compared_words: how many tests the adjusted p-values pay for.
        topics: all systems together; None without any.
        topics_words: where the topics come from.
        made_up: wrong answers to questions outside the knowledge base.
        withheld: declined although the answer was there.
        criteria: headings and tables of failure kinds and users' criteria.
        criteria_words: what the kinds of failure mean; empty where nobody judged those.
        judges: the counts by each judge; None where only one judged.
        labels: people's.
        elsewhere: what the left-out check found; None where it was not made.
        elsewhere_more: found and not shown.
        costs: per system; None where nothing was metered and nothing failed.
        judge_costs: per judge, likewise.
        settings: flat name and value pairs.
        inputs: with hashes.
        versions: programs that wrote run and report.
    """

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    gates: tuple[GateResult, ...]
    kinds: tuple[KindLine, ...]
    shared: tuple[tuple[str, str], ...]
    judged: str
    bases: tuple[BaseView, ...]
    held_out: Table | None
    comparisons: tuple[tuple[str, Table], ...]
    compared_words: str
    topics: Table | None
    topics_words: str
    made_up: WorstCases
    withheld: WorstCases
    criteria: tuple[tuple[str, Table], ...]
    criteria_words: str
    judges: Table | None
    labels: LabelsView
    elsewhere: tuple[ElsewhereLine, ...] | None
    elsewhere_more: int
    costs: Table | None
    judge_costs: Table | None
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[InputFile, ...]
    versions: tuple[tuple[str, str], ...]


def replies_view(summary: RepliesSummary, gates: Sequence[GateResult] = ()) -> RepliesView:
    """The view of a summarised run."""
    evidence = summary.evidence
    run = evidence.run
    systems = tuple(run.systems.values())
    names = labels(systems)
    spent = metered(summary.costs) or bool(evidence.failed)
    elsewhere = summary.left_out_check
    return RepliesView(
        title=_title(summary),
        subtitle=_subtitle(summary),
        headline=tuple(headline(summary)),
        warnings=tuple(one_line(line) for line in warnings(summary)),
        gates=tuple(gates),
        kinds=_kinds(summary),
        shared=tuple(shared_factors(systems)) if len(systems) > 1 else (),
        judged=one_line(judged_words(summary)),
        bases=_bases(summary, names),
        held_out=_held_out(summary, names),
        comparisons=tuple(
            comparison_tables(
                [one for one in summary.differences if one.differences],
                {**_other_names(summary), **names},
                run.systems,
            )
        ),
        compared_words=_compared_words(summary),
        topics=topic_table(summary.topics.topics[:_MOST_TOPICS]) if summary.topics.topics else None,
        topics_words=_topics_words(summary),
        made_up=made_up(evidence, names),
        withheld=withheld(evidence, names),
        criteria=tuple(
            (_criterion_title(found), criterion_table(found, names)) for found in summary.criteria
        ),
        criteria_words=_FAILURES
        if any(found.criterion == FAILURE for found in summary.criteria)
        else "",
        judges=judge_table(summary.judges) if len(summary.judges) > 1 else None,
        labels=labels_view(summary.labels, names),
        elsewhere=None if elsewhere is None else _elsewhere(summary),
        elsewhere_more=max(0, len(elsewhere or ()) - _SHOWN_ELSEWHERE),
        costs=cost_table("System", {names[name]: cost for name, cost in summary.costs.items()})
        if spent
        else None,
        judge_costs=cost_table(
            "Judge", {one_line(name): cost for name, cost in summary.judge_costs.items()}
        )
        if metered(summary.judge_costs) or any(cost.errors for cost in summary.judge_costs.values())
        else None,
        settings=tuple(flat("", dict(run.manifest.settings))) if run.manifest.settings else (),
        inputs=run.manifest.inputs,
        versions=(
            ("run written by", one_line(run.manifest.created_by) or "–"),
            ("report written by", f"knowgate {__version__}"),
        ),
    )


def _title(summary: RepliesSummary) -> str:
    title = "Out-of-knowledge-base report"
    named = [shortened(name, 60) for name in summary.knowledge_bases if name]
    if not named:
        return title
    more = len(named) - _MOST_NAMED
    return f"{title}: {', '.join(named[:_MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


def _criterion_title(found: CriterionCounts) -> str:
    name = shortened(found.criterion, 60).replace("_", " ").capitalize()
    judge = shortened(judge_words(found.judge), 60)
    if found.estimate and found.judge != "estimate":
        judge += " (an offline estimate)"
    return f"{name}, judged by {judge}"


def _subtitle(summary: RepliesSummary) -> str:
    run = summary.evidence.run
    parts = [
        questions(run.manifest.questions),
        counted(run.manifest.cases, "case", "cases"),
        counted(len(run.systems), "system", "systems"),
        counted(len(run.replies), "reply", "replies"),
    ]
    return " · ".join(parts) + " · out-of-knowledge-base suite"


def _kinds(summary: RepliesSummary) -> tuple[KindLine, ...]:
    counts: dict[CaseKind, int] = {}
    for case in summary.evidence.run.cases.values():
        counts[case.kind] = counts.get(case.kind, 0) + 1
    return tuple(
        KindLine(*words, counts[kind]) for kind, words in _KINDS.items() if counts.get(kind)
    )


def _bases(summary: RepliesSummary, names: Mapping[str, str]) -> tuple[BaseView, ...]:
    heading = heading_of(summary.evidence, varying(tuple(summary.evidence.run.systems.values())))
    views = []
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
            title = f"{shortened(base, 60) or 'Knowledge base without a name'}: {questions(most)}"
        views.append(BaseView(title, number, shape_table(heading, shapes)))
    return tuple(views)


def _held_out(summary: RepliesSummary, names: Mapping[str, str]) -> Table | None:
    shapes = {
        names[one.system.system_id]: one.held_out
        for one in summary.systems
        if one.held_out is not None and one.held_out_bases
    }
    return shape_table("Guarded system", shapes) if shapes else None


def _other_names(summary: RepliesSummary) -> dict[str, str]:
    return {one.base: shortened(one.base, 60) for one in summary.differences if one.run}


def _compared_words(summary: RepliesSummary) -> str:
    tests = sum(len(one.differences) for one in summary.differences)
    return (
        f"The p-values are McNemar’s, adjusted by Holm’s method for all {tests} tests shown here; "
        "● marks those of at most 0.05."
    )


def _topics_words(summary: RepliesSummary) -> str:
    how = {
        "topic": "Topics as the questions name them.",
        "source": "Topics are the sources that the questions come from.",
        "clusters": "The questions name no topics: these were found by grouping questions of "
        "like meaning (embeddings, k-means with a fixed seed), and are called by the words that "
        "set them apart. Read them as a rough map.",
        "word_clusters": "The questions name no topics: these were found by grouping questions "
        "of like words (k-means with a fixed seed; there are too many questions to embed, or no "
        "embedding model), and are called by the words that set them apart. Read them as a very "
        "rough map.",
    }[summary.topics.how]
    more = len(summary.topics.topics) - _MOST_TOPICS
    return f"{how} Not shown: {more} smaller ones." if more > 0 else how


def _elsewhere(summary: RepliesSummary) -> tuple[ElsewhereLine, ...]:
    run = summary.evidence.run
    lines = []
    for found in (summary.left_out_check or ())[:_SHOWN_ELSEWHERE]:
        asked, held = run.questions.get(found.question_id), run.passages.get(found.passage_id)
        similarity = "" if found.similarity is None else f", similarity {decimal(found.similarity)}"
        lines.append(
            ElsewhereLine(
                shortened(found.question_id if asked is None else asked.question, 240),
                shortened(found.passage_id if held is None else held.text, 240),
                one_line(found.how).replace("_", " ") + similarity,
            )
        )
    return tuple(lines)
