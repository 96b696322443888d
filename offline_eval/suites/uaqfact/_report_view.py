"""What the templates show: words and tables, no arithmetic left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...._version import __version__
from ....calibration import Interval
from ...data.uaqfact import UaqItem
from ...report import (
    Cell,
    Line,
    Table,
    cells_of,
    counted,
    decimal,
    flat,
    one_line,
    percent,
    signed,
    table_of,
)
from ...run import InputFile
from ._plan import MODEL_SYSTEM, Form, UaqRow
from ._report_summary import UaqSummary
from ._scoring import ALL, ChoiceLine, ScoreLine

_FEW = 30
_NBSP = "\u00a0"


def headline(summary: UaqSummary) -> list[str]:
    """The sentences that say it all, the most important one first."""
    lines = []
    plain = next((line for line in summary.whole if line.system == MODEL_SYSTEM), None)
    if plain is not None:
        lines.append(_declines(plain, "The model"))
    if plain is not None and plain.metrics.krr.value is not None:
        lines.append(
            f"It knows the facts behind {_with(plain.metrics.kpr)} of the unanswerable questions; "
            f"how far it puts them to use in declining (KRR): {decimal(plain.metrics.krr.value)}, "
            "where .5 is not at all."
        )
    if not summary.whole and summary.choices and summary.choices[0].kpr.value is not None:
        lines.append(
            f"The model knows the facts behind {_with(summary.choices[0].kpr)} of the unanswerable "
            "questions (KPR)."
        )
    for line in summary.whole:
        if line.system == MODEL_SYSTEM and line.form != "question" and line is not plain:
            lines.append(_declines(line, _GIVEN[line.form]))
        elif line.system != MODEL_SYSTEM:
            lines.append(
                _declines(line, f"With the guard {one_line(line.system)} ({_FORMS[line.form]}) it")
            )
    return [line for line in lines if line] or ["No question of this run has a reply."]


_GIVEN = {
    "clue": "After the reasoning up to the answer it",
    "facts": "With the facts that the question needs it",
    "retrieved": "With retrieved facts it",
}
_FORMS = {
    "clue": "after the reasoning",
    "facts": "facts handed over",
    "retrieved": "facts retrieved",
}


def warnings(summary: UaqSummary) -> list[str]:
    """What to know before trusting the numbers."""
    lines = []
    manifest = summary.run.manifest
    if len(summary.run.rows) < manifest.rows:
        lines.append(
            f"The run is not finished: {len(summary.run.rows)} of {manifest.rows} rows. Start the "
            "same command again, it goes on where it stopped."
        )
    failed = sum(summary.failures.values())
    if failed:
        lines.append(
            f"{counted(failed, 'question', 'questions')} got no reply and "
            f"{'is' if failed == 1 else 'are'} left out of the numbers, see Failures."
        )
    short = sum(
        row.shots < manifest.settings.get("shots", 0)
        for row in summary.run.rows
        if row.form in ("question", "clue") and row.error is None and row.route is None
    )
    replayed = manifest.settings.get("model") == "replay"
    if short and not replayed:
        lines.append(
            f"{counted(short, 'prompt has', 'prompts have')} fewer examples than asked for: the "
            "model's window is short."
        )
    small = [line for line in summary.whole if line.metrics.questions < _FEW]
    if small:
        lines.append(f"Fewer than {_FEW} questions: the intervals say how little that is.")
    return lines


def _declines(line: ScoreLine, who: str) -> str:
    metrics = line.metrics
    if metrics.r_ua.value is None or metrics.r_ab.value is None:
        return ""
    return (
        f"{who} declines {_with(metrics.r_ua)} of the questions that have no answer and "
        f"{_with(metrics.r_ab)} of those that have one; of these it gets {_with(metrics.accuracy)} "
        "right."
    )


def _with(interval: Interval) -> str:
    if interval.value is None:
        return "–"
    if interval.low is None or interval.high is None:
        return percent(interval.value)
    low, high = percent(interval.low), percent(interval.high)
    return f"{percent(interval.value)} (95{_NBSP}% interval {low} to {high})"


FORM_WORDS: dict[Form, str] = {
    "question": "question alone",
    "clue": "after its reasoning",
    "facts": "with the facts behind it",
    "retrieved": "with retrieved facts",
}
TYPE_WORDS = {
    ALL: "all types",
    "inter": "empty intersection",
    "time": "impossible time",
    "dilemma": "two wrong options",
}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply worth reading.

    Attributes:
        facts: what the model was given of them; empty where the question stood alone.
    """

    question: str
    name: str
    wanted: str
    reply: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Replies of one kind of failure: a few of them."""

    title: str
    meaning: str
    number: int
    shown: tuple[ShownReply, ...]


@dataclass(frozen=True, slots=True)
class UaqView:
    """Everything that both templates show.

    Attributes:
        overall: one line per system and form.
        by_part: the same by language and type; None where there is one part only.
        by_rule: strict rules beside the published ones.
        choices: task 2; None where it was not asked.
        groups: replies worth reading.
        failures: type and number.
        quirks: what was odd in the data.
    """

    title: str
    subtitle: str
    headline: tuple[str, ...]
    warnings: tuple[str, ...]
    overall: Table
    by_part: Table | None
    by_rule: Table
    choices: Table | None
    groups: tuple[ShownGroup, ...]
    failures: tuple[tuple[str, int], ...]
    quirks: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    inputs: tuple[InputFile, ...]
    versions: tuple[tuple[str, str], ...]


def uaqfact_view(summary: UaqSummary) -> UaqView:
    """The view of a summarised run."""
    run = summary.run
    languages = ", ".join(one_line(name) for name in run.data.languages)
    parts = [line for line in summary.strict if not line.language == line.type == ALL]
    return UaqView(
        title="Questions without an answer",
        subtitle=(
            f"{counted(len(run.data.items), 'question', 'questions')} ({languages}), tasks "
            f"{', '.join(map(str, run.tasks))} · UAQFact suite"
        ),
        headline=tuple(headline(summary)),
        warnings=tuple(warnings(summary)),
        overall=_metric_table(summary.whole, line_name),
        by_part=_metric_table(parts, _part_name) if parts else None,
        by_rule=_rule_table(summary),
        choices=_choice_table(summary.choices) if summary.choices else None,
        groups=tuple(_groups(summary)),
        failures=tuple((one_line(name), number) for name, number in summary.failures.items()),
        quirks=tuple(one_line(quirk) for quirk in run.manifest.quirks),
        settings=tuple(flat("", run.manifest.settings)),
        inputs=run.manifest.inputs,
        versions=(
            ("run written by", one_line(run.manifest.created_by) or "–"),
            ("report written by", f"knowgate {__version__}"),
        ),
    )


def line_name(line: ScoreLine) -> str:
    """A line's system and form in words."""
    system = "" if line.system == MODEL_SYSTEM else f"guard {one_line(line.system)}, "
    return f"{system}{FORM_WORDS[line.form]}"


