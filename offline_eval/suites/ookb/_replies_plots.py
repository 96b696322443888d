"""The plots of the report of a run of replies; drawn from numbers and plain names alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....calibration import Interval
from ...report.plots import Colour, Plot
from ...run.replies import ReplySystem
from ._replies import ReplyCounts, plain_labels
from ._replies_summary import RepliesSummary
from ._replies_what_if import REPLIES_WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_BASES = 6
_LOOKS = (
    ("o", Colour.BLUE),
    ("s", Colour.VERMILION),
    ("^", Colour.AMBER),
    ("D", Colour.PURPLE),
    ("v", Colour.SKY),
    ("X", Colour.GREY),
)
_BARS = (
    ("abstained", Colour.SKY),
    ("right (tier 1)", Colour.BLUE),
    ("nearly right (tier 2)", Colour.AMBER),
    ("wrong (tier 3)", Colour.VERMILION),
    ("not judged", Colour.GREY),
)
_LINE, _FRAME, _MARGIN = 0.34, 1.2, 0.02
_Ends = tuple[float, float, float]


def shown_bases(summary: RepliesSummary) -> list[str | None]:
    """List the knowledge bases with plots and tables of their own; None: all in one."""
    names = list(summary.knowledge_bases)
    return [*names] if 1 < len(names) <= MAX_BASES else [None]


def base_counts(summary: RepliesSummary, base: str | None) -> dict[str, ReplyCounts]:
    """Count per system the replies to questions outside the knowledge base."""
    found = {}
    for one in summary.systems:
        shape = one.shape if base is None else one.knowledge_bases.get(base)
        if shape is not None and shape.out_of_kb.n:
            found[one.system.system_id] = shape.out_of_kb
    return found


def base_plots(
    summary: RepliesSummary, base: str | None, number: int
) -> tuple[Plot | None, Plot | None]:
    """Plot a knowledge base: a scatter and bars; None where there is nothing to draw.

    Args:
        summary: of the run.
        base: its name; None for all together.
        number: tells the plots of one page apart.
    """
    systems, names = summary.evidence.run.systems, plain_labels(summary.names)
    counts = base_counts(summary, base)
    return (
        _scatter(f"scatter-{number}", counts, _groups(systems), names),
        _bars(f"outcomes-{number}", counts, names),
    )


def _scatter(
    name: str,
    counts: Mapping[str, ReplyCounts],
    groups: Mapping[str, str],
    names: Mapping[str, str],
) -> Plot | None:
    points = {
        system: (_ends(found.abstention_rate), _ends(found.factuality_rate))
        for system, found in counts.items()
        if found.abstention_rate.value is not None and found.factuality_rate.value is not None
    }
    if not points:
        return None
    silent = [names[system] for system, found in counts.items() if found.answered == 0 and found.n]
    across, upward = (
        Plot.window(
            min(point[side][1] for point in points.values()) - _MARGIN,
            max(point[side][2] for point in points.values()) + _MARGIN,
            least=1 / 3,
            margin=_MARGIN,
        )
        for side in (0, 1)
    )

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for (mark, colour), group in zip(_LOOKS, dict.fromkeys(groups.values()), strict=False):
            own = [point for system, point in points.items() if groups[system] == group]
            if own:
                _error_bars(axes, own, mark, colour, group)
        axes.set_xlim(*across)
        axes.set_ylim(*upward)
        axes.set_xlabel("abstained, of all replies")
        axes.set_ylabel("right or nearly so, of those answered")
        named = [(names[system], one[0][0], one[1][0]) for system, one in points.items()]
        Plot.name_points(axes, named, across, upward)
        if len(set(groups.values())) > 1:
            figure.legend(loc="outside upper center", ncols=4, handletextpad=0.2)

    return Plot(
        name=name,
        title="Abstaining against being right",
        caption=REPLIES_WORDS.text("caption_of_scatter", silent),
        draw=draw,
        size=(8.2, max(5.6, 1.2 + 0.3 * len(points))),
    )


def _ends(rate: Interval) -> _Ends:
    """The value, and the ends of its interval, those of the scale where it has none."""
    return rate.value or 0.0, rate.low or 0.0, 1.0 if rate.high is None else rate.high


def _error_bars(
    axes: Axes, points: Sequence[tuple[_Ends, _Ends]], mark: str, colour: str, group: str
) -> None:
    bars = []
    for side in (0, 1):
        ends = [point[side] for point in points]
        bars.append([[one[0] - one[1] for one in ends], [one[2] - one[0] for one in ends]])
    axes.errorbar(
        [across[0] for across, _ in points],
        [upward[0] for _, upward in points],
        xerr=bars[0],
        yerr=bars[1],
        fmt=mark,
        color=colour,
        ecolor=colour,
        elinewidth=1.0,
        alpha=0.9,
        markersize=8,
        markeredgecolor=Colour.PAPER,
        zorder=5,
        label=group,
    )


def _bars(name: str, counts: Mapping[str, ReplyCounts], names: Mapping[str, str]) -> Plot | None:
    judged = {system: found for system, found in counts.items() if found.abstained is not None}
    if not judged:
        return None
    lines = [_parts(found) for found in judged.values()]
    columns = zip(_BARS, zip(*lines, strict=True), strict=True)
    parts = [(*look, widths) for look, widths in columns if any(widths)]

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        Plot.draw_bars(axes, parts, [names[system] for system in judged])
        axes.set_xlabel("share of replies")
        figure.legend(loc="outside upper center", ncols=5, fontsize=9, columnspacing=1.0)

    return Plot(
        name=name,
        title="Outcomes of the replies",
        caption=REPLIES_WORDS.text("caption_of_outcomes"),
        draw=draw,
        size=(8.2, _FRAME + _LINE * len(lines)),
    )


def _parts(found: ReplyCounts) -> list[float]:
    """Compute shares of all replies, in the order of the legend."""
    tiers = [count or 0 for count in found.tiers]
    abstained = found.abstained or 0
    counts = [abstained, *tiers, found.n - abstained - sum(tiers)]
    return [count / found.n for count in counts]


def _groups(systems: Mapping[str, ReplySystem]) -> dict[str, str]:
    """Group the systems by the factor that colours stand for: one with few values."""
    for factor in ("guard", "retrieval", "model", "prompt"):
        values = dict.fromkeys(getattr(system, factor) for system in systems.values())
        if 1 < len(values) <= len(_LOOKS):
            shown = plain_labels({value: f"{factor} {value or 'unknown'}" for value in values})
            return {name: shown[getattr(system, factor)] for name, system in systems.items()}
    return dict.fromkeys(systems, "")
