"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictSummary ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....calibration import Interval
from ....guard.decision import Route
from ...report.document import (
    Block,
    Case,
    CaseLine,
    Cases,
    Document,
    Facts,
    Passages,
    Prose,
    Section,
)
from ...report.plots import Colour, Plot
from ...report.prose import Templates, explained
from ...report.tables import Cell, Table, Text
from ...report.text import decimal, one_line
from ...run.grouping import grouped
from ..parts import MODEL_SYSTEM, closing_sections
from ._rows import CLOSED_BOOK, REMOVES, ConflictRow, Instance
from ._scoring import ConflictSummary, Found
from .items import EvidenceKind, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {
    EvidenceKind.NC: ("o", Colour.BLUE),
    EvidenceKind.HPC: ("s", Colour.VERMILION),
    EvidenceKind.HPCE: ("D", Colour.PURPLE),
    EvidenceKind.LPC: ("^", Colour.AMBER),
}
TEXTS = Templates(Path(__file__).parent / "report.txt")
_LINE, _FRAME, _STEP, _BAND = 0.62, 1.1, 0.17, 0.85


def task_plot(summary: ConflictSummary) -> Plot | None:
    """Plot accuracy by task and evidence; None where nothing was measured."""
    found = {
        place: cell["accuracy"]
        for place, cell in summary.cells.items()
        if cell["accuracy"].value is not None
    }
    tasks = list(dict.fromkeys(task for task, _ in found))
    kinds = [kind for kind in EvidenceKind if any(kind is one for _, one in found)]

    def draw(figure: Figure) -> None:
        points = {
            (tasks.index(task), kinds.index(kind)): share for (task, kind), share in found.items()
        }
        series = [(kind.value, *_MARKS[kind]) for kind in kinds]
        _draw_legend(figure, _draw_dots(figure, points, series, tasks, "share right"))

    if not found:
        return None
    return Plot(
        name="tasks",
        title="Accuracy by task and evidence",
        caption=TEXTS.text("tasks_caption"),
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(tasks)),
    )


def suppression_plot(summary: ConflictSummary) -> Plot | None:
    """Plot instruction, removal and guards; None where nothing was measured."""
    found = summary.suppressions
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    systems = list(dict.fromkeys([MODEL_SYSTEM, REMOVES, *(system for _, system in found)]))

    def draw(figure: Figure) -> None:
        points = {
            (kinds.index(kind), systems.index(system)): one["accuracy"]
            for (kind, system), one in found.items()
        }
        # Guards are numbered: their names come from files of the user's.
        names = ["told to ignore it", "passage removed", *map("guard {}".format, range(1, 99))]
        colours = (Colour.VERMILION, Colour.BLUE, Colour.PURPLE)
        series = [
            (names[number], "sDov^P"[min(number, 5)], colours[min(number, 2)])
            for number in range(len(systems))
        ]
        axes = _draw_dots(
            figure, points, series, kinds, "own knowledge asked for (PK): share right"
        )
        for height, kind in enumerate(kinds):
            base = next(
                one["closed_book"].value for (other, _), one in found.items() if other is kind
            )
            if base is not None:
                label = "closed book" if height == 0 else ""
                axes.plot([base, base], [height - 0.38, height + 0.38], color=Colour.GREY,
                          linestyle="--", linewidth=1.4, label=label, zorder=1)  # fmt: skip
        _draw_legend(figure, axes)

    if not found:
        return None
    return Plot(
        name="suppression",
        title="Ignoring a passage, and removing it",
        caption=TEXTS.text("suppression_caption", systems[2:]),
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(kinds)),
    )


