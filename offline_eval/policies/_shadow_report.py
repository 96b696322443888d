"""The report of shadow mode: what enforcing a policy would have changed.

ShadowLog ─► ShadowSummary ─► shadow_report ─► a page, and the same numbers as JSON
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...guard.decision import Route
from ...guard.files import write_text
from ..report import (
    Case,
    CaseLine,
    Cases,
    Cell,
    Colour,
    Document,
    Facts,
    Figure,
    Figures,
    Line,
    Passages,
    Plot,
    Section,
    Table,
    counted,
    decimal,
    estimate_text,
    one_line,
    percent,
)
from ._shadow_log import (
    Label,
    LoggedDecision,
    ShadowLog,
    labelled_questions,
    read_labels,
    read_texts,
)
from ._shadow_summary import CHANGES, Labelled, Period, ShadowSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from ...calibration import Interval

_REPEATED = (
    "The intervals are for 95 %. A question that was asked several times counts about once for "
    "them: the last column holds the number of decisions that they rest on."
)
_CAPTION = (
    "Share of decisions that abstain, with 95 % intervals, by the time at which a period begins "
    "(UTC)."
)


def write_labelled_questions(
    folder: Path,
    labels: str | os.PathLike[str],
    logs: Sequence[str | os.PathLike[str]],
    guard: str | None = None,
    policy_id: str | None = None,
) -> list[str]:
    """Write the questions that labels call answerable or not, to measure and calibrate on.

    Args:
        folder: gets `answerable.jsonl` and `unanswerable.jsonl`.
        labels: as for `shadow_report`, like the rest.
        logs: files, or folders with them.
        guard: name of the guard.
        policy_id: of its policy.

    Returns:
        A line for each file.

    Raises:
        InputError: a file cannot be read or written.
    """
    log = ShadowLog.read(logs, guard=guard, policy_id=policy_id)
    found = labelled_questions(labels, log.decisions)
    lines = []
    for name, rows in zip(("answerable", "unanswerable"), found, strict=True):
        path = folder / f"{name}.jsonl"
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(path, text)
        lines.append(f"{counted(len(rows), f'{name} question')} → {path}")
    return lines


def shadow_report(
    logs: Sequence[str | os.PathLike[str]],
    *,
    labels: str | os.PathLike[str] | None = None,
    compare: Sequence[str | os.PathLike[str]] = (),
    guard: str | None = None,
    policy_id: str | None = None,
    examples: int = 3,
    on_progress: Callable[[int, int], object] | None = None,
) -> Document:
    """Report what enforcing would have changed, from the lines of `DecisionLog`.

    Args:
        logs: files, or folders with them.
        labels: what is known about some of the questions: JSON lines with `question_id` or
            `question`, and `answerable` (the answer is among the passages) or `right` (the
            shown reply is right).
        compare: further logs, each compared on the questions that both decided.
        guard: name of the guard; None for the one that decided last.
        policy_id: of its policy; None for the one that it decided by last.
        examples: decisions shown for each reason.
        on_progress: called with the number of files read and of all files.

    Returns:
        The report. Its values hold `certified` and `problems`: why the log is no reason to
        enforce the policy.

    Raises:
        InputError: a file cannot be read, or there is no decision in it.
    """
    log = ShadowLog.read(logs, guard=guard, policy_id=policy_id, on_progress=on_progress)
    found = ShadowSummary.of(
        log,
        None if labels is None else read_labels(labels, log.decisions),
        [ShadowLog.read([other]) for other in compare],
    )
    name, policy = log.made_by
    return Document(
        name="shadow",
        title=f"What enforcing would have changed: guard {name}",
        subtitle=f"{counted(len(log.decisions), 'decision')} on "
        f"{counted(found.questions, 'question')} from {_minute(log.decisions[0])} to "
        f"{_minute(log.decisions[-1])} · policy {policy}",
        headline=_headline(found),
        warnings=[*found.problems, *_cautions(found)],
        sections=(
            Section("Results", (_figures(found),)),
            Section("Why it abstains", (_reasons(found),)),
            Section("What enforcing would have changed", (_changes(found),)),
            Section("Cascade of scorers", found.cascade.blocks(log.policy))
            if found.cascade is not None
            else None,
            Section("Over time", (_plot(found.periods), _times(found.periods))),
            None if found.labelled is None else _labelled_section(found, examples),
            Section("Beside other logs", (_compared(found),)) if found.compared else None,
            Section("Examples", tuple(_examples(found, examples))) if found.reasons else None,
            Section("The policy", (Facts(tuple(_policy_facts(found)), code=True),)),
        ),
        values=found.to_dict(),
    )


def _headline(found: ShadowSummary) -> list[str]:
    """Say what enforcing does, the most important first."""
    change = found.changes
    lines = [
        "Enforcing would have replaced "
        f"{estimate_text(found.abstention)} of the replies by an abstention."
    ]
    if found.problems:
        lines.insert(0, "This log is no reason to enforce the policy yet; the warnings say why.")
    others = [
        f"{percent(change[name].value)} {CHANGES[name]}"
        for name in ("from_memory", "fewer_passages")
        if change[name].value
    ]
    if others:
        lines.append(f"Of the others, as shares of all: {', '.join(others)}.")
    labelled = found.labelled
    if labelled is not None:
        if labelled.leak.value is not None:
            lines.append(f"Leak: {estimate_text(labelled.leak)}.")
        if labelled.false_abstention.value is not None:
            lines.append(f"False abstention: {estimate_text(labelled.false_abstention)}.")
        if labelled.wrong_then.value is not None:
            lines.append(
                f"Wrong replies: {percent(labelled.wrong_now.value)} now, "
                f"{estimate_text(labelled.wrong_then)} of those that enforcing would leave."
            )
    return lines


def _cautions(found: ShadowSummary) -> Iterable[str]:
    """What to know before the numbers are trusted, beside the problems."""
    if found.log.others:
        number = sum(found.log.others.values())
        yield (
            f"{counted(number, 'decision')} of other guards or policies in these files left out; "
            "choose with --guard and --policy."
        )
    if 0 < found.enforced < len(found.log.decisions):
        yield f"{counted(found.enforced, 'decision')} acted already (mode enforce)."
    labelled = found.labelled
    if labelled is None:
        yield (
            "Without labels nobody knows which of these abstentions would be right: label a random "
            "sample of the questions, and pass it with --labels."
        )
        return
    if labelled.contradictory:
        yield f"{counted(labelled.contradictory, 'question')} with contradictory labels left out."
    if labelled.unmatched:
        yield f"{counted(labelled.unmatched, 'labelled question')} not in the log."


def _figures(found: ShadowSummary) -> Figures:
    lines = [
        Figure("Would abstain", found.abstention, "Share of all decisions."),
        Figure(
            "Failed", found.failed, "A signal or the retrieval failed, or the input was unusable."
        ),
    ]
    if found.labelled is not None:
        lines += [
            Figure(name, share, meaning)
            for name, share, meaning in _labelled_lines(found.labelled)
            if share.value is not None
        ]
    return Figures(tuple(lines), unit="Decisions")


def _labelled_lines(labelled: Labelled) -> tuple[tuple[str, Interval, str], ...]:
    return (
        (
            "Leak",
            labelled.leak,
            "Of questions whose answer is not among the passages, let through.",
        ),
        (
            "False abstention",
            labelled.false_abstention,
            "Of questions whose answer is among the passages, abstained from.",
        ),
        ("Wrong replies now", labelled.wrong_now, "Of the labelled replies that were shown."),
        (
            "Wrong replies enforced",
            labelled.wrong_then,
            "Of those that follow the context, which enforcing would leave. Replies from memory "
            "would be other ones and are left out.",
        ),
        ("Wrong replies caught", labelled.wrong_caught, "Of wrong replies, abstained from."),
        ("Right replies lost", labelled.right_lost, "Of right replies, abstained from."),
    )


def _share_line(name: str, share: Interval) -> Line:
    return Line(name, (Cell.estimate(share), Cell(str(share.n))))


def _reasons(found: ShadowSummary) -> Table | str:
    if not found.reasons:
        return "No decision abstains."
    return Table(
        "Reason",
        ("Share of all decisions", "Rests on"),
        tuple(_share_line(name, share) for name, share in found.reasons.items()),
        notes=(_REPEATED,),
    )


def _changes(found: ShadowSummary) -> Table:
    return Table(
        "The reply is",
        ("Share of all decisions", "Rests on"),
        tuple(_share_line(CHANGES[name], share) for name, share in found.changes.items()),
        notes=(
            "In shadow mode every reply is made from all passages.",
            "By route: "
            + ", ".join(f"{name} {percent(share.value)}" for name, share in found.routes.items()),
        ),
    )


def _times(periods: Sequence[Period]) -> Section:
    table = Table(
        "Period begins (UTC)",
        ("Would abstain", "Decisions"),
        tuple(
            Line(
                one.begin.strftime("%Y-%m-%d %H:%M"),
                (Cell.estimate(one.abstention), Cell(str(one.decisions))),
            )
            for one in periods
        ),
    )
    return Section("As a table", (table,), folded=True)


def _plot(periods: Sequence[Period]) -> Plot | None:
    if len(periods) < 2:
        return None

    def draw(figure: Canvas) -> None:
        axes = figure.subplots()
        shares = [one.abstention for one in periods]
        values = [share.value or 0.0 for share in shares]
        below = [value - (share.low or 0.0) for value, share in zip(values, shares, strict=True)]
        above = [(share.high or 0.0) - value for value, share in zip(values, shares, strict=True)]
        axes.errorbar(
            range(len(periods)),
            values,
            yerr=[below, above],
            color=Colour.BLUE.value,
            marker="o",
            markersize=4,
            elinewidth=1.2,
            linestyle="-",
        )
        step = -(-len(periods) // 6)
        axes.set_xticks(
            range(0, len(periods), step),
            [one.begin.strftime("%m-%d %H:%M") for one in periods[::step]],
        )
        axes.set_ylim(0, 1)
        axes.set_ylabel("would abstain")

    return Plot("abstention-over-time", "Abstention over time", _CAPTION, draw, (8.0, 3.2))


def _labelled_section(found: ShadowSummary, examples: int) -> Section:
    labelled = found.labelled
    assert labelled is not None
    leaks = _with_label(found, lambda one, label: _leaks(one, label) is True)
    lost = _with_label(found, lambda one, label: _abstains_falsely(one, label) is True)
    table = Table(
        "Measure",
        ("Share", "Rests on"),
        tuple(_share_line(name, share) for name, share, _ in _labelled_lines(labelled)),
        notes=tuple((name, meaning) for name, _, meaning in _labelled_lines(labelled)),
    )
    return Section(
        "Against the labels",
        (
            f"{counted(labelled.questions, 'labelled question')}. The shares hold for all traffic "
            "only where the labelled questions are a random sample of it.",
            table,
            _cases("Leaks", leaks[:examples]),
            _cases("False abstentions", lost[:examples]),
        ),
    )


def _leaks(one: LoggedDecision, label: Label) -> bool:
    return label.answerable is False and one.route is not Route.ABSTAIN


def _abstains_falsely(one: LoggedDecision, label: Label) -> bool:
    return label.answerable is True and one.route is Route.ABSTAIN


def _with_label(
    found: ShadowSummary, chosen: Callable[[LoggedDecision, Label], bool]
) -> list[LoggedDecision]:
    return _one_per_question(
        one
        for one in found.log.decisions
        if (label := found.labels.get(one.question_id or "")) is not None and chosen(one, label)
    )


def _examples(found: ShadowSummary, most: int) -> Iterable[Section]:
    for reason in found.reasons:
        own = _one_per_question(
            one
            for one in found.log.decisions
            if one.reason == reason and one.route is Route.ABSTAIN
        )
        yield _cases(reason, own[:most])


def _one_per_question(decisions: Iterable[LoggedDecision]) -> list[LoggedDecision]:
    """Return one decision per question; as ids are hashes, the first ones are a fair sample."""
    last = {one.unit: one for one in decisions}
    return [last[unit] for unit in sorted(last, key=str)]


def _cases(title: str, decisions: Sequence[LoggedDecision]) -> Section:
    texts = read_texts(decisions)
    return Section(title, (Cases(tuple(_case(one, texts.get(one.at, {})) for one in decisions)),))


def _case(one: LoggedDecision, text: dict[str, object]) -> Case:
    question, passages = text.get("question"), text.get("passages")
    relevance = "" if one.relevance is None else f" · relevance {decimal(one.relevance)}"
    lines = tuple(
        CaseLine(passage) for passage in (passages if isinstance(passages, list) else [])
        if isinstance(passage, str)
    )  # fmt: skip
    name = one.question_id or "unknown question"
    return Case(
        question=question if isinstance(question, str) else name,
        note=f"{one_line(name, 80)} · {one_line(one.reason, 80)}{relevance} · "
        f"{one.time.isoformat(timespec='seconds')} · {one.at[0].name}:{one.at[1]}",
        parts=(Passages(lines, title="Passages"),) if lines else (),
        tag=one.route.value,
    )


def _compared(found: ShadowSummary) -> Table:
    return Table(
        "Other log",
        ("Questions of both", "Abstains only here", "Abstains only there", "Difference", "p"),
        tuple(
            Line(
                f"guard {one.made_by[0]}, policy {one.made_by[1]}",
                (
                    Cell(str(one.questions)),
                    Cell(str(one.only_here)),
                    Cell(str(one.only_there)),
                    Cell.difference(one.difference),
                    Cell(decimal(one.p_value)),
                ),
            )
            for one in found.compared
        ),
        notes=(
            "On the questions that both decided; the last decision on each counts. The difference "
            "is in percentage points, here minus there; p is McNemar's.",
        ),
    )


def _policy_facts(found: ShadowSummary) -> Iterable[tuple[str, str]]:
    name, policy_id = found.log.made_by
    yield "guard", name
    yield "policy", policy_id
    policy = found.log.policy
    if policy is None:
        yield "file", "not beside the log"
        return
    guarantee = policy.guarantee
    yield "relevance threshold", decimal(policy.relevance_threshold)
    yield "confidence threshold", decimal(policy.confidence_threshold)
    if guarantee is None:
        yield "promise", policy.note or "none"
    else:
        yield "certified", "yes" if found.certified else "no"
        yield "promise", guarantee.statement


def _minute(one: LoggedDecision) -> str:
    return one.time.strftime("%Y-%m-%d %H:%M")
