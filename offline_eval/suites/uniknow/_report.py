"""The report of a run of the UniKnow suite: which method uses which knowledge when.

    run folder ─► checked_run ─► summarise_uniknow ─► uniknow_document ─► a file per format

The same run folder gives the same bytes, wherever it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...report import Document, Prose, Section, Table, counted, decimal
from ._comparison import PUBLISHED_ABLATION, PUBLISHED_MODEL
from ._metrics import MethodMetrics
from ._report_cases import worst_cases
from ._report_names import KIND_TITLES, SITUATIONS, method_name, variant_of
from ._report_plots import (
    abstention_share_plot,
    context_kind_plot,
    outcome_plot,
    rely_plot,
    situation_plot,
)
from ._report_prose import headline, warnings
from ._report_summary import UniKnowSummary
from ._report_tables import (
    ablation_table,
    beyond_table,
    difference_table,
    error_table,
    overall_table,
    published_table,
    situation_table,
)
from ._report_what_if import uniknow_what_if

_TESTED = (
    "A language model can answer from two sources: what it learned in training (its memory), and "
    "the text before the question (the context). Each can hold the answer, or not. Every question "
    "was asked with several contexts: one that states the answer, one in which the answer was "
    "replaced by another, and two that do not hold it. Together with what the model knows, that "
    "makes four situations:"
)
_KNOWN = (
    "What the model knows was measured by asking it each question several times without any "
    "context: it knows a question if most of the sampled answers are right, and does not know it "
    "if none is."
)
_RIGHT = (
    "An answer counts as right if it is the wanted one word for word, capitals, punctuation and "
    "articles aside."
)
_TRAINING = (
    "“abstention=” is the share of training examples whose target is to abstain, “without=” names "
    "kinds of contexts left out of the training."
)
_BEYOND = (
    "These contexts go beyond the four situations and enter no number above. “As wanted” leaves "
    "out questions where sampling did not settle what the model knows; “misled” is an answer that "
    "only an untrue passage gives."
)
_PUBLISHED = (
    f"Published, other model, for orientation: {PUBLISHED_MODEL}, exact match averaged over seven "
    "public data sets; Rely on NaturalQuestions alone, where it is available. Beneath each is what "
    "this run found with its own model and data. The two are not comparable number by number; what "
    "can be compared is which method gains where."
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
            (
                "For each kind of context the cases that most methods got wrong; equal replies "
                "are shown once.",
                *worst,
            )
            if worst
            else ("No method got any case wrong.",),
        ),
        _failures(summary),
        Section("What the paper published", (_PUBLISHED, published_table(summary.main))),
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
    known, unknown, undefined = (
        summary.knowledge[name] for name in ("known", "unknown", "undefined")
    )
    knows = (
        f"By that measure the model knows {known} of {counted(summary.questions, 'question')}, "
        f"does not know {unknown}, and for {undefined} sampling did not settle it: these are in no "
        "situation, and count in Rely and its parts alone."
    )
    return Section("What was tested", (_TESTED, situations, f"{_KNOWN} {knows}", _RIGHT))


def _methods(methods: Mapping[str, MethodMetrics]) -> Section | None:
    meanings = tuple((name, meaning) for name in methods if (meaning := method_name(name).meaning))
    return Section("The methods", (Prose(meanings, bullets=True),)) if meanings else None


def _ablations(summary: UniKnowSummary) -> Section | None:
    if len(summary.main) == len(summary.methods):
        return None
    parts = (
        f"{'without ' + ' and '.join(row.without) if row.without else 'full training'} "
        f"{decimal(row.rely)}"
        for row in PUBLISHED_ABLATION
    )
    published = (
        f"Published for {PUBLISHED_MODEL} on TriviaQA, for orientation: Rely {', '.join(parts)}."
    )
    return Section(
        "What the training needs",
        (
            abstention_share_plot(summary.ablations.shares),
            context_kind_plot(summary.ablations.left_out),
            ablation_table(summary),
            Prose((_TRAINING, published), small=True),
        ),
    )


def _beyond(summary: UniKnowSummary) -> Section | None:
    if not summary.beyond:
        return None
    parts = []
    for kind, by_method in summary.beyond.items():
        title, meaning = KIND_TITLES[kind]
        shown = {name: found for name, found in by_method.items() if variant_of(name) is None}
        parts.append(Section(title, (Prose((meaning,), small=True), beyond_table(shown, kind))))
    return Section("More than one passage, and untrue ones", (_BEYOND, *parts))


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