def _draw_dots(
    figure: Figure,
    points: Mapping[tuple[int, int], Interval],
    series: Sequence[tuple[str, str, Colour]],
    lines: Sequence[str],
    axis: str,
) -> Axes:
    """Draw intervals beside each other on the lines.

    Args:
        figure: that is drawn into.
        points: by number of the line and of the series.
        series: label, marker and colour of each.
        lines: their names.
        axis: label of the axis of shares.
    """
    axes: Axes = figure.subplots()
    # Many series stand closer, not among those of the next line.
    step = min(_STEP, _BAND / len(series))
    named: set[int] = set()
    for (line, number), share in points.items():
        label, marker, colour = series[number]
        height = line + (number - (len(series) - 1) / 2) * step
        label = "" if number in named else label
        Plot.draw_interval(axes, share, height, marker=marker, colour=colour, label=label)
        named.add(number)
    axes.set_xlabel(axis)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.grid(visible=False, axis="y")
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    return axes


def _draw_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=4)


_KIND_NAMES = {
    EvidenceKind.NC: "agrees with the belief",
    EvidenceKind.HPC: "contradicts it, plausibly",
    EvidenceKind.HPCE: "the same with a rationale",
    EvidenceKind.LPC: "contradicts it, implausibly",
}
_TASK_NAMES = {
    Task.KF: "copy the answering sentence",
    Task.CK: "answer from the context only",
    Task.PK: "answer from own knowledge only",
    Task.PCK: "give both views",
    Task.RAG: "two passages, no instruction which to prefer",
}
_SYSTEM_NAMES = {
    MODEL_SYSTEM: "told to ignore the passage",
    CLOSED_BOOK: "closed book",
    REMOVES: "passage removed",
}
_Columns = Mapping[str, tuple[Any, Callable[[Any], Cell]]]


def _count(number: int) -> Cell:
    return Cell(str(number))


def _table(
    name: str, lines: Mapping[str, Mapping[Any, Any]], columns: _Columns, notes: str = ""
) -> Table | None:
    """Make a table; None without lines.

    Args:
        name: heading of the lines' names.
        lines: values of each line by key.
        columns: by heading the key of the value, and what makes its cell.
        notes: name of the notes' text.
    """
    cells = [
        (heading, [make(found.get(key)) for found in lines.values()])
        for heading, (key, make) in columns.items()
    ]
    texts: tuple[Text, ...] = TEXTS.terms(notes) if notes else ()
    return Table.from_columns(name, list(lines), cells, notes=texts) if lines else None


def _by_task(found: Iterable[tuple[tuple[Task, EvidenceKind], Any]]) -> dict[Task, Found]:
    lines: dict[Task, Found] = {}
    for (task, kind), value in found:
        lines.setdefault(task, {})[kind] = value
    return lines


def task_table(summary: ConflictSummary, share: str, notes: str = "") -> Table | None:
    """Make the table of accuracy by task and evidence, or that of the high-confidence subset."""
    found = (
        (place, cell[share])
        for place, cell in summary.cells.items()
        if share != "confident" or cell[share].n
    )
    lines = {f"{task}: {_TASK_NAMES[task]}": line for task, line in _by_task(found).items()}
    columns = {_kind_name(kind): (kind, Cell.estimate) for kind in summary.run.kinds}
    return _table("Task", lines, columns, notes)


def _kind_name(kind: EvidenceKind) -> str:
    return f"{kind}: {_KIND_NAMES[kind]}"


def cost_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what contradiction costs, by task."""
    lines = {task.value: line for task, line in _by_task(summary.differences.items()).items()}
    kinds = (kind for kind in summary.run.kinds if kind is not EvidenceKind.NC)
    columns = {kind.value: (kind, Cell.difference) for kind in kinds}
    return _table("NC minus …", lines, columns, "cost")


def _of_system(kind: EvidenceKind, system: str) -> str:
    return f"{kind}, {_SYSTEM_NAMES.get(system, f'guard {system}')}"


def suppression_table(summary: ConflictSummary) -> Table | None:
    """Make the table of instruction, removal and guards, by evidence."""
    lines = {_of_system(*place): found for place, found in summary.suppressions.items()}
    columns: _Columns = {
        "PK right": ("accuracy", Cell.estimate),
        "Closed book right": ("closed_book", Cell.estimate),
        "Difference, points": ("difference", Cell.difference),
        "Suppression score": ("score", Cell.estimate),
    }
    return _table("Evidence and system", lines, columns, "suppression")


def route_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what guards did with the passages."""
    lines = {
        _of_system(kind, name): kinds[kind]
        for name, kinds in summary.routes.items()
        for kind in summary.run.kinds
        if kind in kinds
    }
    columns = {
        "Passage kept": (Route.FOLLOW_CONTEXT, _count),
        "Passage removed": (Route.ANSWER, _count),
        "Abstained": (Route.ABSTAIN, _count),
    }
    return _table("Evidence and guard", lines, columns, "routes")


