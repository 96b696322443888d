"""Measure several scorers on the same cases of a knowledge base, each into a run of its own.

    questions ─► cases ─► one retrieval for all ─► each scorer ─► run per scorer ─► comparison

What was measured of a scorer is kept when another one is added, and a run that was killed
continues, as with `knowgate measure`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

from ....guard.contracts import RelevanceScorer
from ....guard.engine import BiEncoderScorer
from ....guard.errors import InputError
from ....guard.signals.relevance import load_scorer
from ...report.document import Document, Facts, Prose, Section
from ...report.plots import Colour, Drawn, Plot
from ...report.prose import explained
from ...report.tables import Cell, Table
from ...report.text import UNKNOWN, decimal, percent
from ...report.writing import ReportWriter
from ...run.calls import OnProgress, Progress
from ...run.measured_run import MeasuredRun
from ...run.questions import MeasuredRow
from ...systems.served import ServedChain
from ..driver import run_suite
from ..parts import RunOptions, System, require_not_tuned_on
from ._cases import MeasuredCase
from ._measure import MeasureSuite
from ._settings import MeasureSettings
from .drawing import DOTTED
from .instruments import DocumentChain, Instruments, ServedInstruments
from .scorer_comparison import SCORERS_WORDS, MeasuredScorer, ScorerComparison

_SLUG_LENGTH = 60
_COLOURS = (
    Colour.BLUE, Colour.VERMILION, Colour.INK, Colour.AMBER, Colour.PURPLE, Colour.SKY, Colour.GREY,
)  # fmt: skip
_STYLES = ("-", "--", "-.", ":")


class TimedRow(MeasuredRow):
    """A measured case with what it cost.

    Attributes:
        milliseconds: that the scorer took, without retrieval; None where it failed.
        calls: of a language model; None where the scorer asks none.
    """

    milliseconds: float | None = None
    calls: int | None = None


class _TimedMeasure(MeasureSuite):
    """Measure signals as `knowgate measure` does, with time and calls in each row."""

    row = TimedRow
    command = "knowgate measure"

    def answer(self, cases: Sequence[MeasuredCase], system: System) -> list[MeasuredRow]:
        """Retrieve, judge, and note what judging cost; the cases come one by one."""
        assert isinstance(system, Instruments)
        # Of a scorer that counts its calls of a language model.
        before = getattr(system.scorer, "calls", None)
        (row,) = super().answer(cases, system)
        calls = system.scorer.calls - before if isinstance(before, int) else None  # type: ignore[attr-defined]
        milliseconds = None if row.error is not None else 1e3 * system.seconds
        return [TimedRow(**row.model_dump(), milliseconds=milliseconds, calls=calls)]


_TIMED = _TimedMeasure()


def compare_scorers(
    settings: MeasureSettings,
    scorers: Sequence[str],
    out: Path,
    *,
    risk: float,
    options: RunOptions | None = None,
    price: float | None = None,
) -> ScorerComparison:
    """Measure each scorer on the same cases, compare them, and write the report.

    Interrupted at any point and called again with the same arguments, it continues and asks
    nothing twice. Scorers may be added.

    Args:
        settings: of the cases and their retrieval; its `scorer` is not used.
        scorers: names for `load_scorer`, at least two.
        out: folder with a run folder for each scorer, and the report.
        risk: share α of the left-out questions that may pass, in (0, 1).
        options: retries, progress; the stage of the progress is the scorer.
        price: of a call of a language model; None where it is not known.

    Raises:
        InputError: fewer than two scorers, one that cannot be loaded, was tuned on these
            questions or is named twice; or data or folder cannot be used.
        MissingDependencyError: a package is missing.
    """
    if len(set(scorers)) < max(2, len(scorers)):
        what = "a scorer is named twice" if len(scorers) > 1 else "only one is named"
        raise InputError(what, where="--scorer", hint="name two different scorers or more")
    cases = _TIMED.limited(_TIMED.cases(settings), settings.limit)
    loaded = {name: load_scorer(name) for name in scorers}
    instruments = _instruments(settings, loaded)
    questions = {one.record.question_id: one.record.question for one in cases}
    for name, scorer in loaded.items():
        require_not_tuned_on(scorer, questions, name)
    measured, told = [], None if options is None else options.on_progress
    for name, one in instruments.items():
        own, folder = settings.model_copy(update={"scorer": name}), out / folder_name(name)
        given = options or RunOptions()
        if told is not None:
            given = replace(given, on_progress=partial(_staged, told, name))
        run_suite(_TIMED, own, folder, [one], given)
        measured.append(read_measured_scorer(name, folder))
    found = ScorerComparison(measured, risk=risk, price=price)
    ReportWriter(out).write(scorers_document(found))
    return found


def read_measured_scorer(name: str, folder: Path) -> MeasuredScorer:
    """Read what was measured of one scorer.

    Raises:
        InputError: no finished run is there.
    """
    run = MeasuredRun.read(folder, with_calibration=False)
    spent = [row for row in _TIMED.rows.read(folder) if isinstance(row, TimedRow)]
    calls = [row.calls for row in spent if row.calls is not None]
    milliseconds = tuple(row.milliseconds for row in spent if row.milliseconds is not None)
    return MeasuredScorer(name, run, milliseconds, sum(calls) if calls else None)


def folder_name(scorer: str) -> str:
    """Return the name of a scorer's run folder: readable, and different for each scorer.

    Example:
        >>> folder_name("sufficiency"), folder_name("judge:openai:gpt-4o-mini")
        ('sufficiency', 'judge_openai_gpt-4o-mini-8b852e')
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", scorer).strip("._-")[:_SLUG_LENGTH]
    if plain == scorer and plain == plain.lower():
        return plain
    # File systems may not tell upper from lower case.
    return f"{plain}-{hashlib.sha256(scorer.encode()).hexdigest()[:6]}"


