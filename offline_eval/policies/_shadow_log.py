"""Read the decisions that `DecisionLog` wrote, and the labels that people gave them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, StrictBool, model_validator

from ...guard import DecisionLog
from ...guard.decision import Mode, Route
from ...guard.errors import InputError
from ...guard.files import read_bytes, read_jsonl
from ...guard.policy import Policy
from ...guard.read_models import check_model, read_models

_HINT = "name files or folders that knowgate.guard.DecisionLog wrote"
_LABELS = 'each line needs "question_id" or "question", and "answerable" or "right" (true or false)'
_KEPT = ("answer", "passage", "source", "topic", "note")
# Reasons that stand for an error, and not for a judgement about the question.
_FAULTS = (
    "signal_failed_follows_context", "invalid_input", "invalid_passages", "input_too_large",
)  # fmt: skip


class LoggedDecision(BaseModel):
    """A line of the log.

    Attributes:
        at: file and number of the line.
        question_id: None where the input could not be read, or a chain decided.
        policy: its id.
        kept: passages that were kept; None where none were needed.
        passages: that were given; None where that is not known.
        lost: decisions before this one that could not be written.
        relevance: calibrated; None where it was not measured.
        relevance_stage: which scorer of a cascade it rests on; None for any other scorer.
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
    relevance: float | None = None
    relevance_stage: str | None = None

    @property
    def made_by(self) -> tuple[str, str]:
        """Name of the guard, and id of its policy."""
        return self.guard, self.policy

    @property
    def unit(self) -> object:
        """What is independent of other lines: the question."""
        return self.at if self.question_id is None else self.question_id

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
                    if value.get("kind") != "reply":
                        made, where = {**value, "at": (path, line)}, f"{path}:{line}"
                        found.append(check_model(LoggedDecision, made, where=where, hint=_HINT))
            except InputError as error:
                if not _is_cut_off(path, error):
                    raise
                cut_off += 1
            if on_progress is not None:
                on_progress(number, len(files))
        wanted = [
            one for one in found if guard in (None, one.guard) and policy_id in (None, one.policy)
        ]
        if not wanted:
            pairs = dict.fromkeys(one.made_by for one in found)
            names = "; ".join(f"guard {name}, policy {policy}" for name, policy in pairs)[:300]
            what = "there is no decision of this guard" if found else "there is no decision"
            where = ", ".join(os.fspath(path) for path in paths)[:200]
            raise InputError(what, where=where, hint=f"there are: {names}" if found else _HINT)
        last = max(wanted, key=lambda one: one.time).made_by
        others = Counter(one.made_by for one in found if one.made_by != last)
        own = sorted((one for one in wanted if one.made_by == last), key=lambda one: one.time)
        return cls(own, dict(others), cut_off, _policy(files, last[1]))

    @property
    def made_by(self) -> tuple[str, str]:
        """Name of the guard, and id of its policy."""
        return self.decisions[0].made_by

    def last_by_question(self) -> dict[str, LoggedDecision]:
        """Return the last decision on each question that is known."""
        return {one.question_id: one for one in self.decisions if one.question_id is not None}


class Label(BaseModel):
    """What is known about a question; None where it was not said.

    What a line says besides is kept for calibration.

    Attributes:
        answerable: the answer is among the passages.
        right: the reply that was shown is right.
    """

    model_config = ConfigDict(extra="allow")

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


@dataclass(frozen=True, slots=True)
class Labels:
    """What people said about the questions of a log.

    Attributes:
        by_question: by question id.
        contradictory: questions whose labels contradict each other, left out.
        unmatched: labelled questions that are not in the log.
        lines: of the file, those left out included.
    """

    by_question: dict[str, Label]
    contradictory: int
    unmatched: int
    lines: list[Label]

    @classmethod
    def read(cls, path: str | os.PathLike[str], log: ShadowLog) -> Labels:
        """Read labels of the questions of a log.

        Args:
            path: JSON lines with `question_id` or `question`, and `answerable` or `right`.
            log: with the decisions.

        Raises:
            InputError: a line is no label, or none of the questions is in the log.
        """
        lines = [line for _, line in read_models(path, Label, hint=_LABELS)]
        given: dict[str, dict[str, bool]] = defaultdict(dict)
        contradictory = set()
        for line in lines:
            for key, said in (("answerable", line.answerable), ("right", line.right)):
                if said is not None and given[line.name].setdefault(key, said) is not said:
                    contradictory.add(line.name)
        asked = log.last_by_question()
        there = given.keys() & asked.keys()
        if not there:
            what = "none of these questions is in the log"
            hint = "ids made with a key, or by `identify`, must be given as question_id"
            raise InputError(what, where=os.fspath(path), hint=hint)
        known = {
            name: Label.model_validate({"question_id": name, **given[name]})
            for name in there - contradictory
        }
        return cls(known, len(there & contradictory), len(given) - len(there), lines)

    def questions(self, log: ShadowLog, *, answerable: bool) -> list[dict[str, Any]]:
        """Return the questions that are labelled so, each once, to calibrate on.

        Those whose text is known neither from the label nor from the log are left out.
        """
        asked = log.last_by_question()
        texts = read_texts(asked[name] for name in self.by_question)
        found: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            label = self.by_question.get(line.name)
            if label is None or label.answerable is not answerable:
                continue
            question = line.question or texts.get(asked[line.name].at, {}).get("question")
            if isinstance(question, str) and question.strip():
                more = line.model_extra or {}
                kept = {key: more[key] for key in _KEPT if isinstance(more.get(key), str)}
                found.setdefault(line.name, {"id": line.name, "question": question, **kept})
        return list(found.values())


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
            if number == last:
                break  # the end of the file may be cut off
    return found


def _files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
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
