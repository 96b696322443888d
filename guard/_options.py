"""Options of a guard: mode, failures, deadlines and concurrency."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ._signal import Signal
from ._turns import Turns
from .decision import Mode, OnError
from .errors import InputError
from .text import InputLimits

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
# What can fail besides signals: reading the input, and a question in an unknown language.
_OTHER_FAILURES = ("input", "language")
_Choice = TypeVar("_Choice", Mode, OnError)


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """How a guard acts, how long it waits and what failures lead to.

    Attributes:
        mode: `enforce`, or `shadow` to decide and count without acting; `raise` then counts
            as `abstain`.
        on_error: what a failed signal leads to (`abstain`, `follow_context`, `raise`), for
            all signals or by name; `follow_context` after a failed veto goes on with the
            other signals. Input that cannot be read counts under the name `input`; it can
            be raised or abstained from. A question in a language that the scorer does not
            know counts under the name `language`; its relevance is then not measured.
        deadlines: seconds by signal name, in place of the signal's own; None waits for
            ever and runs a sync call on the caller's own thread. A deadline begins when the
            measuring begins. A batch has two of each signal, however many questions it has.
        at_once: questions by signal name that are measured at the same time, while others wait
            for their turn. By default those of a scorer that computes on this machine are as
            many as end well within the deadline, on CPUs at most one per CPU.
        max_wait: seconds that a question, or a batch in all, waits for its turn, after which its
            signal counts as failed; None waits for ever.
        limits: the most that is read of a question and its passages.
        max_concurrency: language-model questions under way at once in a batch.
        name: of the guard, the value of the metrics' label `guard`; at most 40 lower-case
            letters, digits, hyphens and underscores. None for the name of the policy's file
            (`Guard.load("faq.json")`: `faq`), and `default` where there is no file.
        trace_text: whether spans for OpenTelemetry hold question, passages and closed-book
            answer, in place of numbers alone.

    Raises:
        InputError: an option has a value that it cannot have.
    """

    mode: Mode | str = Mode.ENFORCE
    on_error: OnError | str | Mapping[str, OnError | str] = OnError.ABSTAIN
    deadlines: Mapping[str, float | None] = field(default_factory=dict)
    limits: InputLimits = field(default_factory=InputLimits)
    at_once: Mapping[str, int] = field(default_factory=dict)
    max_wait: float | None = 120.0
    max_concurrency: int = 8
    name: str | None = None
    trace_text: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", _choice(Mode, self.mode, "mode"))
        if isinstance(self.on_error, str):
            object.__setattr__(self, "on_error", _choice(OnError, self.on_error, "on_error"))
        elif isinstance(self.on_error, Mapping):
            actions = {
                name: _choice(OnError, action, "on_error") for name, action in self.on_error.items()
            }
            object.__setattr__(self, "on_error", actions)
        else:
            raise InputError("on_error is neither an action nor a mapping from signal to action")
        self._check_times()
        if self.name is not None and not (
            isinstance(self.name, str) and _NAME.fullmatch(self.name)
        ):
            raise InputError(
                "the name of a guard becomes a metric label",
                where="name",
                hint="use at most 40 lower-case letters, digits, hyphens and underscores",
            )
        if not isinstance(self.limits, InputLimits):
            raise InputError("limits are no InputLimits", where="limits")
        if not isinstance(self.trace_text, bool):
            raise InputError("is neither True nor False", where="trace_text")
        if not _is_count(self.max_concurrency):
            raise InputError("max_concurrency must be a whole number, at least 1")

    def _check_times(self) -> None:
        """Check deadlines, and what is said of waiting."""
        if not isinstance(self.deadlines, Mapping):
            raise InputError("deadlines are not a mapping from signal to seconds")
        for name, seconds in self.deadlines.items():
            if seconds is not None and not _is_time(seconds):
                raise InputError(f"the deadline of {name} must be positive seconds or None")
        if self.max_wait is not None and not _is_time(self.max_wait):
            raise InputError("must be positive seconds or None", where="max_wait")
        if not isinstance(self.at_once, Mapping) or not all(map(_is_count, self.at_once.values())):
            hint = "give a mapping from signal to a whole number, at least 1"
            raise InputError("is no number of questions by signal", where="at_once", hint=hint)

    def named_after(self, policy: str | os.PathLike[str]) -> GuardOptions:
        """These options with the name of a policy's file, unless they have a name.

        Example:
            >>> GuardOptions().named_after("policies/FAQ v2.json").name
            'faq-v2'
        """
        words = re.sub(r"[^a-z0-9_-]+", "-", Path(policy).stem.lower())
        found = re.sub(r"^[^a-z]+", "", words)[:40].rstrip("-")
        return replace(self, name=found) if self.name is None and found else self

    def actions(self, names: Iterable[str], signals: Iterable[Signal[Any]]) -> dict[str, OnError]:
        """What each failure leads to.

        Args:
            names: of all signals that options may name.
            signals: those that the guard has.

        Raises:
            InputError: an unknown signal is named.
        """
        known = [*names, *_OTHER_FAILURES]
        if isinstance(self.on_error, OnError):
            actions = dict.fromkeys(known, self.on_error)
        else:
            own = {signal.name: signal.on_error for signal in signals}
            named: Any = _known(self.on_error, known, "on_error names")
            actions = {name: named.get(name, own.get(name, OnError.ABSTAIN)) for name in known}
        if self.mode is Mode.SHADOW:  # which changes nothing, so it raises nothing
            return {
                name: OnError.ABSTAIN if action is OnError.RAISE else action
                for name, action in actions.items()
            }
        return actions

    def seconds(
        self, names: Iterable[str], signals: Iterable[Signal[Any]]
    ) -> dict[str, float | None]:
        """The deadline of each signal; arguments and errors as for `actions`."""
        own = {signal.name: signal.deadline for signal in signals}
        return own | dict(_known(self.deadlines, list(names), "deadlines name"))

    def turns(self, names: Iterable[str], signals: Iterable[Signal[Any]]) -> dict[str, Turns]:
        """The turns of signals whose questions wait for each other; errors as for `actions`."""
        given = _known(self.at_once, list(names), "at_once names")
        seconds = self.seconds(names, signals)
        found = {}
        for signal in signals:
            if signal.name in given:
                found[signal.name] = Turns(given[signal.name], self.max_wait, fixed=True)
            elif signal.computes_here and seconds[signal.name] is not None:
                found[signal.name] = Turns(signal.at_once or self.most_threads, self.max_wait)
        return found

    @property
    def most_threads(self) -> int:
        """Threads for signals: stuck ones keep theirs, so more than a batch needs at once."""
        return max(64, 2 * self.max_concurrency)


def _is_time(seconds: Any) -> bool:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return is_number and 0 < seconds < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _known(given: Any, names: list[str], what: str) -> Mapping[str, Any]:
    unknown = set(given) - set(names)
    if unknown:
        raise InputError(
            f"{what} no signal: {', '.join(sorted(map(str, unknown)))}",
            hint=f"one of: {', '.join(names)}",
        )
    found: Mapping[str, Any] = given
    return found


def _choice(kind: type[_Choice], value: str, what: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise InputError(
            f"{what} {value!r} is unknown", hint=f"one of: {', '.join(kind)}"
        ) from None
