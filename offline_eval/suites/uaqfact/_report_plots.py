"""The plots of the report; drawn from numbers and fixed words alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....calibration import Interval
from ...report import BLUE, GREY, VERMILION, Plot, draw_svg
from ._plan import MODEL_SYSTEM
from ._report_summary import UaqSummary
from ._report_view import FORM_WORDS, TYPE_WORDS
from ._scoring import ALL, ScoreLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LINE, _FRAME = 0.42, 1.2


def draw_plots(summary: UaqSummary) -> list[Plot]:
    """Refusal rates by type; nothing where nothing was measured."""
    lines = [
        line
        for line in summary.strict
        if line.language == ALL and line.metrics.r_ua.value is not None
    ]
    return [_refusals(lines)] if lines else []


def _refusals(lines: Sequence[ScoreLine]) -> Plot:
    names = _names(lines)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for height, line in enumerate(lines):
            metrics = line.metrics
            ends = [
                value for value in (metrics.r_ua.value, metrics.r_ab.value) if value is not None
            ]
            left.plot(ends, [height] * len(ends), color=GREY, linewidth=1.2, zorder=1)
            _dot(left, metrics.r_ua, height, BLUE, "o", "unanswerable")
            _dot(left, metrics.r_ab, height, VERMILION, "s", "answerable")
            _dot(right, metrics.accuracy, height, BLUE, "D", "")
        left.set_xlabel("share declined")
        right.set_xlabel("answerable: share right")
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        for axes in (left, right):
            axes.set_xlim(-0.03, 1.03)
            axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
            axes.grid(visible=False, axis="y")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2)

    return Plot(
        name="refusals",
        title="Who declines what",
        caption="Declining the questions without an answer (blue) is right, declining the others "
        "is not: the further the blue dot lies to the right of the other, the better. Right: how "
        "many of the answerable ones are answered rightly. 95\N{NO-BREAK SPACE}% intervals.",
        svg=draw_svg("refusals", draw, (8.4, _FRAME + _LINE * len(lines))),
    )


def _dot(axes: Axes, interval: Interval, height: int, colour: str, marker: str, label: str) -> None:
    if interval.value is None or interval.low is None or interval.high is None:
        return
    axes.errorbar(
        [interval.value],
        [height],
        xerr=[[interval.value - interval.low], [interval.high - interval.value]],
        color=colour,
        marker=marker,
        markersize=6,
        elinewidth=1.3,
        linestyle="none",
        label=label if height == 0 else "",
        zorder=3,
    )


def _names(lines: Sequence[ScoreLine]) -> list[str]:
    # Guards are numbered: their names come from files of the user's.
    guards = list(dict.fromkeys(line.system for line in lines if line.system != MODEL_SYSTEM))
    return [
        ("" if line.system == MODEL_SYSTEM else f"guard {guards.index(line.system) + 1}, ")
        + (FORM_WORDS[line.form] if line.type == ALL else f"– {TYPE_WORDS[line.type]}")
        for line in lines
    ]
