"""The report of a comparison of scorers: a table, differences, a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...report import (
    Cell,
    Colour,
    Document,
    Facts,
    Line,
    Plot,
    Prose,
    Section,
    Table,
    counted,
    decimal,
    explained,
    percent,
)
from ._scorer_comparison import ScorerComparison, ScorerNumbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (
    Colour.BLUE, Colour.VERMILION, Colour.INK, Colour.AMBER, Colour.PURPLE, Colour.SKY, Colour.GREY,
)  # fmt: skip
_STYLES = ("-", "--", "-.", ":")
_HOW_TO_READ = (
    "Each question was asked twice: with the whole knowledge base, and with its own passage left "
    "out. All scorers judged the same retrieved passages.",
    "AUROC is the chance that a scorer gives a higher score where the passage was retrieved than "
    "where it was left out. False abstention is the share of the answerable questions that are "
    "abstained from where the share of left-out questions named above passes: on these questions, "
    "without a guarantee. `knowgate calibrate` gives one, at a somewhat stricter threshold.",
    "A case that a scorer failed on counts as one that is abstained from, as the guard does. "
    "Milliseconds are the median per question, without retrieval, with what the scorer has cached "
    "by then. Calls are those of a language model.",
)


def scorers_document(found: ScorerComparison) -> Document:
    """Make the report of a comparison of scorers."""
    missed = f", {counted(found.missed, 'retrieval miss', 'retrieval misses')} left out"
    return Document(
        name="compare-scorers",
        title="Scorers compared",
        subtitle=(
            f"{counted(found.questions, 'question')} on {counted(found.passages, 'passage')}"
            f"{missed if found.missed else ''} · {counted(len(found.scorers), 'scorer')} · "
            f"left-out questions that may pass: {percent(found.risk, exact=True)}"
        ),
        headline=(found.choice.reason,),
        warnings=_warnings(found),
        sections=[
            Section("Results", (_table(found), _differences(found))),
            Section("Coverage against leak", (_plot(found),)) if found.curves else None,
            Section("How to read this", (*_HOW_TO_READ, Prose(explained("leak"), small=True))),
            Section(
                "What was compared",
                (Facts(tuple((one.name, one.unfit or "compared") for one in found.scorers)),),
            ),
        ],
        values=found.to_dict(),
    )


def scorer_cells(one: ScorerNumbers) -> tuple[str, str, str]:
    """Return failures, milliseconds and calls of a scorer, written out."""
    failed = f"{one.failed} of {one.cases}" if one.failed else "0"
    return (
        failed,
        "–" if one.milliseconds is None else f"{one.milliseconds:.3g}",
        f"{one.calls:.3g}",
    )


def _warnings(found: ScorerComparison) -> list[str]:
    return [
        f"{one.name} failed on {one.failed} of {one.cases} cases "
        f"({', '.join(f'{n} {kind}' for kind, n in one.errors.items())})."
        for one in found.scorers
        if one.failed
    ]


def _table(found: ScorerComparison) -> Table:
    columns = (
        "AUROC",
        f"false abstention at {percent(found.risk, exact=True)} leak",
        "failed cases",
        "ms per question",
        "calls per question",
    )
    aurocs = Cell.column([one.auroc for one in found.scorers], decimal, better=1)
    lost = Cell.column([one.false_abstention for one in found.scorers], percent, better=-1)
    lines = tuple(
        Line(
            one.name,
            (auroc, abstained, *map(Cell, scorer_cells(one))),
            "chosen" if one.name == found.choice.take else "",
        )
        for one, auroc, abstained in zip(found.scorers, aurocs, lost, strict=True)
    )
    return Table("scorer", columns, lines)


def _differences(found: ScorerComparison) -> Table | None:
    if not found.differences:
        return None
    lines = tuple(
        Line(
            f"{one.first} − {one.second}",
            (Cell.difference(one.auroc, _signed), Cell.difference(one.false_abstention)),
        )
        for one in found.differences
    )
    return Table(
        "difference",
        ("AUROC", "false abstention"),
        lines,
        caption="Differences on the same questions",
        notes=(
            f"Paired bootstrap over {counted(found.passages, 'passage')}. The intervals of a "
            "column hold for all pairs together with 95 %.",
        ),
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _plot(found: ScorerComparison) -> Plot:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, (name, points) in enumerate(found.curves.items()):
            axes.plot(
                [0.0, *(point.coverage for point in points)],
                [0.0, *(point.risk for point in points)],
                color=_COLOURS[place % len(_COLOURS)],
                linestyle=_STYLES[place % len(_STYLES)],
                clip_on=False,
                label=name.replace("$", r"\$"),
            )
        axes.axhline(
            found.risk, color=Colour.GREY, linestyle=":", linewidth=1.5, label="leak asked for"
        )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("coverage: answer retrieved, share that passes")
        axes.set_ylabel("leak: answer left out, share that passes")
        axes.legend(loc="upper left")

    return Plot(
        name="coverage-leak",
        title="Coverage against leak",
        caption="Moving the threshold of a scorer moves along its curve; the lower right corner "
        "is the ideal.",
        draw=draw,
        size=(6.4, 5.0),
    )
