"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...._version import __version__
from ....calibration import Interval
from ....guard.decision import Route
from ...report import (
    DASH,
    NOTHING,
    Cell,
    Line,
    Table,
    counted,
    decimal,
    flat,
    interval_under,
    one_line,
    percent,
    shortened,
    signed,
)
from ...run import InputFile
from ._items import EvidenceKind, Task
from ._report_prose_text import KIND_WORDS, TASK_WORDS, headline, warnings
from ._report_summary import ConflictSummary
from ._rows import CLOSED_BOOK, MODEL_SYSTEM, REMOVES, ConflictRow, Instance
from ._scoring import AccuracyCell

_SHOWN, _PASSAGE = 4, 600
_WHY = {
    "one": "exactly one answer in all variants",
    "none": "no answer",
    "several": "several answers",
    "unsteady": "variants differ",
    "error": "the model failed",
}
_GIVEN = {**_WHY, "one": "a belief is given", "none": "none is given"}
_BELIEFS = {
    "given": "with the data",
    "asked": "asked for yes or no, answer by answer",
    "closed_book": "the model's own answer in all wordings",
}
_ROUTES = {
    Route.FOLLOW_CONTEXT: "Passage kept",
    Route.ANSWER: "Passage removed",
    Route.ABSTAIN: "Abstained",
}
_ANSWERS = {
    "letters": "by letter, after an explanation",
    "likelihood": "by the options' likelihoods",
    "free": "in free text",
}


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply worth reading."""

    question: str
    name: str
    passage: str
    options: tuple[str, ...]
    right: str
    reply: str


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Replies of one kind of failure: a few of them."""

    title: str
    meaning: str
    number: int
    shown: tuple[ShownReply, ...]


@dataclass(frozen=True, slots=True)
class ConflictView:
    """Everything that both templates show; a table is None where it has no line.

    Attributes:
        accuracy: tasks by evidence.
        confident: the same in the high-confidence subset.
        lost: what contradiction costs, by task.
        suppression: instruction, removal and guards, by evidence.
        routes: what guards did with the passages; None without guards.
        preference: of RAG.
        bands: by measured plausibility.
        evidence: passages made and used.
        beliefs: words and number of questions.
        refused: why passages are not used.
        groups: replies worth reading.
        failures: type and number.
        quirks: what was odd in the data.
    """

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    accuracy: Table | None
    confident: Table | None
    confident_words: str
    lost: Table | None
    suppression: Table | None
    routes: Table | None
    preference: Table | None
    bands: Table | None
    evidence: Table
    beliefs: tuple[tuple[str, str], ...]
    beliefs_from: str
    refused: tuple[tuple[str, int], ...]
    letters: str
    groups: tuple[ShownGroup, ...]
    failures: tuple[tuple[str, int], ...]
    quirks: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[InputFile, ...]
    versions: tuple[tuple[str, str], ...]


def conflict_view(summary: ConflictSummary) -> ConflictView:
    """The view of a summarised run."""
    run = summary.run
    settings = run.manifest.settings
    return ConflictView(
        title="Context against memory",
        subtitle=(
            f"{counted(len(run.instances), 'question', 'questions')} with a belief and evidence, "
            f"of {run.manifest.questions} · answers taken {_ANSWERS[settings['answers']]} · "
            "conflict suite"
        ),
        headline=tuple(headline(summary)),
        warnings=tuple(warnings(summary)),
        accuracy=_accuracy(summary.cells, run.kinds, lambda cell: cell.accuracy),
        confident=_accuracy(
            [cell for cell in summary.cells if cell.confident.n], run.kinds, lambda c: c.confident
        ),
        confident_words=counted(summary.confident, "question is", "questions are"),
        lost=_lost(summary),
        suppression=_suppression(summary),
        routes=_routes(summary),
        preference=_preference(summary),
        bands=_bands(summary),
        evidence=_evidence(summary),
        beliefs=tuple(
            ((_GIVEN if settings["beliefs"] == "given" else _WHY)[why], str(number))
            for why, number in summary.beliefs.items()
        ),
        beliefs_from=_BELIEFS[settings["beliefs"]],
        refused=tuple(
            (f"{one.kind.value}: {one_line(reason)}", number)
            for one in summary.evidence
            for reason, number in one.refused.items()
        ),
        letters=", ".join(f"{letter} {number}" for letter, number in summary.letters.items()),
        groups=tuple(_groups(summary)),
        failures=tuple((one_line(name), number) for name, number in summary.failures.items()),
        quirks=tuple(one_line(quirk) for quirk in run.manifest.quirks),
        settings=tuple(flat("", settings)),
        inputs=run.manifest.inputs,
        versions=(
            ("run written by", one_line(run.manifest.created_by) or NOTHING),
            ("report written by", f"knowgate {__version__}"),
        ),
    )


