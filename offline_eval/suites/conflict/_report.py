"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictSummary ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from ._scoring import ConflictSummary, Measured
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
        (cell.task, cell.evidence): cell["accuracy"]
        for cell in summary.cells
        if cell["accuracy"].value is not None
    }
    tasks = [task for task in Task if any(task is one for one, _ in found)]
    kinds = [kind for kind in EvidenceKind if any(kind is one for _, one in found)]

    def draw(figure: Figure) -> None:
        points = {
            (tasks.index(task), kinds.index(kind)): share
            for (task, kind), share in found.items()
            if task is not None
        }
        series = [(kind.value, *_MARKS[kind]) for kind in kinds]
        names = [task.value for task in tasks]
        _draw_legend(figure, _draw_dots(figure, points, series, names, "share right"))

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
    kinds = [kind for kind in EvidenceKind if any(one.evidence is kind for one in found)]
    systems = list(dict.fromkeys([MODEL_SYSTEM, REMOVES, *(one.system for one in found)]))

    def draw(figure: Figure) -> None:
        points = {
            (kinds.index(one.evidence), systems.index(one.system)): one["accuracy"] for one in found
        }
        # Guards are numbered: their names come from files of the user's.
        names = ["told to ignore it", "passage removed", *map("guard {}".format, range(1, 99))]
        colours = (Colour.VERMILION, Colour.BLUE, Colour.PURPLE)
        series = [
            (names[number], "sDov^P"[min(number, 5)], colours[min(number, 2)])
            for number in range(len(systems))
        ]
        axis = "own knowledge asked for (PK): share right"
        axes = _draw_dots(figure, points, series, [kind.value for kind in kinds], axis)
        for height, kind in enumerate(kinds):
            base = next(one["closed_book"].value for one in found if one.evidence is kind)
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
TASK_NAMES = {
    Task.KF: "copy the answering sentence",
    Task.CK: "answer from the context only",
    Task.PK: "answer from own knowledge only",
    Task.PCK: "give both views",
    Task.RAG: "two passages, no instruction which to prefer",
}
_ROUTES = {
    Route.FOLLOW_CONTEXT: "Passage kept",
    Route.ANSWER: "Passage removed",
    Route.ABSTAIN: "Abstained",
}


def system_name(system: str) -> str:
    """Name a system in plain text."""
    names = {
        MODEL_SYSTEM: "told to ignore the passage",
        CLOSED_BOOK: "closed book",
        REMOVES: "passage removed",
    }
    return names.get(system, f"guard {system}")


def task_table(summary: ConflictSummary, share: str, notes: tuple[Text, ...] = ()) -> Table | None:
    """Make the table of accuracy by task and evidence, or that of the high-confidence subset."""
    found = {
        (cell.task, cell.evidence): cell[share]
        for cell in summary.cells
        if share != "confident" or cell[share].n
    }
    tasks = [task for task in Task if any(task is other for other, _ in found)]
    columns = {
        f"{kind.value}: {_KIND_NAMES[kind]}": [
            Cell.estimate(found.get((task, kind))) for task in tasks
        ]
        for kind in summary.run.kinds
    }
    return _table("Task", [f"{task.value}: {TASK_NAMES[task]}" for task in tasks], columns, notes)


def cost_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what contradiction costs, by task."""
    by_place = {(task, kind): value for task, kind, value in summary.differences}
    tasks = list(dict.fromkeys(task for task, _ in by_place))
    columns = {
        kind.value: [Cell.difference(by_place.get((task, kind))) for task in tasks]
        for kind in summary.run.kinds
        if kind is not EvidenceKind.NC
    }
    return _table("NC minus …", [task.value for task in tasks], columns, TEXTS.terms("cost"))


def suppression_table(summary: ConflictSummary) -> Table | None:
    """Make the table of instruction, removal and guards, by evidence."""
    found = summary.suppressions
    columns = {
        "PK right": _estimates(found, "accuracy"),
        "Closed book right": _estimates(found, "closed_book"),
        "Difference, points": [Cell.difference(one["difference"]) for one in found],
        "Suppression score": _estimates(found, "score"),
    }
    names = [f"{one.evidence.value}, {system_name(one.system)}" for one in found]
    return _table("Evidence and system", names, columns, TEXTS.terms("suppression"))


def route_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what guards did with the passages."""
    found = {
        f"{kind.value}, {system_name(name)}": kinds[kind]
        for name, kinds in summary.routes.items()
        for kind in summary.run.kinds
        if kind in kinds
    }
    columns = {
        title: [Cell(str(counts[route])) for counts in found.values()]
        for route, title in _ROUTES.items()
    }
    return _table("Evidence and guard", list(found), columns, TEXTS.terms("routes"))


