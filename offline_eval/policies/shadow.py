"""The report of shadow mode: what enforcing a policy would have changed.

ShadowLog ─► ShadowSummary ─► shadow_report ─► a page, and the same numbers as JSON
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...calibration import Interval
from ...calibration.statistics import mcnemar_p_value
from ...guard.decision import Mode, Route
from ...guard.files import AnyPath, write_text
from ..report.cascade import cascade_blocks, cascade_counts
from ..report.document import (
    Case,
    CaseLine,
    Cases,
    Document,
    Facts,
    Figure,
    Figures,
    Passages,
    Section,
    as_json,
)
from ..report.plots import Colour, Plot, error_bars
from ..report.prose import Templates
from ..report.tables import Cell, Table, Text
from ..report.text import counted, decimal, estimate_text, one_line, percent
from ..run.grouping import grouped
from ._shadow_log import Label, Labels, LoggedDecision, ShadowLog, read_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# Above this share the other numbers say little.
_MAX_FAILED = 0.05
_MAX_PERIODS = 48
# Decisions shown for each reason.
_EXAMPLES = 3
_PERIODS = tuple(timedelta(minutes=m) for m in (1, 5, 15, 60, 360, 1440, 10_080))
_CHANGES = {
    "abstained": "replaced by an abstention",
    "from_memory": "answered from memory, without the passages",
    "fewer_passages": "answered from fewer passages",
    "unchanged": "unchanged",
}
_WORDS = Templates(Path(__file__).parent / "shadow.txt")


_STORED = ("abstention", "failed", "routes", "reasons", "changes")
_Chosen = Callable[[LoggedDecision, Label], bool]
# Shares that need labels: which decisions count, and which of these are hits.
_MEASURES: Mapping[str, tuple[_Chosen, _Chosen]] = {
    "leak": (lambda _, label: label.answerable is False, lambda one, _: not one.abstains),
    "false_abstention": (lambda _, label: label.answerable is True, lambda one, _: one.abstains),
    "wrong_now": (lambda _, label: label.right is not None, lambda _, label: not label.right),
    "wrong_then": (
        lambda one, label: label.right is not None and one.route is Route.FOLLOW_CONTEXT,
        lambda _, label: not label.right,
    ),
    "wrong_caught": (lambda _, label: label.right is False, lambda one, _: one.abstains),
    "right_lost": (lambda _, label: label.right is True, lambda one, _: one.abstains),
}


def _measure_names() -> dict[str, tuple[str, str]]:
    """Title and meaning of each of them."""
    lines = (line.split(" :: ") for line in _WORDS.paragraphs("measures"))
    return {name: (title, meaning) for name, title, meaning in lines}


def write_labelled_questions(
    folder: Path,
    labels: AnyPath,
    logs: Sequence[AnyPath],
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
    found = Labels.read(labels, log)
    lines = []
    for name in ("answerable", "unanswerable"):
        rows = found.questions(log, answerable=name == "answerable")
        path = folder / f"{name}.jsonl"
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        lines.append(f"{counted(len(rows), f'{name} question')} → {path}")
    return lines


def shadow_report(
    logs: Sequence[AnyPath],
    *,
    labels: AnyPath | None = None,
    compare: Sequence[AnyPath] = (),
    guard: str | None = None,
    policy_id: str | None = None,
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
        on_progress: called with the number of files read and of all files.

    Returns:
        The report. Its values hold `certified` and `problems`: why the log is no reason to
        enforce the policy.

    Raises:
        InputError: a file cannot be read, or there is no decision in it.
    """
    log = ShadowLog.read(logs, guard=guard, policy_id=policy_id, on_progress=on_progress)
    found = ShadowSummary(
        log,
        None if labels is None else Labels.read(labels, log),
        [ShadowLog.read([other]) for other in compare],
    )
    name, policy = log.made_by
    begin, end = (f"{log.decisions[at].time:%Y-%m-%d %H:%M}" for at in (0, -1))
    return Document(
        name="shadow",
        title=f"What enforcing would have changed: guard {name}",
        subtitle=f"{counted(len(log.decisions), 'decision')} on "
        f"{counted(found.questions, 'question')} from {begin} to {end} · policy {policy}",
        headline=_headline(found),
        warnings=[*found.problems, *_WORDS.paragraphs("cautions", found)],
        sections=(
            Section("Results", (_figures(found),)),
            Section("Why it abstains", (_reasons(found),)),
            Section("What enforcing would have changed", (_changes(found),)),
            Section("Cascade of scorers", cascade_blocks(found.cascade, log.policy))
            if found.cascade is not None
            else None,
            Section("Over time", (_plot(found.periods), _times(found.periods))),
            None if found.labels is None else _labelled_section(found, found.labels),
            Section("Beside other logs", (_compared(found),)) if found.compared else None,
            Section("Examples", tuple(_examples(found))) if found.reasons else None,
            Section("The policy", (Facts(_WORDS.pairs("policy", found), code=True),)),
        ),
        values=found.to_dict(),
    )


