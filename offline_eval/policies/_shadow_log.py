"""Read the decisions that `DecisionLog` wrote, and the labels that people gave them."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ...guard import DecisionLog
from ...guard.decision import Mode, Route
from ...guard.errors import InputError
from ...guard.files import read_bytes, read_jsonl
from ...guard.policy import Policy

_HINT = "name files or folders that knowgate.guard.DecisionLog wrote"
_LABELS = 'each line needs "question_id" or "question", and "answerable" or "right" (true or false)'
_KEPT = ("answer", "passage", "source", "topic", "note")
_Choice = TypeVar("_Choice", Route, Mode)


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A line of the log.

    Attributes:
        at: file and number of the line.
        time: when it was written.
        question_id: None where the input could not be read, or a chain decided.
        made_by: name of the guard, and id of its policy.
        mode: shadow or enforce.
        route: of the decision.
        reason: likewise.
        shortened: fewer passages were kept than given.
        failed: a signal failed, or the input could not be read.
        lost: decisions before this one that could not be written.
        relevance: calibrated; None where it was not measured.
        stage: which scorer of a cascade it rests on; None for any other scorer.
    """

    at: tuple[Path, int]
    time: datetime
    question_id: str | None
    made_by: tuple[str, str]
    mode: Mode
    route: Route
    reason: str
    shortened: bool
    failed: bool
    lost: int
    relevance: float | None
    stage: str | None = None

    @property
    def unit(self) -> object:
        """What is independent of other lines: the question."""
        return self.at if self.question_id is None else self.question_id


@dataclass(frozen=True, slots=True)
class Label:
    """What is known about the question of a decision; None where it was not said.

    Attributes:
        answerable: the answer is among the passages.
        right: the reply that was shown is right.
    """

    answerable: bool | None
    right: bool | None


