"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictSummary ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....calibration import Interval
from ....guard.decision import Route
from ...report.document import Case, CaseLine, Cases, Document, Facts, Passages, Prose, Section
from ...report.plots import Colour, Plot
from ...report.prose import Templates, explained
from ...report.tables import Cell, Line, Table, Text
from ...report.text import decimal, one_line
from ...run.grouping import grouped
from ..parts import MODEL_SYSTEM
from ._rows import CLOSED_BOOK, REMOVES, ConflictRow, Instance
from ._scoring import AccuracyCell, ConflictSummary
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
        _share_axis(axes, "share right")
        axes.set_yticks(range(len(tasks)), [task.value for task in tasks])
        axes.set_ylim(len(tasks) - 0.5, -0.5)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(kinds))

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
        _share_axis(axes, "own knowledge asked for (PK): share right")
        axes.set_yticks(range(len(kinds)), [kind.value for kind in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4)

    return Plot(
        name="suppression",
        title="Ignoring a passage, and removing it",
        caption=TEXTS.text("suppression_caption", guards),
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(kinds)),
    )


def _share_axis(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.grid(visible=False, axis="y")


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


def accuracy_table(summary: ConflictSummary) -> Table | None:
    """Make the table of accuracy by task and evidence."""
    return _task_table(
        summary.cells,
        summary.run.kinds,
        lambda cell: cell.accuracy,
        notes=TEXTS.terms("accuracy"),
    )


def confident_table(summary: ConflictSummary) -> Table | None:
    """Make the same table for the high-confidence subset."""
    cells = [cell for cell in summary.cells if cell.confident.n]
    return _task_table(cells, summary.run.kinds, lambda cell: cell.confident)


def _task_table(
    cells: Sequence[AccuracyCell],
    kinds: Sequence[EvidenceKind],
    pick: Callable[[AccuracyCell], Interval],
    notes: tuple[Text, ...] = (),
) -> Table | None:
    if not cells:
        return None
    by_place = {(cell.task, cell.evidence): pick(cell) for cell in cells}
    tasks = [task for task in Task if any(cell.task is task for cell in cells)]
    lines = tuple(
        Line(
            f"{task.value}: {TASK_NAMES[task]}",
            tuple(Cell.estimate(by_place.get((task, kind))) for kind in kinds),
        )
        for task in tasks
    )
    columns = tuple(f"{kind.value}: {_KIND_NAMES[kind]}" for kind in kinds)
    return Table("Task", columns, lines, notes=notes)


def cost_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what contradiction costs, by task."""
    kinds = [kind for kind in summary.run.kinds if kind is not EvidenceKind.NC]
    by_place = {(task, kind): value for task, kind, value in summary.differences}
    lines = tuple(
        Line(task.value, tuple(Cell.difference(by_place.get((task, kind))) for kind in kinds))
        for task in dict.fromkeys(task for task, _ in by_place)
    )
    return _table("NC minus …", tuple(kind.value for kind in kinds), lines, "cost")


def suppression_table(summary: ConflictSummary) -> Table | None:
    """Make the table of instruction, removal and guards, by evidence."""
    lines = tuple(
        Line(
            f"{found.evidence.value}, {system_name(found.system)}",
            (
                Cell.estimate(found.accuracy),
                Cell.estimate(found.closed_book),
                Cell.difference(found.difference),
                Cell.estimate(found.score),
            ),
        )
        for found in summary.suppressions
    )
    columns = ("PK right", "Closed book right", "Difference, points", "Suppression score")
    return _table("Evidence and system", columns, lines, "suppression")


def route_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what guards did with the passages."""
    lines = tuple(
        Line(
            f"{kind.value}, {system_name(name)}",
            tuple(Cell(str(kinds[kind][route])) for route in _ROUTES),
        )
        for name, kinds in summary.routes.items()
        for kind in summary.run.kinds
        if kind in kinds
    )
    return _table("Evidence and guard", tuple(_ROUTES.values()), lines, "routes")


def preference_table(summary: ConflictSummary) -> Table | None:
    """Make the table of which of two passages is followed."""
    lines = tuple(
        Line(
            f"{one.evidence.value}: {_KIND_NAMES[one.evidence]}",
            tuple(map(Cell.estimate, (one.follows, one.both, one.neither))),
        )
        for one in summary.preferences
    )
    columns = ("Goes with the contradicting passage", "Names both answers", "Names neither")
    return _table("Beside the passage that agrees", columns, lines, "preference")


def plausibility_table(summary: ConflictSummary) -> Table | None:
    """Make the table by measured plausibility."""
    lines = tuple(
        Line(
            f"{decimal(band.low, 2)}–{decimal(band.high, 2)}",
            (Cell.estimate(band.follows), Cell.estimate(band.ignores)),
        )
        for band in summary.bands
    )
    columns = ("CK right: passage followed", "PK right: passage ignored")
    return _table("Plausibility of the answer", columns, lines, "plausibility")


def evidence_table(summary: ConflictSummary) -> Table:
    """Make the table of passages made and used."""
    lines = tuple(
        Line(
            f"{one.kind.value}: {_KIND_NAMES[one.kind]}",
            (
                Cell(str(one.made)),
                Cell(str(one.used)),
                Cell(str(one.doubted)),
                Cell(decimal(one.plausibility, 2)),
            ),
        )
        for one in summary.evidence
    )
    return Table("Kind", ("Passages", "Used", "Checks disagree", "Mean plausibility"), lines)


def _table(
    name: str, columns: tuple[str, ...], lines: tuple[Line, ...], notes: str
) -> Table | None:
    """Make a table with notes from the template; None without lines."""
    return Table(name, columns, lines, notes=TEXTS.terms(notes)) if lines else None


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
        if routes.get(name) and found.accuracy.value is not None
    ]
    shares: dict[Task, list[tuple[EvidenceKind, float]]] = {}
    for cell in summary.cells:
        if cell.accuracy.value is not None:
            shares.setdefault(cell.task, []).append((cell.evidence, cell.accuracy.value))
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
        unread=sum(cell.unread for cell in summary.cells),
    )