def preference_table(summary: ConflictSummary) -> Table | None:
    """Make the table of which of two passages is followed."""
    found = summary.preferences
    columns = {
        "Goes with the contradicting passage": _estimates(found, "follows"),
        "Names both answers": _estimates(found, "both"),
        "Names neither": _estimates(found, "neither"),
    }
    names = [f"{one.evidence.value}: {_KIND_NAMES[one.evidence]}" for one in found]
    return _table("Beside the passage that agrees", names, columns, TEXTS.terms("preference"))


def plausibility_table(summary: ConflictSummary) -> Table | None:
    """Make the table by measured plausibility."""
    names = [f"{decimal(band.low, 2)}–{decimal(band.high, 2)}" for band in summary.bands]
    columns = {
        "CK right: passage followed": [Cell.estimate(band.follows) for band in summary.bands],
        "PK right: passage ignored": [Cell.estimate(band.ignores) for band in summary.bands],
    }
    return _table("Plausibility of the answer", names, columns, TEXTS.terms("plausibility"))


def evidence_table(summary: ConflictSummary) -> Table | None:
    """Make the table of passages made and used."""
    found = summary.evidence
    columns = {
        "Passages": [Cell(str(one.made)) for one in found],
        "Used": [Cell(str(one.used)) for one in found],
        "Checks disagree": [Cell(str(one.doubted)) for one in found],
        "Mean plausibility": [Cell(decimal(one.plausibility, 2)) for one in found],
    }
    return _table("Kind", [f"{one.kind.value}: {_KIND_NAMES[one.kind]}" for one in found], columns)


def _estimates(found: Sequence[Measured], name: str) -> list[Cell]:
    return [Cell.estimate(one[name]) for one in found]


def _table(
    name: str,
    names: Sequence[str],
    columns: Mapping[str, Sequence[Cell]],
    notes: tuple[Text, ...] = (),
) -> Table | None:
    """Make a table of its columns; None without lines."""
    return Table.from_columns(name, names, [*columns.items()], notes=notes) if names else None


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
    wrong = [
        row
        for row in summary.run.rows
        if row.system == MODEL_SYSTEM and row.correct is False and row.evidence is not None
    ]
    return [
        Section(
            f"{title}: {len(rows)}",
            (meaning, Cases(tuple(_shown(row, instances[row.key]) for row in _spread(rows)))),
            folded=True,
        )
        for task, title, meaning in _KINDS
        if (rows := [row for row in wrong if row.task is task])
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
    options = zip("ABCD", instance.options, strict=True) if row.task is not Task.KF else ()
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
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: ConflictSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    plausible = {
        one.system: one for one in summary.suppressions if one.evidence is EvidenceKind.HPC
    }
    routes = {name: kinds.get(EvidenceKind.HPC) for name, kinds in summary.routes.items()}
    guards = [
        (found, routes[name])
        for name, found in plausible.items()
        if routes.get(name) and found["accuracy"].value is not None
    ]
    shares: dict[Task, list[tuple[EvidenceKind, float]]] = {}
    for cell in summary.cells:
        if cell.task is not None and (value := cell["accuracy"].value) is not None:
            shares.setdefault(cell.task, []).append((cell.evidence, value))
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
    tasks = [(task.value, TASK_NAMES[task], found) for task, found in shares.items()]
    return lines or TEXTS.paragraphs("shares", tasks) or TEXTS.paragraphs("nothing")


def warnings(summary: ConflictSummary) -> list[str]:
    """List what to know before trusting the numbers."""
    run = summary.run
    return TEXTS.paragraphs(
        "warnings",
        run,
        failed=sum(summary.failures.values()),
        cut=sum(row.cut for row in run.rows if row.system not in run.guards),
        unread=sum(cell.counts["unread"] for cell in summary.cells),
    )


def _sections(summary: ConflictSummary) -> list[Section | None]:
    groups = tuple(shown_groups(summary))
    subset = TEXTS.text("confident", summary.confident)
    return [
        Section("What was tested", (TEXTS.text("tested"),)),
        _section(
            "Accuracy by task and evidence",
            task_table(summary, "accuracy", TEXTS.terms("accuracy")),
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
        f"{one.kind.value}: {reason}: {number}"
        for one in summary.evidence
        for reason, number in one.refused.items()
    )
    why = [(TEXTS.text("why", source, key), str(n)) for key, n in summary.beliefs.items()]
    right = TEXTS.terms("letters", summary.letters)
    return Section(
        "Beliefs and evidence",
        (
            TEXTS.text("beliefs", source),
            Facts(tuple(why)),
            evidence_table(summary),
            Section("Passages that are not used", (Prose(unused, bullets=True),), folded=True)
            if unused
            else None,
            Prose((*right, *explained("intervals", "clear")), small=True),
        ),
    )