def system_name(system: str) -> str:
    """A system in words."""
    if system == MODEL_SYSTEM:
        return "told to ignore the passage"
    if system == CLOSED_BOOK:
        return "closed book"
    return "passage removed" if system == REMOVES else f"guard {one_line(system)}"


def _accuracy(
    cells: Sequence[AccuracyCell],
    kinds: Sequence[EvidenceKind],
    pick: Callable[[AccuracyCell], Interval],
) -> Table | None:
    if not cells:
        return None
    by_place = {(cell.task, cell.evidence): pick(cell) for cell in cells}
    tasks = [task for task in Task if any(cell.task is task for cell in cells)]
    lines = tuple(
        Line(
            f"{task.value}: {TASK_WORDS[task]}",
            tuple(share(by_place.get((task, kind))) for kind in kinds),
        )
        for task in tasks
    )
    return Table("Task", tuple(f"{kind.value}: {KIND_WORDS[kind]}" for kind in kinds), lines)


def _lost(summary: ConflictSummary) -> Table | None:
    kinds = [kind for kind in summary.run.kinds if kind is not EvidenceKind.NC]
    by_place = {(task, kind): value for task, kind, value in summary.differences}
    tasks = list(dict.fromkeys(task for task, _ in by_place))
    lines = tuple(
        Line(task.value, tuple(_points(by_place.get((task, kind))) for kind in kinds))
        for task in tasks
    )
    return Table("NC minus …", tuple(kind.value for kind in kinds), lines) if lines else None


def _suppression(summary: ConflictSummary) -> Table | None:
    lines = tuple(
        Line(
            f"{found.evidence.value}, {system_name(found.system)}",
            (
                share(found.accuracy),
                share(found.closed_book),
                _points(found.difference),
                share(found.score),
            ),
        )
        for found in summary.suppressions
    )
    columns = ("PK right", "Closed book right", "Difference, points", "Suppression score")
    return Table("Evidence and system", columns, lines) if lines else None


def _routes(summary: ConflictSummary) -> Table | None:
    lines = tuple(
        Line(
            f"{kind.value}, {system_name(name)}",
            tuple(Cell(str(kinds[kind][route])) for route in _ROUTES),
        )
        for name, kinds in summary.routes.items()
        for kind in summary.run.kinds
        if kind in kinds
    )
    return Table("Evidence and guard", tuple(_ROUTES.values()), lines) if lines else None


def _preference(summary: ConflictSummary) -> Table | None:
    lines = [
        Line(
            f"{one.evidence.value}: {KIND_WORDS[one.evidence]}",
            (share(one.follows), share(one.both), share(one.neither)),
        )
        for one in summary.preferences
    ]
    columns = ("Goes with the contradicting passage", "Names both answers", "Names neither")
    return Table("Beside the passage that agrees", columns, tuple(lines)) if lines else None