def _instruments(
    settings: MeasureSettings, scorers: Mapping[str, RelevanceScorer]
) -> dict[str, Instruments]:
    """One retrieval for all scorers."""
    if not settings.served:
        encoder = BiEncoderScorer()
        return {name: Instruments(scorer, encoder) for name, scorer in scorers.items()}
    chain = (
        DocumentChain(settings, BiEncoderScorer())
        if settings.chain is None
        else ServedChain.load(settings.chain)
    )
    return {name: ServedInstruments(scorer, chain) for name, scorer in scorers.items()}


def _staged(told: OnProgress, stage: str, progress: Progress) -> None:
    told(replace(progress, stage=stage))


# -- The report: a table, differences, a plot -------------------------------------------


def scorers_document(found: ScorerComparison) -> Document:
    """Make the report of a comparison of scorers."""
    return Document(
        name="compare-scorers",
        title="Scorers compared",
        subtitle=SCORERS_WORDS.text("subtitle", found),
        headline=(found.choice.reason,),
        warnings=SCORERS_WORDS.paragraphs("warnings", found),
        sections=[
            Section("Results", (_table(found), _differences(found))),
            Section("Coverage against leak", (_plot(found),)) if found.curves else None,
            Section(
                "How to read this",
                (*SCORERS_WORDS.paragraphs("how_to_read"), Prose(explained("leak"), small=True)),
            ),
            Section(
                "What was compared",
                (Facts(tuple((one.name, one.unfit or "compared") for one in found.scorers)),),
            ),
        ],
        values=found.to_dict(),
    )


def _table(found: ScorerComparison) -> Table:
    scorers = found.scorers
    lost = f"false abstention at {percent(found.risk, exact=True)} leak"
    failed = [f"{one.failed} of {one.cases}" if one.failed else "0" for one in scorers]
    times = [
        f"{one.milliseconds:.3g}" if one.milliseconds is not None else UNKNOWN for one in scorers
    ]
    columns = [
        ("AUROC", Cell.column([one.auroc for one in scorers], decimal, better=1)),
        (lost, Cell.column([one.false_abstention for one in scorers], percent, better=-1)),
        ("failed cases", list(map(Cell, failed))),
        ("ms per question", list(map(Cell, times))),
        ("calls per question", [Cell(f"{one.calls_per_question:.3g}") for one in scorers]),
    ]
    if found.price is not None:
        costs = [Cell(found.cost_of_1000(one)) for one in scorers]
        columns.append(("cost of 1,000 questions", costs))
    table = Table.from_columns("scorer", [one.name for one in scorers], columns)
    taken = found.choice.take
    lines = (replace(one, mark="chosen" if one.name == taken else "") for one in table.lines)
    return replace(table, lines=tuple(lines))


def _differences(found: ScorerComparison) -> Table | None:
    if not found.differences:
        return None
    auroc = [Cell.difference(one.auroc, "{:+.3f}".format) for one in found.differences]
    lost = [Cell.difference(one.false_abstention) for one in found.differences]
    return Table.from_columns(
        "difference",
        [f"{one.first} − {one.second}" for one in found.differences],
        [("AUROC", auroc), ("false abstention", lost)],
        caption="Differences on the same questions",
        notes=(SCORERS_WORDS.text("notes", found.passages),),
    )


def _plot(found: ScorerComparison) -> Plot:
    drawn: list[Drawn] = []
    looks = zip(cycle(_COLOURS), cycle(_STYLES), found.curves.items(), strict=False)
    for colour, style, (name, points) in looks:
        curve = [0.0, *(one.coverage for one in points)], [0.0, *(one.risk for one in points)]
        look = {"color": colour, "linestyle": style, "clip_on": False}
        drawn.append(("plot", curve, {**look, "label": name.replace("$", r"\$")}))
    bound = {"color": Colour.GREY, **DOTTED, "label": "leak asked for"}
    caption = (
        "Moving the threshold of a scorer moves along its curve; the lower right corner is the "
        "ideal."
    )
    return Plot.of_shares(
        ("coverage-leak", "Coverage against leak", caption),
        [*drawn, ("axhline", (found.risk,), bound)],
        (
            "coverage: answer retrieved, share that passes",
            "leak: answer left out, share that passes",
        ),
        legend="upper left",
        size=(6.4, 5.0),
        half=False,
    )