def _part_name(line: ScoreLine) -> str:
    language = "" if line.language == ALL else f", {one_line(line.language)}"
    return f"{line_name(line)}: {TYPE_WORDS[line.type]}{language}"


def _metric_table(lines: Sequence[ScoreLine], name: Callable[[ScoreLine], str]) -> Table:
    metrics = [line.metrics for line in lines]
    columns = [
        ("Declined, unanswerable", cells_of([one.r_ua for one in metrics], percent, 1)),
        ("Declined, answerable", cells_of([one.r_ab for one in metrics], percent, -1)),
        ("Difference (RΔ)", [_points(one.r_delta) for one in metrics]),
        ("Right, answerable", cells_of([one.accuracy for one in metrics], percent, 1)),
        ("KPR", cells_of([one.kpr for one in metrics], percent, 0)),
        ("KRR", cells_of([one.krr for one in metrics], decimal, 0)),
        ("Questions", [Cell(str(one.questions)) for one in metrics]),
    ]
    return table_of("How it was asked", [name(line) for line in lines], columns)


def _points(interval: Interval) -> Cell:
    if interval.value is None:
        return Cell("–")
    value = signed(100 * interval.value, 1)
    if interval.low is None or interval.high is None:
        return Cell(value)
    under = f"{signed(100 * interval.low, 1)} to {signed(100 * interval.high, 1)}"
    return Cell(value, under, "clear" if interval.low > 0 else "")


