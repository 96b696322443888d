"""The report of shadow mode: what enforcing a policy would have changed.

ShadowLog, labels ─► shadow_report ─► a page, and the same numbers as JSON
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, StrictBool, model_validator

from ...calibration import Interval
from ...guard import DecisionLog
from ...guard.decision import Mode, Route
from ...guard.errors import InputError
from ...guard.files import AnyPath, read_bytes, read_jsonl
from ...guard.policy import Policy
from ...guard.read_models import check_model, read_models
from ..report.document import Document, Section, as_json
from ..report.prose import Templates
from ..report.tables import Table, Text
from ..report.text import counted, estimate_text, percent
from ..run.grouping import grouped, most_frequent

_WORDS = Templates(Path(__file__).parent / "shadow.txt")
_HINT = "name files or folders that knowgate.guard.DecisionLog wrote"
_LABELS = 'each line needs "question_id" or "question", and "answerable" or "right" (true or false)'
# Reasons that stand for an error, and not for a judgement about the question.
_FAULTS = (
    "signal_failed_follows_context", "invalid_input", "invalid_passages", "input_too_large",
)  # fmt: skip
# Above this share the other numbers say little.
_MAX_FAILED = 0.05
_MAX_PERIODS = 48
_PERIODS = tuple(timedelta(minutes=m) for m in (1, 5, 15, 60, 360, 1440, 10_080))
_CHANGES = {
    "abstained": "replaced by an abstention",
    "from_memory": "answered from memory, without the passages",
    "fewer_passages": "answered from fewer passages",
    "unchanged": "unchanged",
}


class LoggedDecision(BaseModel):
    """A line of the log.

    Attributes:
        at: file and number of the line.
        question_id: None where the input could not be read, or a chain decided.
        policy: its id.
        kept: passages that were kept; None where none were needed.
        passages: that were given; None where that is not known.
        lost: decisions before this one that could not be written.
    """

    model_config = ConfigDict(frozen=True)

    at: tuple[Path, int]
    time: AwareDatetime
    question_id: str | None = None
    guard: str
    policy: str
    mode: Mode
    route: Route
    reason: str
    kept: list[Any] | None = None
    passages: int | None = None
    failed_signals: Any = None
    lost: int = 0

    @property
    def made_by(self) -> tuple[str, str]:
        """Name of the guard, and id of its policy."""
        return self.guard, self.policy

    @property
    def unit(self) -> str:
        """What is independent of other lines: the question, or else the line."""
        return self.question_id or ":".join(map(str, self.at))

    @property
    def abstains(self) -> bool:
        """Whether its route is to abstain."""
        return self.route is Route.ABSTAIN

    @property
    def failed(self) -> bool:
        """Whether a signal failed, or the input could not be read."""
        fault = self.reason.endswith("_failed") or self.reason in _FAULTS
        return bool(self.failed_signals) or fault

    @property
    def change(self) -> str:
        """What enforcing does to the reply."""
        if self.abstains:
            return "abstained"
        if self.route is Route.ANSWER:
            return "from_memory"
        shortened = self.kept is not None and len(self.kept) < (self.passages or 0)
        return "fewer_passages" if shortened else "unchanged"


_Log = tuple[list[LoggedDecision], dict[str, Any], Policy | None]
# The decisions of one guard under one policy, oldest first; what the report says of the files; and
# the policy, None where its file is not there.


def _read(
    paths: Sequence[AnyPath],
    guard: str | None,
    policy_id: str | None,
    on_progress: Callable[[int, int], object] | None,
) -> _Log:
    """Read files and folders; by default of the guard and policy that decided last.

    Raises:
        InputError: there is no decision, or a line is not one of `DecisionLog`.
    """
    files = _files(paths)
    found: list[LoggedDecision] = []
    cut_off = 0
    for number, path in enumerate(files, start=1):
        try:
            for line, value in read_jsonl(path, links=False):
                if value.get("kind") != "reply":
                    made, where = {**value, "at": (path, line)}, f"{path}:{line}"
                    found.append(check_model(LoggedDecision, made, where=where, hint=_HINT))
        except InputError as error:
            if not _is_cut_off(path, error):
                raise
            cut_off += 1
        if on_progress is not None:
            on_progress(number, len(files))
    wanted = sorted(
        (one for one in found if guard in (None, one.guard) and policy_id in (None, one.policy)),
        key=lambda one: one.time,
    )
    if not wanted:
        pairs = dict.fromkeys(one.made_by for one in found)
        names = "; ".join(f"guard {name}, policy {policy}" for name, policy in pairs)[:300]
        what = "there is no decision of this guard" if found else "there is no decision"
        where = ", ".join(os.fspath(path) for path in paths)[:200]
        raise InputError(what, where=where, hint=f"there are: {names}" if found else _HINT)
    last = wanted[-1].made_by
    others = Counter(one.made_by for one in found if one.made_by != last)
    about = {
        "cut_off_files": cut_off,
        "other_decisions": [
            {"guard": name, "policy": other, "decisions": number}
            for (name, other), number in others.items()
        ],
    }
    return [one for one in wanted if one.made_by == last], about, _policy(files, last[1])


def _values(
    every: Sequence[LoggedDecision],
    about: Mapping[str, Any],
    policy: Policy | None,
) -> dict[str, Any]:
    """What the report says without labels; shares as intervals."""
    guard, policy_id = every[0].made_by
    certified = bool(policy and policy.guarantee and policy.guarantee.certified)
    reasons = most_frequent(one.reason for one in every if one.abstains)
    found: dict[str, Any] = {
        "schema_version": Document.SCHEMA_VERSION,
        "guard": guard,
        "policy": policy_id,
        "certified": None if policy is None else certified and not policy.changed,
        "decisions": len(every),
        "questions": len({one.unit for one in every}),
        "begin": every[0].time.isoformat(),
        "end": every[-1].time.isoformat(),
        "enforced": sum(one.mode is Mode.ENFORCE for one in every),
        "lost": sum(one.lost for one in every),
        **about,
        "abstention": share_of([(one.unit, one.abstains) for one in every]),
        "failed": share_of([(one.unit, one.failed) for one in every]),
        "routes": _shares([(one.unit, one.route.value) for one in every], map(str, Route)),
        "reasons": _shares([(one.unit, one.abstains and one.reason) for one in every], reasons),
        "changes": _shares([(one.unit, one.change) for one in every], _CHANGES),
        "periods": _periods(every),
    }
    return found | {"problems": _WORDS.paragraphs("problems", found, _MAX_FAILED)}


class Label(BaseModel):
    """What is known about a question; None where it was not said.

    Attributes:
        answerable: the answer is among the passages.
        right: the reply that was shown is right.
    """

    question_id: str = ""
    question: str = ""
    answerable: StrictBool | None = None
    right: StrictBool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Label:
        if not self.question_id and not self.question:
            raise ValueError("names no question")
        if self.answerable is None and self.right is None:
            raise ValueError("says nothing about the question")
        return self

    @property
    def name(self) -> str:
        """Id of the question."""
        return self.question_id or DecisionLog.plain_question_id(self.question)


_SAID = {"answerable", "right"}
# Shares that need labels: whether a decision is a hit; None where it does not count.
_MEASURES: Mapping[str, Callable[[LoggedDecision, Label], bool | None]] = {
    "leak": lambda one, said: not one.abstains if said.answerable is False else None,
    "false_abstention": lambda one, said: one.abstains if said.answerable else None,
    "wrong_now": lambda one, said: None if said.right is None else not said.right,
    "wrong_then": lambda one, said: (
        not said.right if said.right is not None and one.route is Route.FOLLOW_CONTEXT else None
    ),
    "wrong_caught": lambda one, said: one.abstains if said.right is False else None,
    "right_lost": lambda one, said: one.abstains if said.right else None,
}


def shadow_report(
    logs: Sequence[AnyPath],
    *,
    labels: AnyPath | None = None,
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
        guard: name of the guard; None for the one that decided last.
        policy_id: of its policy; None for the one that it decided by last.
        on_progress: called with the number of files read and of all files.

    Returns:
        The report. Its values hold `certified` and `problems`: why the log is no reason to
        enforce the policy.

    Raises:
        InputError: a file cannot be read, or there is no decision in it.
    """
    decisions, about, policy = _read(logs, guard, policy_id, on_progress)
    found = _values(decisions, about, policy)
    told = found["labels"] = None if labels is None else _against_labels(decisions, labels)
    begin, end = (f"{decisions[at].time:%Y-%m-%d %H:%M}" for at in (0, -1))
    periods = [(one["begin"], one) for one in found["periods"]]
    columns = ("Would abstain", "abstention"), ("Rests on", "decisions")
    failed = "A signal or the retrieval failed, or the input was unusable."
    figures = (
        ("Would abstain", found["abstention"], "Share of all decisions."),
        ("Failed", found["failed"], failed),
    )
    return Document(
        name="shadow",
        title=f"What enforcing would have changed: guard {found['guard']}",
        subtitle=f"{counted(found['decisions'], 'decision')} on "
        f"{counted(found['questions'], 'question')} from {begin} to {end} · "
        f"policy {found['policy']}",
        headline=_WORDS.paragraphs("headline", found, _CHANGES, told or {}, estimate_text),
        warnings=[*found["problems"], *_WORDS.paragraphs("cautions", found)],
        sections=(
            Section("Results", (Table.of_figures(figures, unit="Decisions"),)),
            Section("Why it abstains", (_reasons(found),)),
            Section("What enforcing would have changed", (_changes(found),)),
            Section("Over time", (Table.of_lines("Period begins (UTC)", periods, columns),)),
            None if told is None else _labelled_section(told),
            Section("The policy", (_WORDS.text("promise", policy),)),
        ),
        values={name: as_json(value) for name, value in found.items()},
    )


