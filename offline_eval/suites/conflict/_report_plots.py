"""The plots of the report; drawn from numbers and fixed words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...report import Colour, Plot
from .._parts import MODEL_SYSTEM
from ._items import EvidenceKind, Task
from ._report_summary import ConflictSummary
from ._rows import REMOVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MARKS = {
    EvidenceKind.NC: ("o", Colour.BLUE),
    EvidenceKind.HPC: ("s", Colour.VERMILION),
    EvidenceKind.HPCE: ("D", Colour.PURPLE),
    EvidenceKind.LPC: ("^", Colour.AMBER),
}
_NBSP = "\N{NO-BREAK SPACE}"
_LINE, _FRAME, _STEP, _BAND = 0.62, 1.1, 0.17, 0.85
_GUARDS = "Guards are numbered in the order of the table. "


def task_plot(summary: ConflictSummary) -> Plot | None:
    """Plot accuracy by task and evidence; None where nothing was measured."""
    cells = [cell for cell in summary.cells if cell.accuracy.value is not None]
    if not cells:
        return None
    tasks = [task for task in Task if any(cell.task is task for cell in cells)]
    kinds = [kind for kind in EvidenceKind if any(cell.evidence is kind for cell in cells)]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, kind in enumerate(kinds):
            marker, colour = _MARKS[kind]
            offset = (number - (len(kinds) - 1) / 2) * _STEP
            first = True
            for cell in cells:
                if cell.evidence is kind:
                    height = tasks.index(cell.task) + offset
                    label = kind.value if first else ""
                    Plot.draw_interval(
                        axes, cell.accuracy, height, marker=marker, colour=colour, label=label
                    )
                    first = False
        _shares(axes, "share right")
        axes.set_yticks(range(len(tasks)), [task.value for task in tasks])
        axes.set_ylim(len(tasks) - 0.5, -0.5)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(kinds))

    return Plot(
        name="tasks",
        title="Accuracy by task and evidence",
        caption="NC agrees with what the model believes; HPC contradicts it plausibly, HPCE with "
        "a rationale besides, LPC implausibly. Where all marks of a task lie together, "
        f"contradiction costs nothing. 95{_NBSP}% intervals.",
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(tasks)),
    )


def suppression_plot(summary: ConflictSummary) -> Plot | None:
    """Plot instruction, removal and guards; None where nothing was measured."""
    found = summary.suppressions
    if not found:
        return None
    kinds = [kind for kind in EvidenceKind if any(one.evidence is kind for one in found)]
    guards = [
        name
        for name in dict.fromkeys(one.system for one in found)
        if name not in (MODEL_SYSTEM, REMOVES)
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        seen: set[str] = set()
        systems = [MODEL_SYSTEM, REMOVES, *guards]
        # Many guards stand closer, not among those of the next kind.
        step = min(_STEP, _BAND / len(systems))
        for one in found:
            # Guards are numbered: their names come from files of the user's.
            number = systems.index(one.system)
            name = ("told to ignore it", "passage removed")[number] if number < 2 else (
                f"guard {number - 1}"
            )  # fmt: skip
            colour = (Colour.VERMILION, Colour.BLUE, Colour.PURPLE)[min(number, 2)]
            height = kinds.index(one.evidence) + (number - (len(systems) - 1) / 2) * step
            marker = "sDov^P"[min(number, 5)]
            label = "" if name in seen else name
            Plot.draw_interval(
                axes, one.accuracy, height, marker=marker, colour=colour, label=label
            )
            seen.add(name)
        for height, kind in enumerate(kinds):
            base = next(one.closed_book.value for one in found if one.evidence is kind)
            if base is not None:
                label = "closed book" if height == 0 else ""
                axes.plot([base, base], [height - 0.38, height + 0.38], color=Colour.GREY,
                          linestyle="--", linewidth=1.4, label=label, zorder=1)  # fmt: skip
        _shares(axes, "own knowledge asked for (PK): share right")
        axes.set_yticks(range(len(kinds)), [kind.value for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4)

    return Plot(
        name="suppression",
        title="Ignoring a passage, and removing it",
        caption="How many questions are right when the model is to answer from its own "
        "knowledge, over passages that contradict it: told to ignore the passage, and with the "
        f"passage removed. {_GUARDS if guards else ''}The dashed line is the bare question "
        f"without a passage. 95{_NBSP}% intervals.",
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(kinds)),
    )


def _shares(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.grid(visible=False, axis="y")
