"""The plots of the report of this suite; drawn from numbers and names of methods alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ....calibration import Interval
from ...report.plots import Colour, Plot
from ._metrics import MethodMetrics, Outcome
from ._summary import CONTENT, SITUATIONS, plain, shown_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MARKS = {
    "prompt only": ("o", Colour.GREY),
    "decoding": ("^", Colour.AMBER),
    "fine-tuned": ("s", Colour.BLUE),
    "guarded": ("D", Colour.VERMILION),
    "other": ("X", Colour.PURPLE),
}
# Height per method, and of axis and legend, in inches.
_LINE, _FRAME = 0.34, 1.0
_MARGIN = 0.03


def _plot(name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> Plot:
    return Plot(name=name, **CONTENT["plots"][name], draw=draw, size=size)


def situation_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot exact match by situation; None without methods."""
    if not methods:
        return None
    labels = _labels(methods)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(SITUATIONS), sharey=True)
        for panel, situation in zip(panels, SITUATIONS, strict=True):
            for line, (name, found) in enumerate(methods.items()):
                _dot(panel, found.scenarios[situation["name"]]["em"], line, name)
            panel.set_xlim(-_MARGIN, 1 + _MARGIN)
            panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
            panel.set_title(f"{situation['title']}\n({situation['letter']})", fontsize=10)
            panel.grid(visible=False, axis="y")
        Plot.name_lines(panels[0], labels)

    return _plot("situations", draw, (8.4, _FRAME + _LINE * len(labels)))


def outcome_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot the outcomes of the cases as stacked bars; None without methods."""
    if not methods:
        return None
    labels = _labels(methods)

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        parts = [
            (
                words,
                Colour[colour],
                [found.outcomes[Outcome(outcome)].value or 0.0 for found in methods.values()],
            )
            for outcome, (_, words, colour) in CONTENT["outcomes"].items()
        ]
        Plot.draw_bars(axes, parts, labels)
        axes.set_xlabel("share of cases")
        figure.legend(loc="outside upper center", ncols=3)

    return _plot("outcomes", draw, (8.4, 1.35 + _LINE * len(labels)))


def rely_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot accuracy against reliability; None where neither is known."""
    points = [
        (label, shown_method(name)[0], found.overall["acc"].value, found.overall["rely"].value)
        for (name, found), label in zip(methods.items(), _labels(methods), strict=True)
    ]
    known = [
        (label, family, acc, rely)
        for label, family, acc, rely in points
        if acc is not None and rely is not None
    ]
    if not known:
        return None

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        values = [value for point in known for value in point[2:]]
        low, high = Plot.window(min(values) - 0.05, max(values) + 0.05, least=0.25, margin=_MARGIN)
        _iso_lines(axes, low, high)
        for family, (mark, colour) in _MARKS.items():
            own = [point for point in known if point[1] == family]
            if own:
                axes.plot(
                    [point[2] for point in own],
                    [point[3] for point in own],
                    marker=mark,
                    color=colour,
                    linestyle="none",
                    markersize=9,
                    markeredgecolor=Colour.PAPER,
                    zorder=5,
                    label=family,
                )
        named = [(f"{label}  {rely:.2f}", acc, rely) for label, _, acc, rely in known]
        Plot.name_points(axes, named, (low, high), (low, high))
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")
        axes.set_xlabel("Acc: share of right answers")
        axes.set_ylabel("Rely: reliability")
        figure.legend(loc="outside upper center", ncols=5, handletextpad=0.2, columnspacing=1.2)

    return _plot("acc-rely", draw, (8.0, 6.2))


def _labels(methods: Mapping[str, MethodMetrics]) -> list[str]:
    return [plain(name, position) for position, name in enumerate(methods)]


def _dot(axes: Axes, interval: Interval, line: int, method: str) -> None:
    mark, colour = _MARKS[shown_method(method)[0]]
    Plot.draw_interval(axes, interval, line, marker=mark, colour=colour)


def _iso_lines(axes: Axes, low: float, high: float) -> None:
    for abstained in (0.0, 0.1, 0.25, 0.5):
        lift = abstained * (1 - abstained)
        axes.plot(
            [low, high],
            [low + lift, high + lift],
            color=Colour.INK if abstained == 0 else Colour.GREY,
            linestyle="-" if abstained == 0 else ":",
            linewidth=1.2,
            zorder=1,
        )
        if high - lift > low:
            axes.annotate(
                f"{abstained:.0%}",
                xy=(high - lift, high),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                annotation_clip=False,
            )
