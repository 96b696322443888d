"""The sentences that open the report, and what to know before trusting its numbers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ...._version import __version__
from ....calibration import Interval
from ....guard.files import write_json, write_text
from ...report import (
    ReportPaths,
    SuiteReport,
    Table,
    counted,
    decimal,
    flat,
    one_line,
    paths_within,
    percent,
    questions,
    render_html,
    render_markdown,
)
from ...run import InputFile
from ._beyond import BeyondRates
from ._comparison import PUBLISHED_ABLATION, PUBLISHED_MODEL, PairedDifference
from ._metrics import MethodMetrics
from ._report_names import KIND_TITLES, SITUATIONS, Family, Situation, method_name, variant_of
from ._report_plots import draw_plots
from ._report_summary import UniKnowSummary, read_evidence, summarise
from ._report_tables import (
    WorstOfKind,
    ablation_table,
    beyond_table,
    difference_table,
    error_table,
    overall_table,
    published_table,
    situation_table,
    worst_cases,
)

_SPACE = "\u00a0"
_FEW = 30
# Of a method's replies, that may have failed where it is still compared.
_MOST_FAILED = 0.05


def headline(summary: UniKnowSummary) -> list[str]:
    """The sentences that say it all, the most important one first."""
    lines = [_best(summary)]
    for guard, base in (("guard_naive", "naive"), ("guard_coiecd", "coiecd")):
        lines.append(_guarded(summary, guard, base))
    lines.append(_against_trained(summary))
    return [line for line in lines if line]


def _best(summary: UniKnowSummary) -> str:
    ranked = sorted(
        (
            (found.overall.rely.value, name)
            for name, found in summary.main.items()
            if found.overall.rely.value is not None and not _mostly_silent(summary, name)
        ),
        key=lambda item: (-item[0], item[1]),
    )
    if not ranked:
        return "Nothing can be ranked: too many cases of this run ended in an error."
    best = summary.main[ranked[0][1]].overall.rely
    words = f"Most reliable: {one_line(ranked[0][1])}, with a Rely of {_rely(best)}"
    naive = summary.main.get("naive")
    if naive is None or ranked[0][1] == "naive" or naive.overall.rely.value is None:
        return f"{words}."
    return f"{words}; the model as it is (naive) reaches {decimal(naive.overall.rely.value)}."


def _mostly_silent(summary: UniKnowSummary, name: str) -> bool:
    """Whether a method's rates are not comparable: too many failures, or a guard shut for good."""
    found = summary.main[name]
    failed = found.failed > _MOST_FAILED * (found.failed + found.overall.cases)
    return failed or (name.startswith("guard_") and _is_shut(summary))


def _is_shut(summary: UniKnowSummary) -> bool:
    promise = summary.evidence.promise
    return promise is not None and not promise.certified


def _guarded(summary: UniKnowSummary, guard: str, base: str) -> str:
    ours, theirs = summary.main.get(guard), summary.main.get(base)
    if ours is None or theirs is None or _is_shut(summary):
        return ""
    parts = [
        _against(ours, theirs, "unknown", "declines {} of what neither context nor model knows"),
        _against(ours, theirs, "parametric_only", "is right in {} where only the model knows"),
    ]
    known = [part for part in parts if part]
    if not known:
        return ""
    return f"The guard over {base} " + ", and ".join(known) + "." + _costs(summary, guard, base)


def _costs(summary: UniKnowSummary, guard: str, base: str) -> str:
    """Where the guard is surely worse than what it guards; empty where it nowhere is."""
    found = next((d for d in summary.differences if (d.method, d.base) == (guard, base)), None)
    losses = [
        f"{-100 * difference.value:.1f} points in “{situation.title}”"
        for situation in SITUATIONS
        if found is not None
        for difference in [found.metrics[f"em_{situation.name}"]]
        if difference.value is not None and difference.high is not None and difference.high < 0
    ]
    return f" It costs {' and '.join(losses)}." if losses else ""


def _against(ours: MethodMetrics, theirs: MethodMetrics, scenario: str, words: str) -> str:
    own, base = ours.scenarios[scenario].em, theirs.scenarios[scenario].em
    if own.value is None or base.value is None:
        return ""
    return f"{words.format(percent(own.value))} ({percent(base.value)} without it)"


def _against_trained(summary: UniKnowSummary) -> str:
    if _is_shut(summary):
        return ""
    compared: list[tuple[float, PairedDifference, Interval]] = []
    for found in summary.differences:
        rely = found.metrics["rely"]
        trained = method_name(found.base).family is Family.TRAINED
        if found.method == "guard_naive" and trained and rely.value is not None:
            compared.append((rely.value, found, rely))
    if not compared:
        return ""
    # The smallest difference belongs to the best of the trained methods.
    value, found, rely = min(compared, key=lambda item: (item[0], item[1].base))
    where = "above" if value >= 0 else "below"
    ends = f"{decimal(rely.low)} to {decimal(rely.high)}"
    difference = f"95{_SPACE}% interval of guard_naive minus {found.base}: {ends}"
    return (
        f"The Rely of guard_naive lies {decimal(abs(value))} {where} that of {found.base}, the "
        f"best of the fine-tuned methods ({difference})."
    )


