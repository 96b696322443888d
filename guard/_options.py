"""Options of a guard: mode, failures, deadlines and concurrency."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from ._signal import Signal
from .deadlines import Turns
from .decision import Mode, OnError
from .errors import InputError
from .read_models import CheckedSettings, Count
from .reply_check import SUPPORT, OnUnsupported
from .text import InputLimits

# What can fail besides signals of a decision: reading the input, a question in an unknown language,
# and the check of a reply.
_OTHER_FAILURES = ("input", "language", SUPPORT)
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# Since Python 3.12 pydantic cannot read how many values an enumeration's class takes.
def _mode(given: Any) -> Mode:
    return Mode(given)


def _actions(given: Any) -> OnError | dict[str, OnError]:
    if isinstance(given, str):
        return OnError(given)
    return {name: OnError(action) for name, action in given.items()}


@dataclass(frozen=True, config=ConfigDict(strict=True))
class GuardOptions(CheckedSettings):
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
        on_unsupported: what becomes of a reply that the passages do not bear out, where a chain,
            an agent or a server generates one: `flag` (delivered, with the verdict beside it),
            `abstain` (the refusal for `reply_unsupported` in its place), `mark` (its unsupported
            sentences are marked) or `drop` (they are left out). None: replies are not checked.
            A check that fails counts under the name `support` in `on_error` (`follow_context`:
            the reply is delivered) and in `deadlines` (2 seconds by default).
        support: the `SupportCheck` for replies, e.g. one with an entailment model; None for one
            without a model.
        max_concurrency: language-model questions under way at once in a batch.
        name: of the guard, the value of the metrics' label `guard`; at most 40 lower-case
            letters, digits, hyphens and underscores. None for the name of the policy's file
            (`Guard.load("faq.json")`: `faq`), and `default` where there is no file.

    Raises:
        InputError: an option has a value that it cannot have.
    """

    mode: Annotated[Mode | str, AfterValidator(_mode)] = Mode.ENFORCE
    on_error: Annotated[OnError | str | Mapping[str, OnError | str], AfterValidator(_actions)] = (
        OnError.ABSTAIN
    )
    deadlines: Mapping[str, _Seconds | None] = field(default_factory=dict)
    limits: InputLimits = field(default_factory=InputLimits)
    at_once: Mapping[str, Count] = field(default_factory=dict)
    max_wait: _Seconds | None = 120.0
    on_unsupported: OnUnsupported | None = None
    support: Any = None
    max_concurrency: Count = 8
    # It becomes a metric label, whose values must be few and plain.
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")] | None = None

    def named_after(self, policy: str | os.PathLike[str]) -> GuardOptions:
        """These options with the name of a policy's file, unless they have a name.

        Example:
            >>> GuardOptions().named_after("policies/FAQ v2.json").name
            'faq-v2'
        """
        words = re.sub(r"[^a-z0-9_-]+", "-", Path(policy).stem.lower())
        found = re.sub(r"^[^a-z]+", "", words)[:40].rstrip("-")
        return replace(self, name=found) if self.name is None and found else self

    def resolved(
        self,
        names: Sequence[str],
        signals: Sequence[Signal[Any]],
    ) -> tuple[dict[str, OnError], dict[str, float | None], dict[str, Turns]]:
        """What failures lead to, the deadlines, and the turns of signals that wait for each other.

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
        # Shadow mode changes nothing, so it raises nothing.
        raises = OnError.ABSTAIN if self.mode is Mode.SHADOW else OnError.RAISE
        actions = {name: raises if one is OnError.RAISE else one for name, one in actions.items()}
        seconds = {signal.name: signal.deadline for signal in signals}
        seconds |= _known(self.deadlines, [*names, SUPPORT], "deadlines name")
        given, turns = _known(self.at_once, names, "at_once names"), {}
        for signal in signals:
            if signal.name in given:
                turns[signal.name] = Turns(given[signal.name], self.max_wait, fixed=True)
            # What computes on this machine takes longer each, the more questions there are at once.
            elif not (signal.concurrent or signal.has("ameasure") or seconds[signal.name] is None):
                turns[signal.name] = Turns(signal.at_once or self.most_threads, self.max_wait)
        return actions, seconds, turns

    @property
    def most_threads(self) -> int:
        """Threads for signals: stuck ones keep theirs, so more than a batch needs at once."""
        return max(64, 2 * self.max_concurrency)


def _known(given: Any, names: Sequence[str], what: str) -> Mapping[str, Any]:
    if unknown := ", ".join(sorted(map(str, set(given) - set(names)))):
        raise InputError(f"{what} no signal: {unknown}", hint=f"one of: {', '.join(names)}")
    found: Mapping[str, Any] = given
    return found