@dataclass(frozen=True, slots=True)
class ShadowLog:
    """The decisions of one guard under one policy, oldest first.

    Attributes:
        decisions: at least one.
        others: number of decisions of each other guard and policy in the same files.
        cut_off: files whose last line is cut off, as a kill or a full disk leaves them.
        policy: that decided; None where its file is not there.
    """

    decisions: Sequence[LoggedDecision]
    others: dict[tuple[str, str], int]
    cut_off: int
    policy: Policy | None

    @classmethod
    def read(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        guard: str | None = None,
        policy_id: str | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> ShadowLog:
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
                    found.append(_decision(value, path, line))
            except InputError as error:
                if not _is_cut_off(path, error):
                    raise
                cut_off += 1
            if on_progress is not None:
                on_progress(number, len(files))
        wanted = [
            one
            for one in found
            if guard in (None, one.made_by[0]) and policy_id in (None, one.made_by[1])
        ]
        if not wanted:
            raise InputError(
                "there is no decision" if not found else "there is no decision of this guard",
                where=", ".join(os.fspath(path) for path in paths)[:200],
                hint=_HINT if not found else f"there are: {_names(found)}",
            )
        last = max(wanted, key=lambda one: one.time).made_by
        others = Counter(one.made_by for one in found if one.made_by != last)
        own = sorted((one for one in wanted if one.made_by == last), key=lambda one: one.time)
        return cls(own, dict(others), cut_off, _policy(files, last[1]))

    @property
    def made_by(self) -> tuple[str, str]:
        """Name of the guard, and id of its policy."""
        return self.decisions[0].made_by


def read_labels(
    path: str | os.PathLike[str], asked: Iterable[LoggedDecision]
) -> tuple[dict[str, Label], int, int]:
    """Read what is known about the questions of decisions.

    Args:
        path: JSON lines with `question_id` or `question`, and `answerable` or `right`.
        asked: the decisions.

    Returns:
        The labels by question id; the number of questions whose labels contradict each
        other, which are left out; the number of labelled questions that are not in the log.

    Raises:
        InputError: a line is no label, or none of the questions is in the log.
    """
    given: dict[str, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for number, value in read_jsonl(path):
        where = f"{os.fspath(path)}:{number}"
        name = value.get("question_id")
        if name is None and isinstance(value.get("question"), str):
            name = DecisionLog.plain_question_id(value["question"])
        if not isinstance(name, str):
            raise InputError("names no question", where=where, hint=_LABELS)
        said = {key: value[key] for key in ("answerable", "right") if value.get(key) is not None}
        if not said or not all(isinstance(one, bool) for one in said.values()):
            raise InputError("says nothing about the question", where=where, hint=_LABELS)
        for key, one in said.items():
            given[name][key].add(one)
    known = {one.question_id for one in asked}
    there = {name: said for name, said in given.items() if name in known}
    if not there:
        raise InputError(
            "none of these questions is in the log",
            where=os.fspath(path),
            hint="ids made with a key, or by `identify`, must be given as question_id",
        )
    labels = {
        name: Label(_only(said["answerable"]), _only(said["right"]))
        for name, said in there.items()
        if all(len(values) < 2 for values in said.values())
    }
    return labels, len(there) - len(labels), len(given) - len(there)


def labelled_questions(
    path: str | os.PathLike[str], decisions: Sequence[LoggedDecision]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the questions whose labels say whether they are answerable, to calibrate on.

    Args:
        path: the labels, as for `read_labels`. What a line says besides, such as `source`,
            `answer` or `topic`, is kept.
        decisions: in whose log the text of a question is looked for where its label has none.

    Returns:
        Answerable and unanswerable questions, each once, in the order of the labels; without
        those whose text is known nowhere, and without those whose labels contradict each other.
    """
    labels, _, _ = read_labels(path, decisions)
    logged = {one.question_id: one for one in decisions if one.question_id in labels}
    texts = read_texts(logged.values())
    found: dict[bool, dict[str, dict[str, Any]]] = {True: {}, False: {}}
    for _, value in read_jsonl(path):
        given = value.get("question")
        name = value.get("question_id") or DecisionLog.plain_question_id(str(given))
        said = labels[name].answerable if name in labels else None
        if said is None:
            continue
        question = given or texts.get(logged[name].at, {}).get("question")
        if isinstance(question, str) and question.strip():
            more = {key: value[key] for key in _KEPT if isinstance(value.get(key), str)}
            found[said].setdefault(name, {"id": name, "question": question, **more})
    return list(found[True].values()), list(found[False].values())


def read_texts(decisions: Iterable[LoggedDecision]) -> dict[tuple[Path, int], dict[str, Any]]:
    """Read the text of some lines, where it was logged."""
    wanted: dict[Path, set[int]] = defaultdict(set)
    for one in decisions:
        wanted[one.at[0]].add(one.at[1])
    found = {}
    for path, numbers in wanted.items():
        last = max(numbers)
        for number, value in read_jsonl(path, links=False):
            if number in numbers and isinstance(value.get("text"), dict):
                found[path, number] = value["text"]
            if number >= last:
                break
    return found


def _only(values: set[bool]) -> bool | None:
    return next(iter(values), None)


def _files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        real = path.resolve()
        files = sorted(real.glob("decisions-*.jsonl")) if path.is_dir() else [real]
        found.update(dict.fromkeys(files))
    return list(found)


def _names(decisions: Iterable[LoggedDecision]) -> str:
    pairs = dict.fromkeys(one.made_by for one in decisions)
    return "; ".join(f"guard {guard}, policy {policy}" for guard, policy in pairs)[:300]


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


def _decision(value: dict[str, Any], path: Path, line: int) -> LoggedDecision:
    where = f"{path}:{line}"

    def text(name: str) -> str:
        found = value.get(name)
        if not isinstance(found, str):
            raise InputError(f"field '{name}' is missing or no text", where=where, hint=_HINT)
        return found

    def one_of(kind: type[_Choice], name: str) -> _Choice:
        try:
            return kind(text(name))
        except ValueError:
            raise InputError(f"field '{name}' is unknown", where=where, hint=_HINT) from None

    def count(name: str, default: int) -> int:
        found = value.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else default

    time: datetime | None = None
    with contextlib.suppress(ValueError):
        time = datetime.fromisoformat(text("time"))
    if time is None or time.tzinfo is None:
        raise InputError("field 'time' is no time with a zone", where=where, hint=_HINT)
    route, reason = one_of(Route, "route"), text("reason")
    kept, question_id = value.get("kept"), value.get("question_id")
    relevance = value.get("relevance")
    if isinstance(relevance, bool) or not isinstance(relevance, int | float):
        relevance = None
    return LoggedDecision(
        at=(path, line),
        time=time,
        question_id=question_id if isinstance(question_id, str) else None,
        made_by=(text("guard"), text("policy")),
        mode=one_of(Mode, "mode"),
        route=route,
        reason=reason,
        shortened=route is Route.FOLLOW_CONTEXT
        and isinstance(kept, list)
        and len(kept) < count("passages", 0),
        failed=bool(value.get("failed_signals")) or is_failure(reason),
        lost=count("lost", 0),
        relevance=relevance,
        stage=str(value["relevance_stage"]) if value.get("relevance_stage") else None,
    )


def is_failure(reason: str) -> bool:
    """Whether a reason stands for an error, and not for a judgement about the question."""
    return reason.endswith("_failed") or reason in (
        "signal_failed_follows_context", "invalid_input", "invalid_passages", "input_too_large",
    )  # fmt: skip


def last_by_question(decisions: Iterable[LoggedDecision]) -> Iterator[tuple[str, LoggedDecision]]:
    """Yield the last decision on each question that is known."""
    last = {one.question_id: one for one in decisions}
    for name, one in last.items():
        if name is not None:
            yield name, one
