"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...._version import __version__
from ...uniknow._artefacts import SourceFile
from ...uniknow._beyond import BeyondRates
from ...uniknow._published import PUBLISHED_ABLATION, PUBLISHED_MODEL
from .._escaping import one_line
from .._grid import Table
from .._numbers import counted, decimal, flat, questions
from ._names import KIND_TITLES, SITUATIONS, Situation, variant_of
from ._summary import UniKnowSummary
from ._tables import (
    ablation_table,
    beyond_table,
    difference_table,
    error_table,
    overall_table,
    published_table,
    situation_table,
)
from ._words import headline, warnings
from ._worst import WorstOfKind, worst_cases


@dataclass(frozen=True, slots=True)
class SituationLine:
    """A situation with what was tested in it: the most that any method was measured on."""

    situation: Situation
    questions: int
    cases: int


@dataclass(frozen=True, slots=True)
class BeyondView:
    """A kind of context beyond the paper."""

    title: str
    meaning: str
    table: Table


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed rows of one method and type of error."""

    method: str
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class UniKnowView:
    """Everything that both templates show.

    Attributes:
        title: names the data.
        subtitle: what was run, in one line.
        headline: sentences, the most important one first.
        warnings: what to know before trusting the numbers.
        situations: what was tested.
        knowledge: what sampling said of the model, in one sentence.
        by_situation: exact match.
        overall: Rely and what it is made of.
        errors: by type.
        differences: guard against base; None without a guard.
        ablations: variants of trained methods; None without any.
        published_ablation: the paper's numbers for them, in one sentence.
        beyond: kinds of contexts beyond the paper.
        worst: cases worth reading.
        failures: by method and type.
        left_out: methods that were not run, with the reason.
        published: the paper's numbers.
        published_model: whose they are.
        settings: flat name and value pairs.
        inputs: with hashes.
        versions: programs that wrote run and report.
    """

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    situations: tuple[SituationLine, ...]
    knowledge: str
    by_situation: Table
    overall: Table
    errors: Table
    differences: Table | None
    ablations: Table | None
    published_ablation: str
    beyond: tuple[BeyondView, ...]
    worst: tuple[WorstOfKind, ...]
    failures: tuple[Failure, ...]
    left_out: tuple[tuple[str, str], ...]
    published: Table
    published_model: str
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[SourceFile, ...]
    versions: tuple[tuple[str, str], ...]


def uniknow_view(summary: UniKnowSummary) -> UniKnowView:
    """The view of a summarised run."""
    evidence = summary.evidence
    datasets = sorted({case.dataset for case in evidence.cases.values()})
    names = ", ".join(one_line(name) for name in datasets)
    measured = {name: found for name, found in summary.main.items() if found.overall.cases}
    return UniKnowView(
        title=f"Knowledge scenarios: {names}" if names else "Knowledge scenarios",
        subtitle=(
            f"{questions(summary.questions)}, {counted(len(evidence.cases), 'case', 'cases')}, "
            f"{counted(len(summary.main), 'method', 'methods')} · UniKnow suite"
        ),
        headline=tuple(headline(summary)),
        warnings=tuple(warnings(summary)),
        situations=_situations(summary),
        knowledge=_knowledge(summary),
        by_situation=situation_table(measured),
        overall=overall_table(measured),
        errors=error_table(measured),
        differences=difference_table(summary.differences) if summary.differences else None,
        ablations=ablation_table(summary) if len(summary.main) < len(summary.methods) else None,
        published_ablation=_published_ablation(),
        beyond=tuple(
            BeyondView(*KIND_TITLES[kind], beyond_table(_without_ablations(by_method), kind))
            for kind, by_method in summary.beyond.items()
        ),
        worst=tuple(worst_cases(evidence)),
        failures=tuple(
            Failure(one_line(method), one_line(kind), count)
            for method, types in summary.failures.items()
            for kind, count in types.items()
        ),
        left_out=tuple(
            (one_line(name), one_line(reason)) for name, reason in evidence.left_out.items()
        ),
        published=published_table(summary.main),
        published_model=PUBLISHED_MODEL,
        settings=tuple(flat("", dict(evidence.settings))),
        inputs=evidence.inputs,
        versions=(
            ("run written by", one_line(evidence.created_by) or "–"),
            ("report written by", f"knowgate {__version__}"),
        ),
    )


def _without_ablations(by_method: Mapping[str, BeyondRates]) -> dict[str, BeyondRates]:
    return {name: found for name, found in by_method.items() if variant_of(name) is None}


def _situations(summary: UniKnowSummary) -> tuple[SituationLine, ...]:
    def most(name: str, what: str) -> int:
        counts = [getattr(found.scenarios[name], what) for found in summary.main.values()]
        return max(counts, default=0)

    return tuple(
        SituationLine(situation, most(situation.name, "questions"), most(situation.name, "cases"))
        for situation in SITUATIONS
    )


def _knowledge(summary: UniKnowSummary) -> str:
    known, unknown, undefined = (
        summary.knowledge[name] for name in ("known", "unknown", "undefined")
    )
    return (
        f"By that measure the model knows {known} of {questions(summary.questions)}, does not "
        f"know {unknown}, and for {undefined} sampling left it open: these are in no situation, "
        "and count in Rely and its parts alone."
    )


def _published_ablation() -> str:
    parts = [
        f"{'without ' + ' and '.join(row.without) if row.without else 'full training'} "
        f"{decimal(row.rely)}"
        for row in PUBLISHED_ABLATION
    ]
    return f"Published for {PUBLISHED_MODEL} on TriviaQA, for orientation: Rely " + ", ".join(parts)