def preference_table(summary: ConflictSummary) -> Table | None:
    """Make the table of which of two passages is followed."""
    lines = {_kind_name(kind): found for kind, found in summary.preferences.items()}
    columns = {
        "Goes with the contradicting passage": ("follows", Cell.estimate),
        "Names both answers": ("both", Cell.estimate),
        "Names neither": ("neither", Cell.estimate),
    }
    return _table("Beside the passage that agrees", lines, columns, "preference")


def plausibility_table(summary: ConflictSummary) -> Table | None:
    """Make the table by measured plausibility."""
    lines = {f"{decimal(one['low'], 2)}–{decimal(one['high'], 2)}": one for one in summary.bands}
    columns = {
        "CK right: passage followed": ("follows", Cell.estimate),
        "PK right: passage ignored": ("ignores", Cell.estimate),
    }
    return _table("Plausibility of the answer", lines, columns, "plausibility")


def evidence_table(summary: ConflictSummary) -> Table | None:
    """Make the table of passages made and used."""
    lines = {_kind_name(kind): found for kind, found in summary.evidence.items()}
    columns: _Columns = {
        "Passages": ("made", _count),
        "Used": ("used", _count),
        "Checks disagree": ("doubted", _count),
        "Mean plausibility": ("plausibility", lambda value: Cell(decimal(value, 2))),
    }
    return _table("Kind", lines, columns)


_SHOWN, _PASSAGE = 4, 600
_KINDS = (
    (Task.PK, "Did not give its own answer", "The belief was asked for, not the passage."),
    (Task.CK, "Did not follow the passage", "What the passage says was asked for."),
    (Task.PCK, "Did not give both views", "Passage and belief were asked for."),
    (Task.RAG, "Did not give the answers of both passages", "No instruction was given."),
    (Task.KF, "Did not copy the sentence", "The answering sentence was asked for."),
)


def shown_groups(summary: ConflictSummary) -> list[Section]:
    """Choose a few wrong replies of each task."""
    instances = {instance.key: instance for instance in summary.run.instances}
    wrong = grouped(
        (
            row
            for row in summary.run.rows
            if row.system == MODEL_SYSTEM and row.correct is False and row.evidence is not None
        ),
        lambda row: row.task,
    )
    return [
        Section(
            f"{title}: {len(wrong[task])}",
            (
                meaning,
                Cases(tuple(_shown(row, instances[row.key]) for row in _spread(wrong[task]))),
            ),
            folded=True,
        )
        for task, title, meaning in _KINDS
        if task in wrong
    ]


def _spread(rows: Sequence[ConflictRow]) -> list[ConflictRow]:
    """Pick a few rows, evenly over the kinds of evidence, in a fixed order."""
    by_kind = grouped(rows, lambda row: row.evidence)
    # Another question for each kind, where there are several.
    turns = [some[place % len(some) :] for place, some in enumerate(by_kind.values())]
    found = [some[depth] for depth in range(_SHOWN) for some in turns if depth < len(some)]
    return found[:_SHOWN]


def _shown(row: ConflictRow, instance: Instance) -> Case:
    assert row.evidence is not None  # closed book is not among them
    chosen = "none that could be read" if row.letters is None else ", ".join(row.letters) or "none"
    reply = one_line(row.response, _PASSAGE) if row.response else f"options chosen: {chosen}"
    options = instance.lettered if row.task is not Task.KF else ()
    return Case(
        question=instance.question,
        note=f"{row.task.value} over {row.evidence.value}",
        parts=(
            Passages((CaseLine(one_line(instance.evidence[row.evidence].passage, _PASSAGE)),)),
            *(CaseLine(option.text, f"({letter})") for letter, option in options),
            CaseLine(", ".join(row.right) or "the sentence that answers", "Right", right=True),
            CaseLine(reply or "(empty)", "Reply"),
        ),
    )