def _bands(summary: ConflictSummary) -> Table | None:
    lines = tuple(
        Line(
            f"{decimal(band.low, 2)}{DASH}{decimal(band.high, 2)}",
            (share(band.follows), share(band.ignores)),
        )
        for band in summary.bands
    )
    columns = ("CK right: passage followed", "PK right: passage ignored")
    return Table("Plausibility of the answer", columns, lines) if lines else None


def _evidence(summary: ConflictSummary) -> Table:
    lines = tuple(
        Line(
            f"{one.kind.value}: {KIND_WORDS[one.kind]}",
            (
                Cell(str(one.made)),
                Cell(str(one.used)),
                Cell(str(one.doubted)),
                Cell(decimal(one.plausibility, 2)),
            ),
        )
        for one in summary.evidence
    )
    columns = ("Passages", "Used", "Checks disagree", "Mean plausibility")
    return Table("Kind", columns, lines)


def share(interval: Interval | None) -> Cell:
    """A share with its interval; a dash where it is undefined."""
    if interval is None or interval.value is None:
        return Cell(NOTHING)
    return Cell(percent(interval.value), interval_under(interval, percent))


def _points(interval: Interval | None) -> Cell:
    if interval is None or interval.value is None:
        return Cell(NOTHING)
    value = signed(100 * interval.value, 1)
    if interval.low is None or interval.high is None:
        return Cell(value)
    under = f"{signed(100 * interval.low, 1)} to {signed(100 * interval.high, 1)}"
    clear = interval.low > 0 or interval.high < 0
    return Cell(value, under, "clear" if clear else "")


def _groups(summary: ConflictSummary) -> list[ShownGroup]:
    instances = {instance.key: instance for instance in summary.run.instances}
    wrong = [
        row
        for row in summary.run.rows
        if row.system == MODEL_SYSTEM and row.correct is False and row.evidence is not None
    ]
    kinds = (
        (Task.PK, "Did not give its own answer", "The belief was asked for, not the passage."),
        (Task.CK, "Did not follow the passage", "What the passage says was asked for."),
        (Task.PCK, "Did not give both views", "Passage and belief were asked for."),
        (Task.RAG, "Did not give the answers of both passages", "No instruction was given."),
        (Task.KF, "Did not copy the sentence", "The answering sentence was asked for."),
    )
    return [
        ShownGroup(
            title,
            meaning,
            len(rows),
            tuple(_shown(row, instances[row.key]) for row in _spread(rows)),
        )
        for task, title, meaning in kinds
        if (rows := [row for row in wrong if row.task is task])
    ]


def _spread(rows: Sequence[ConflictRow]) -> list[ConflictRow]:
    """A few of them, evenly over the kinds of evidence, in a fixed order."""
    by_kind: dict[EvidenceKind | None, list[ConflictRow]] = {}
    for row in rows:
        by_kind.setdefault(row.evidence, []).append(row)
    # Another question for each kind, where there are several.
    turns = [some[place % len(some) :] for place, some in enumerate(by_kind.values())]
    found = [some[depth] for depth in range(_SHOWN) for some in turns if depth < len(some)]
    return found[:_SHOWN]


def _shown(row: ConflictRow, instance: Instance) -> ShownReply:
    assert row.evidence is not None  # closed book is not among them
    chosen = "none that could be read" if row.letters is None else ", ".join(row.letters) or "none"
    reply = shortened(row.response, _PASSAGE) if row.response else f"options chosen: {chosen}"
    options = tuple(
        f"({letter}) {one_line(option.text)}"
        for letter, option in zip("ABCD", instance.options, strict=True)
    )
    return ShownReply(
        question=one_line(instance.question),
        name=f"{row.task.value} over {row.evidence.value}",
        passage=shortened(instance.evidence[row.evidence].passage, _PASSAGE),
        options=options if row.task is not Task.KF else (),
        right=", ".join(row.right) or "the sentence that answers",
        reply=reply or "(empty)",
    )