def _rely(interval: Interval) -> str:
    return (
        f"{decimal(interval.value)} (95{_SPACE}% interval {decimal(interval.low)} "
        f"to {decimal(interval.high)})"
    )


def warnings(summary: UniKnowSummary) -> list[str]:
    """What a reader must know before trusting the numbers; often nothing."""
    return [
        line
        for line in (
            _unfinished(summary),
            _failed(summary),
            _shut(summary),
            _uneven(summary),
            _empty(summary),
            _few(summary),
            _grouped(summary),
            _not_built(summary),
        )
        if line
    ]


def _unfinished(summary: UniKnowSummary) -> str:
    if summary.rows >= summary.rows_planned:
        return ""
    return (
        f"The run is incomplete: {summary.rows} of {summary.rows_planned} replies are there. "
        "Start the same 'knowgate eval uniknow' again: it goes on where it stopped."
    )


def _shut(summary: UniKnowSummary) -> str:
    promise = summary.evidence.promise
    if promise is None or promise.certified:
        return ""
    return f"The guards decline everything, as nothing was certified. {promise.statement}"


def _failed(summary: UniKnowSummary) -> str:
    failed = sum(sum(types.values()) for types in summary.failures.values())
    if not failed:
        return ""
    return (
        f"{counted(failed, 'reply', 'replies')} of {summary.rows} ended in an error and count in "
        "no rate: a failed call is no answer. They are listed below."
    )


def _uneven(summary: UniKnowSummary) -> str:
    rows = Counter(row.method for row in summary.evidence.rows)
    counts = {rows[name] for name in summary.main}
    if len(counts) < 2:
        return ""
    return (
        f"The methods were asked different numbers of cases ({min(counts)} to "
        f"{max(counts)}): compare them by the differences, which rest on common cases alone."
    )


def _empty(summary: UniKnowSummary) -> str:
    empty = [
        situation.title
        for situation in SITUATIONS
        if all(not found.scenarios[situation.name].cases for found in summary.main.values())
    ]
    if not empty:
        return ""
    names = ", ".join(f"“{name}”" for name in empty)
    return (
        f"No case of this run falls under {names}: that column is empty, and with it the mean "
        "of the four."
    )


def _few(summary: UniKnowSummary) -> str:
    fewest = [
        found.scenarios[situation.name].questions
        for found in summary.main.values()
        for situation in SITUATIONS
        if found.scenarios[situation.name].questions
    ]
    if not fewest or min(fewest) >= _FEW:
        return ""
    return (
        f"One of the situations rests on {questions(min(fewest))} only: mind the width of the "
        "intervals before comparing two methods."
    )


def _grouped(summary: UniKnowSummary) -> str:
    if summary.groups >= summary.questions:
        return ""
    return (
        f"{questions(summary.questions)} come from "
        f"{counted(summary.groups, 'document or subject', 'documents or subjects')}. Questions "
        "on one of them tend to go alike, and the intervals take each for independent: read "
        "them as somewhat too narrow."
    )


def _not_built(summary: UniKnowSummary) -> str:
    if not summary.problems:
        return ""
    kinds = ", ".join(
        f"{one_line(name)}: {count}" for name, count in sorted(summary.problems.items())
    )
    return f"Some contexts could not be built, and their cases are missing ({kinds})."


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
    inputs: tuple[InputFile, ...]
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


def uniknow_report(run_dir: str | os.PathLike[str]) -> SuiteReport:
    """The report of a run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate.
    """
    summary = summarise(read_evidence(run_dir))
    view = uniknow_view(summary)
    return SuiteReport(
        name="knowgate.uniknow",
        values=summary.to_dict(),
        html=lambda _gates: render_html(
            view, draw_plots(summary.main, summary.ablations), "uniknow.html"
        ),
        markdown=lambda _gates: render_markdown(view, "uniknow.md"),
    )


def write_uniknow_report(
    run_dir: str | os.PathLike[str], *, out_dir: str | os.PathLike[str] | None = None
) -> ReportPaths:
    """Write the report of a run folder; nothing is written where the run is broken.

    Args:
        run_dir: folder that `knowgate eval uniknow` wrote; of an unfinished run the
            report says so.
        out_dir: folder for the three files, made where missing; None: the run folder.

    Raises:
        InputError: a file of the run is missing, broken, empty or written by a newer
            knowgate, or the report cannot be written.
    """
    report = uniknow_report(run_dir)
    page, text = report.html(()), report.markdown(())
    paths = paths_within(run_dir if out_dir is None else out_dir)
    write_json(paths.json, report.values)
    write_text(paths.markdown, text)
    write_text(paths.html, page)
    return paths