_MOST_GUARDS = 3


def conflict_document(summary: ConflictSummary) -> Document:
    """Make the report of a summarised run."""
    run = summary.run
    return Document(
        name="conflict",
        title="Context against memory",
        subtitle=TEXTS.text("subtitle", run),
        headline=headline(summary),
        warnings=TEXTS.paragraphs(
            "warnings",
            run,
            failed=sum(summary.failures.values()),
            cut=sum(row.cut for row in run.rows if row.system not in run.guards),
            unread=sum(cell["unread"] for cell in summary.cells.values()),
        ),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: ConflictSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    plausible = {
        system: found
        for (kind, system), found in summary.suppressions.items()
        if kind is EvidenceKind.HPC
    }
    guards = [
        (name, plausible[name], kinds[EvidenceKind.HPC])
        for name, kinds in summary.routes.items()
        if EvidenceKind.HPC in kinds
        and name in plausible
        and plausible[name]["accuracy"].value is not None
    ]
    shares: dict[Task, list[tuple[EvidenceKind, float]]] = {}
    for (task, kind), cell in summary.cells.items():
        if (value := cell["accuracy"].value) is not None:
            shares.setdefault(task, []).append((kind, value))
    followed = shares.get(Task.CK, [])
    compared = len(followed) > 1 and followed[0][0] is EvidenceKind.NC
    lines = TEXTS.paragraphs(
        "headline",
        plausible.get(MODEL_SYSTEM),
        plausible.get(REMOVES),
        guards[:_MOST_GUARDS],
        followed if compared else [],
        summary.plausible_preference,
    )
    tasks = [(task.value, _TASK_NAMES[task], found) for task, found in shares.items()]
    return lines or TEXTS.paragraphs("shares", tasks) or TEXTS.paragraphs("nothing")


def _sections(summary: ConflictSummary) -> list[Section | None]:
    groups = tuple(shown_groups(summary))
    subset = TEXTS.text("confident", summary.confident)
    return [
        Section("What was tested", (TEXTS.text("tested"),)),
        _section(
            "Accuracy by task and evidence",
            task_table(summary, "accuracy", "accuracy"),
            before=(task_plot(summary),),
            after=(
                _section("What contradiction costs", cost_table(summary)),
                _section(
                    "High-confidence subset", task_table(summary, "confident"), before=(subset,)
                ),
            ),
        ),
        _section(
            "Ignoring a passage, and removing it",
            suppression_table(summary),
            before=(suppression_plot(summary),),
            after=(_section("What the guards decided", route_table(summary)),),
        ),
        _section("Two passages side by side", preference_table(summary)),
        _section("By plausibility", plausibility_table(summary)),
        _evidence(summary),
        Section("Replies worth reading", groups) if groups else None,
        *closing_sections(summary.run.manifest, summary.failures, "Calls"),
    ]


def _section(
    title: str,
    table: Table | None,
    before: tuple[Block | None, ...] = (),
    after: tuple[Block | None, ...] = (),
) -> Section | None:
    """Make a section around a table; None without one."""
    return Section(title, (*before, table, *after)) if table else None


def _evidence(summary: ConflictSummary) -> Section:
    source = summary.run.manifest.settings["beliefs"]
    unused = tuple(
        f"{kind}: {reason}: {number}"
        for kind, found in summary.evidence.items()
        for reason, number in found["refused"].items()
    )
    why = [(TEXTS.text("why", source, key), str(n)) for key, n in summary.beliefs.items()]
    right = TEXTS.terms("letters", summary.letters)
    bullets = Prose(unused, bullets=True)
    return Section(
        "Beliefs and evidence",
        (
            TEXTS.text("beliefs", source),
            Facts(tuple(why)),
            evidence_table(summary),
            Section("Passages that are not used", (bullets,), folded=True) if unused else None,
            Prose((*right, *explained("intervals", "clear")), small=True),
        ),
    )