def _sections(summary: ConflictSummary) -> list[Section | None]:
    manifest = summary.run.manifest
    preference, bands = preference_table(summary), plausibility_table(summary)
    groups = shown_groups(summary)
    failures = Table.of_text(("Type of error", "Calls"), list(summary.failures.items()))
    quirks = Prose(tuple(manifest.quirks), bullets=True)
    return [
        Section("What was tested", (TEXTS.text("tested"),)),
        _accuracy(summary),
        _suppression(summary),
        Section("Two passages side by side", (preference,)) if preference else None,
        Section("By plausibility", (bands,)) if bands else None,
        _evidence(summary),
        Section("Replies worth reading", tuple(groups)) if groups else None,
        Section("Failures", (failures,)) if summary.failures else None,
        Section("Irregularities in the data", (quirks,)) if manifest.quirks else None,
        Section.of_run(manifest.settings, manifest.inputs, manifest.created_by),
    ]


def _accuracy(summary: ConflictSummary) -> Section | None:
    table = accuracy_table(summary)
    if table is None:
        return None
    cost, confident = cost_table(summary), confident_table(summary)
    subset = TEXTS.text("confident", summary.confident)
    return Section(
        "Accuracy by task and evidence",
        (
            task_plot(summary),
            table,
            Section("What contradiction costs", (cost,)) if cost else None,
            Section("High-confidence subset", (subset, confident)) if confident else None,
        ),
    )


def _suppression(summary: ConflictSummary) -> Section | None:
    table, routes = suppression_table(summary), route_table(summary)
    if table is None:
        return None
    decided = Section("What the guards decided", (routes,)) if routes else None
    return Section(
        "Ignoring a passage, and removing it", (suppression_plot(summary), table, decided)
    )


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