def share_of(trials: Sequence[tuple[object, bool]]) -> Interval:
    """Give a share an interval in which a repeated question counts once.

    The interval is Wilson's for n²/Σm² decisions, where m is how often each question was
    asked: as if all decisions on a question were the same, which is nearly so.

    Args:
        trials: question and whether it counts, of each decision; undefined without any.

    Source: Kish 1965, Survey Sampling, for the effective number.
    """
    n = len(trials)
    if not n:
        return Interval()
    times = Counter(unit for unit, _ in trials).values()
    effective = max(1, n * n // sum(m * m for m in times))
    share = sum(hit for _, hit in trials) / n
    return Interval.wilson(round(share * effective), effective).around(share)


def _shares(named: Sequence[tuple[object, object]], names: Iterable[str]) -> dict[str, Interval]:
    """Share of the decisions that have each name."""
    return {name: share_of([(unit, own == name) for unit, own in named]) for name in names}


def _periods(decisions: Sequence[LoggedDecision]) -> list[dict[str, Any]]:
    """The share that abstains in periods of one length, at most 48 of them."""
    whole = decisions[-1].time - decisions[0].time
    length = next((one for one in _PERIODS if whole / one < _MAX_PERIODS), _PERIODS[-1])
    seconds = length.total_seconds()
    parts = grouped(decisions, lambda one: int(one.time.timestamp() // seconds))
    return [
        {
            "begin": datetime.fromtimestamp(number * seconds, UTC).isoformat(),
            "decisions": len(part),
            "abstention": share_of([(one.unit, one.abstains) for one in part]),
        }
        for number, part in sorted(parts.items())
    ]


def _against_labels(decisions: Sequence[LoggedDecision], path: AnyPath) -> dict[str, Any]:
    """The shares that need labels, and how many questions are known or not.

    Raises:
        InputError: a line is no label, or none of the questions is in the log.
    """
    given: dict[str, Label] = {}
    contradictory = set()
    for _, line in read_models(path, Label, hint=_LABELS):
        before, said = given.get(line.name, line), line.model_dump(exclude_none=True, include=_SAID)
        if any(getattr(before, key) not in (None, value) for key, value in said.items()):
            contradictory.add(line.name)
        given[line.name] = before.model_copy(update=said)
    there = given.keys() & {one.question_id for one in decisions}
    if not there:
        what = "none of these questions is in the log"
        hint = "ids made with a key, or by `identify`, must be given as question_id"
        raise InputError(what, where=os.fspath(path), hint=hint)
    known = there - contradictory
    labelled = [(one, given[one.unit]) for one in decisions if one.unit in known]
    found: dict[str, Any] = {
        "questions": len(known),
        "contradictory": len(there & contradictory),
        "unmatched": len(given) - len(there),
    }
    for name, measure in _MEASURES.items():
        trials = ((one.unit, measure(one, said)) for one, said in labelled)
        found[name] = share_of([(unit, hit) for unit, hit in trials if hit is not None])
    return found


def _share_table(name: str, share: str, shares: Mapping[str, Interval], *notes: Text) -> Table:
    """A table of shares with what they rest on."""
    lines = {title: {"share": one, "n": one.n} for title, one in shares.items()}
    return Table.of_lines(name, lines, ((share, "share"), ("Rests on", "n")), notes=notes)


def _reasons(found: Mapping[str, Any]) -> Table | str:
    if not found["reasons"]:
        return "No decision abstains."
    note = _WORDS.text("repeated")
    return _share_table("Reason", "Share of all decisions", found["reasons"], note)


def _changes(found: Mapping[str, Any]) -> Table:
    routes = ", ".join(f"{name} {percent(share.value)}" for name, share in found["routes"].items())
    changes = {_CHANGES[name]: share for name, share in found["changes"].items()}
    notes = "In shadow mode every reply is made from all passages.", f"By route: {routes}"
    return _share_table("The reply is", "Share of all decisions", changes, *notes)


def _labelled_section(told: Mapping[str, Any]) -> Section:
    names = [line.split(" :: ") for line in _WORDS.paragraphs("measures")]
    shares = {title: told[name] for name, title, _ in names}
    table = _share_table("Measure", "Share", shares, *((title, text) for _, title, text in names))
    said = (
        f"{counted(told['questions'], 'labelled question')}. The shares hold for all "
        "traffic only where the labelled questions are a random sample of it."
    )
    return Section("Against the labels", (said, table))


def _files(paths: Sequence[AnyPath]) -> list[Path]:
    found: list[Path] = []
    for path in (Path(given).resolve() for given in paths):
        found += sorted(path.glob("decisions-*.jsonl")) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def _policy(files: Iterable[Path], policy_id: str) -> Policy | None:
    for folder in dict.fromkeys(file.parent for file in files):
        path = folder / f"policy-{policy_id}.json"
        if path.exists():
            return Policy.load(path, allow_changed=True, links=False)
    return None


def _is_cut_off(path: Path, error: InputError) -> bool:
    """Whether an error is about the last line of a file, and that line does not end."""
    raw = read_bytes(path, links=False) if path.is_file() else b"\n"
    last = raw.count(b"\n") + 1
    return not raw.endswith(b"\n") and error.where == f"{path}:{last}"