def share_of(
    decisions: Sequence[LoggedDecision], chosen: Callable[[LoggedDecision], bool]
) -> Interval:
    """Give a share of decisions an interval in which a repeated question counts once.

    The interval is Wilson's for n²/Σm² decisions, where m is how often each question was
    asked: as if all decisions on a question were the same, which is nearly so.

    Args:
        decisions: that it is a share of; undefined without any.
        chosen: which of them.

    Source: Kish 1965, Survey Sampling, for the effective number.
    """
    n = len(decisions)
    if not n:
        return Interval()
    times = Counter(one.unit for one in decisions).values()
    effective = max(1, n * n // sum(m * m for m in times))
    share = sum(map(chosen, decisions)) / n
    return Interval.wilson(round(share * effective), effective).around(share)


_Period = tuple[datetime, int, Interval]


def periods_of(decisions: Sequence[LoggedDecision]) -> list[_Period]:
    """Cut the time into periods of one length, at most 48 of them.

    Returns:
        When each begins, its decisions, and the share of them that abstain.
    """
    whole = decisions[-1].time - decisions[0].time
    length = next((one for one in _PERIODS if whole / one < _MAX_PERIODS), _PERIODS[-1])
    seconds = length.total_seconds()
    parts = grouped(decisions, lambda one: int(one.time.timestamp() // seconds))
    return [
        (datetime.fromtimestamp(number * seconds, UTC), len(part), _abstention(part))
        for number, part in sorted(parts.items())
    ]


def _abstention(decisions: Sequence[LoggedDecision]) -> Interval:
    return share_of(decisions, lambda one: one.abstains)


def _comparison(here: ShadowLog, there: ShadowLog) -> dict[str, Any]:
    """Compare decisions on the same questions with those of another log; the last on each counts.

    Returns:
        Guard and policy of the other log, questions that both decided, those abstained from only
        here and only there, the difference of the shares, and McNemar's p-value, that both
        abstain equally often.
    """
    own, others = here.last_by_question(), there.last_by_question()
    both = [(one.abstains, others[n].abstains) for n, one in own.items() if n in others]
    guard, policy = there.made_by
    only_here, only_there = sum(a and not b for a, b in both), sum(b and not a for a, b in both)
    first, second = ([one[at] for one in both] for at in (0, 1))
    return {
        "guard": guard,
        "policy": policy,
        "questions": len(both),
        "only_here": only_here,
        "only_there": only_there,
        "difference": Interval.paired_difference(first, second),
        "p_value": mcnemar_p_value(only_here, only_there),
    }


class ShadowSummary:
    """What a log says about enforcing.

    Args:
        log: of one guard.
        labels: of its questions; None where there are none.
        compared: logs of others, or of another time.

    Attributes:
        questions: different ones, as far as they are known.
        abstention: share of decisions that abstain.
        failed: share of decisions in which something failed.
        routes: share of each route.
        reasons: share of all decisions that abstain for each reason, most first.
        changes: shares by what enforcing would do to the reply.
        lost: decisions that could not be written.
        enforced: decisions that acted already.
        periods: the same over time.
        measures: the shares that need labels; empty without.
        cascade: which scorer decided how often; None unless the guard's scorer is a cascade.
        certified: the policy promises something; None where its file is not there.
        problems: why the log is no reason to enforce the policy; empty where nothing speaks
            against it.
    """

    def __init__(
        self, log: ShadowLog, labels: Labels | None, compared: Iterable[ShadowLog]
    ) -> None:
        every = log.decisions
        self.log, self.labels = log, labels
        self.questions = len({one.unit for one in every})
        self.abstention = _abstention(every)
        self.failed = share_of(every, lambda one: one.failed)
        self.lost = sum(one.lost for one in every)
        self.enforced = sum(one.mode is Mode.ENFORCE for one in every)
        self.routes = _shares(every, [route.value for route in Route], lambda one: one.route.value)
        reasons = Counter(one.reason for one in every if one.abstains)
        self.reasons = _shares(
            every,
            sorted(reasons, key=lambda reason: (-reasons[reason], reason)),
            lambda one: one.reason if one.abstains else None,
        )
        self.changes = _shares(every, _CHANGES, lambda one: one.change)
        self.periods = periods_of(every)
        self.compared = [_comparison(log, other) for other in compared]
        self.cascade = cascade_counts((one.relevance_stage, one.route) for one in every)
        self.measures = {name: self._measured(*one) for name, one in _MEASURES.items() if labels}
        guarantee = None if log.policy is None else log.policy.guarantee
        certified = guarantee is not None and guarantee.certified
        self.certified = None if log.policy is None else certified and not log.policy.changed
        self.problems = _WORDS.paragraphs("problems", self, _MAX_FAILED)

    def labelled(
        self, chosen: Callable[[LoggedDecision, Label], bool]
    ) -> list[tuple[LoggedDecision, Label]]:
        """Return the decisions on labelled questions that are chosen, with their labels."""
        known = {} if self.labels is None else self.labels.by_question
        return [
            (one, label)
            for one in self.log.decisions
            if (label := known.get(one.question_id or "")) is not None and chosen(one, label)
        ]

    def _measured(self, counts: _Chosen, hit: _Chosen) -> Interval:
        counting = self.labelled(counts)
        hits = {one.at for one, label in counting if hit(one, label)}
        return share_of([one for one, _ in counting], lambda one: one.at in hits)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what `report.json` holds."""
        log, labels, (guard, policy_id) = self.log, self.labels, self.log.made_by
        of_labels = labels and {
            "questions": len(labels.by_question),
            "contradictory": labels.contradictory,
            "unmatched": labels.unmatched,
            **self.measures,
        }
        found: dict[str, Any] = {
            "schema_version": Document.SCHEMA_VERSION,
            "guard": guard,
            "policy": policy_id,
            "certified": self.certified,
            "problems": self.problems,
            "decisions": len(log.decisions),
            "questions": self.questions,
            "begin": log.decisions[0].time.isoformat(),
            "end": log.decisions[-1].time.isoformat(),
            "enforced": self.enforced,
            "lost": self.lost,
            "cut_off_files": log.cut_off,
            "other_decisions": [
                {"guard": name, "policy": other, "decisions": number}
                for (name, other), number in log.others.items()
            ],
            **{name: getattr(self, name) for name in _STORED},
            "periods": [
                {"begin": begin.isoformat(), "decisions": number, "abstention": share}
                for begin, number, share in self.periods
            ],
            "labels": of_labels,
            "compared": self.compared,
            **({} if self.cascade is None else {"cascade": self.cascade}),
        }
        return {name: as_json(value) for name, value in found.items()}


def _shares(
    decisions: Sequence[LoggedDecision],
    names: Iterable[str],
    name_of: Callable[[LoggedDecision], str | None],
) -> dict[str, Interval]:
    """Share of the decisions that have each name."""
    return {
        name: share_of(decisions, lambda one, name=name: name_of(one) == name)  # type: ignore[misc]
        for name in names
    }


def _headline(found: ShadowSummary) -> list[str]:
    """Say what enforcing does, the most important first."""
    measures = {
        name: {"title": title, "share": found.measures[name]}
        for name, (title, _) in _known_measures(found).items()
    }
    return _WORDS.paragraphs("headline", found, _CHANGES, measures, estimate_text)


def _known_measures(found: ShadowSummary) -> dict[str, tuple[str, str]]:
    """Title and meaning of each measure that is defined here."""
    names = _measure_names()
    return {name: names[name] for name, one in found.measures.items() if one.value is not None}


def _figures(found: ShadowSummary) -> Figures:
    failed = "A signal or the retrieval failed, or the input was unusable."
    measures = _known_measures(found).items()
    lines = (
        Figure("Would abstain", found.abstention, "Share of all decisions."),
        Figure("Failed", found.failed, failed),
        *(Figure(title, found.measures[name], meaning) for name, (title, meaning) in measures),
    )
    return Figures(lines, unit="Decisions")


def _share_table(name: str, share: str, shares: Mapping[str, Interval], *notes: Text) -> Table:
    columns = [
        (share, [Cell.estimate(one) for one in shares.values()]),
        ("Rests on", [Cell(str(one.n)) for one in shares.values()]),
    ]
    return Table.from_columns(name, list(shares), columns, notes=notes)


def _reasons(found: ShadowSummary) -> Table | str:
    if not found.reasons:
        return "No decision abstains."
    note = _WORDS.text("notes", "repeated")
    return _share_table("Reason", "Share of all decisions", found.reasons, note)


def _changes(found: ShadowSummary) -> Table:
    routes = ", ".join(f"{name} {percent(share.value)}" for name, share in found.routes.items())
    changes = {_CHANGES[name]: share for name, share in found.changes.items()}
    notes = "In shadow mode every reply is made from all passages.", f"By route: {routes}"
    return _share_table("The reply is", "Share of all decisions", changes, *notes)


def _times(periods: Sequence[_Period]) -> Section:
    columns = [
        ("Would abstain", [Cell.estimate(share) for _, _, share in periods]),
        ("Decisions", [Cell(str(number)) for _, number, _ in periods]),
    ]
    begins = [f"{begin:%Y-%m-%d %H:%M}" for begin, _, _ in periods]
    table = Table.from_columns("Period begins (UTC)", begins, columns)
    return Section("As a table", (table,), folded=True)


def _plot(periods: Sequence[_Period]) -> Plot | None:
    if len(periods) < 2:
        return None

    def draw(figure: Canvas) -> None:
        axes, shares = figure.subplots(), [share for _, _, share in periods]
        values = [share.value or 0.0 for share in shares]
        style: dict[str, Any] = {"color": Colour.BLUE, "markersize": 4, "elinewidth": 1.2}
        axes.errorbar(range(len(periods)), values, yerr=error_bars(shares), fmt="o-", **style)
        every = range(0, len(periods), -(-len(periods) // 6))
        axes.set_xticks(every, [f"{periods[at][0]:%m-%d %H:%M}" for at in every])
        axes.set(ylim=(0, 1), ylabel="would abstain")

    caption = _WORDS.text("notes", "over_time")
    return Plot("abstention-over-time", "Abstention over time", caption, draw, (8.0, 3.2))


def _labelled_section(found: ShadowSummary, labels: Labels) -> Section:
    names = _measure_names()
    rows = {names[name][0]: share for name, share in found.measures.items()}
    table = _share_table("Measure", "Share", rows, *names.values())
    shown = []
    for title, name in (("Leaks", "leak"), ("False abstentions", "false_abstention")):
        counts, hit = _MEASURES[name]
        hits = [one for one, label in found.labelled(counts) if hit(one, label)]
        shown.append(_cases(title, hits))
    said = (
        f"{counted(len(labels.by_question), 'labelled question')}. The shares hold for all "
        "traffic only where the labelled questions are a random sample of it."
    )
    return Section("Against the labels", (said, table, *shown))


def _examples(found: ShadowSummary) -> Iterable[Section]:
    for reason in found.reasons:
        own = [one for one in found.log.decisions if one.reason == reason and one.abstains]
        yield _cases(reason, own)


def _cases(title: str, decisions: Iterable[LoggedDecision]) -> Section:
    """Show one decision per question; as ids are hashes, the first ones are a fair sample."""
    last = {one.unit: one for one in decisions}
    shown = [last[unit] for unit in sorted(last, key=str)][:_EXAMPLES]
    texts = read_texts(shown)
    return Section(title, (Cases(tuple(_case(one, texts.get(one.at, {})) for one in shown)),))


def _case(one: LoggedDecision, text: dict[str, object]) -> Case:
    question, passages = text.get("question"), text.get("passages")
    relevance = "" if one.relevance is None else f" · relevance {decimal(one.relevance)}"
    given = passages if isinstance(passages, list) else []
    lines = tuple(CaseLine(passage) for passage in given if isinstance(passage, str))
    name = one.question_id or "unknown question"
    return Case(
        question=question if isinstance(question, str) else name,
        note=f"{one_line(name, 80)} · {one_line(one.reason, 80)}{relevance} · "
        f"{one.time.isoformat(timespec='seconds')} · {one.at[0].name}:{one.at[1]}",
        parts=(Passages(lines, title="Passages"),) if lines else (),
        tag=one.route.value,
    )


def _compared(found: ShadowSummary) -> Table:
    others = found.compared
    columns = [
        ("Questions of both", [Cell(str(one["questions"])) for one in others]),
        ("Abstains only here", [Cell(str(one["only_here"])) for one in others]),
        ("Abstains only there", [Cell(str(one["only_there"])) for one in others]),
        ("Difference", [Cell.difference(one["difference"]) for one in others]),
        ("p", [Cell(decimal(one["p_value"])) for one in others]),
    ]
    names = ["guard {guard}, policy {policy}".format(**one) for one in others]
    notes = (_WORDS.text("notes", "compared"),)
    return Table.from_columns("Other log", names, columns, notes=notes)
