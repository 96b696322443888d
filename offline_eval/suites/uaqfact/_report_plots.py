"""The plot of the report; drawn from numbers and fixed words alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...report import Colour, Plot
from .._parts import MODEL_SYSTEM
from ._report_summary import UaqSummary
from ._report_tables import FORM_NAMES, TYPE_NAMES
from ._scoring import ALL, ScoreLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE, _FRAME = 0.42, 1.2


def refusal_plot(summary: UaqSummary) -> Plot | None:
    """Plot abstention rates by type; None where nothing was measured."""
    lines = [
        line
        for line in summary.strict
        if line.language == ALL and line.metrics.r_ua.value is not None
    ]
    if not lines:
        return None
    names = _names(lines)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for height, line in enumerate(lines):
            metrics = line.metrics
            ends = [rate.value for rate in (metrics.r_ua, metrics.r_ab) if rate.value is not None]
            left.plot(ends, [height] * len(ends), color=Colour.GREY, linewidth=1.2, zorder=1)
            labels = ("unanswerable", "answerable") if height == 0 else ("", "")
            Plot.draw_interval(
                left, metrics.r_ua, height, marker="o", colour=Colour.BLUE, label=labels[0]
            )
            Plot.draw_interval(
                left, metrics.r_ab, height, marker="s", colour=Colour.VERMILION, label=labels[1]
            )
            Plot.draw_interval(right, metrics.accuracy, height, marker="D", colour=Colour.BLUE)
        left.set_xlabel("share abstained")
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
        title="When it abstains",
        caption="Abstaining from the questions without an answer (blue) is right, abstaining from "
        "the others is not: the further the blue dot lies to the right of the other, the better. "
        "Right: how many of the answerable ones are answered rightly. 95\N{NO-BREAK SPACE}% "
        "intervals.",
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(lines)),
    )


def _names(lines: Sequence[ScoreLine]) -> list[str]:
    # Guards are numbered: their names come from files of the user's.
    guards = list(dict.fromkeys(line.system for line in lines if line.system != MODEL_SYSTEM))
    return [
        ("" if line.system == MODEL_SYSTEM else f"guard {guards.index(line.system) + 1}, ")
        + (FORM_NAMES[line.form] if line.type == ALL else f"– {TYPE_NAMES[line.type]}")
        for line in lines
    ]