def _rule_table(summary: UaqSummary) -> Table:
    published = {
        (line.system, line.form): line
        for line in summary.published
        if line.language == line.type == ALL
    }
    lines = []
    for line in summary.whole:
        other = published[line.system, line.form].metrics
        pairs = (
            (line.metrics.r_ua, other.r_ua),
            (line.metrics.r_ab, other.r_ab),
            (line.metrics.accuracy, other.accuracy),
        )
        cells = tuple(_share(value) for pair in pairs for value in pair)
        lines.append(Line(line_name(line), "", cells))
    return Table(
        "How it was asked",
        (
            *("Declined, unanswerable: strict", "published"),
            *("Declined, answerable: strict", "published"),
            *("Right, answerable: strict", "published"),
        ),
        tuple(lines),
    )


def _share(interval: Interval) -> Cell:
    return Cell("–" if interval.value is None else percent(interval.value))


def _choice_table(lines: Sequence[ChoiceLine]) -> Table:
    names = [
        TYPE_WORDS[line.type] + ("" if line.language == ALL else f", {one_line(line.language)}")
        for line in lines
    ]
    columns = [
        ("Right", cells_of([line.accuracy for line in lines], percent, 0)),
        ("KPR", cells_of([line.kpr for line in lines], percent, 0)),
        ("Questions", [Cell(str(line.accuracy.n)) for line in lines]),
        ("No letter read", [Cell(str(line.unread)) for line in lines]),
    ]
    return table_of("Facts asked", names, columns)


def _groups(summary: UaqSummary) -> list[ShownGroup]:
    items = {item.key: item for item in summary.run.data.items}
    invented, declined, wrong = [], [], []
    for row in summary.run.rows:
        verdict = summary.scored.get(row.row_id)
        if verdict is None:
            continue
        if verdict.unanswerable and not verdict.refused:
            invented.append(row)
        elif not verdict.unanswerable and verdict.refused:
            declined.append(row)
        elif not verdict.unanswerable and not verdict.correct:
            wrong.append(row)
    kinds = (
        ("Answered without an answer", "The question has none, and the reply names one.", invented),
        ("Declined without need", "The question has an answer, and the reply declines.", declined),
        ("Wrong answers", "The question has another answer than the reply names.", wrong),
    )
    return [
        ShownGroup(
            title, meaning, len(rows), tuple(_shown(row, items[row.key]) for row in _spread(rows))
        )
        for title, meaning, rows in kinds
    ]


def _spread(rows: Sequence[UaqRow]) -> list[UaqRow]:
    """A few of them, evenly over systems, forms and types, in a fixed order."""
    by_part: dict[tuple[str, str, str], list[UaqRow]] = {}
    for row in rows:
        by_part.setdefault((row.system, row.form, row.type.value), []).append(row)
    chosen: list[UaqRow] = []
    turn = 0
    while len(chosen) < min(_SHOWN, len(rows)):
        for part in by_part.values():
            if turn < len(part) and len(chosen) < _SHOWN:
                chosen.append(part[turn])
        turn += 1
    return chosen


def _shown(row: UaqRow, item: UaqItem) -> ShownReply:
    system = "" if row.system == MODEL_SYSTEM else f"guard {one_line(row.system)} · "
    facts = () if row.form == "question" else item.clues
    return ShownReply(
        question=one_line(item.question),
        name=f"{one_line(item.key)} · {system}{FORM_WORDS[row.form]}",
        wanted=one_line(", ".join(answer.label for answer in item.answers)) or "no answer",
        reply=one_line(row.response or "") or "(empty)",
        facts=tuple(one_line(f"{clue.question} {', '.join(clue.answers)}") for clue in facts),
    )
