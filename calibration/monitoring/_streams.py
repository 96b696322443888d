"""Streams of yes and no, with evidence that is valid at every moment.

RiskMonitor         is the promised risk still kept?
RateChangeDetector  has a rate changed, and since when?
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, astuple, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.read_models import CheckedSettings
from .. import Interval
from ..distributions import binomial_upper_bound, root
from ..statistics import Floats

Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Direction = Literal["up", "down"]
_CHANGE_STAKES: Floats = np.geomspace(0.02, 0.9, 10)
_Inside = Annotated[float, Field(strict=True, gt=0, lt=1)]
_Share = Annotated[float, Field(strict=True, ge=0, le=1)]
# Keys of objects are texts in JSON.
_Weight = Annotated[float, Field(allow_inf_nan=False)]
_Ten = Field(min_length=10, max_length=10)
if TYPE_CHECKING:
    _Capital = Floats
    _Begun = NDArray[np.int64]
else:
    _Listed = PlainSerializer(lambda values: np.asarray(values).tolist())
    _Gamblers, _Steps = Annotated[list[_Number], _Ten], Annotated[list[Count], _Ten]
    _Capital = Annotated[tuple[_Gamblers, _Gamblers], AfterValidator(np.array), _Listed]
    _Begun = Annotated[tuple[_Steps, _Steps], AfterValidator(np.array), _Listed]

SAVED_HINT = "give what to_dict() returned"


def is_number(value: object) -> bool:
    """Whether a value is a number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


STAKES: Floats = np.geomspace(0.001, 0.95, 32)
_TINY = 1e-12
_MOST_RATES = 64


def log_evidence_above(values: Floats, counts: Floats, mean: float) -> Floats:
    """Natural logarithm of the evidence that a mean lies above `mean`; 0 before the first value.

    That it lies below is the evidence that the mean of what is missing to the largest value
    lies above what `mean` misses.

    Args:
        values: distinct values, at least 0, shape (v,).
        counts: how often each was seen, shape (..., v).
        mean: above 0.

    Returns:
        Shape (...,).
    """
    return log_mean(counts @ np.log(1 - STAKES + STAKES * (values / mean)[:, None]))


def log_mean(logs: Floats) -> Floats:
    """Logarithm of the mean over the last axis, of numbers given by their logarithms."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.mean(np.exp(logs - largest), axis=-1)) + largest[..., 0])


def confidence_sequence(
    values: Floats, counts: Floats, delta: float, largest: float = 1.0
) -> tuple[float, float]:
    """Bounds of a mean in [0, 1] that hold at all times together but with probability `delta`.

    All means are left that neither gambler, each starting with half of the capital,
    has made 1/δ against. No value is above `largest`.
    """
    against = math.log(2 / delta)

    def bound(values: Floats, least: float) -> float:
        def beyond(share: float) -> float:
            return float(log_evidence_above(values, counts, least + share)) - against

        if beyond(_TINY) <= 0.0:
            return 0.0
        return 1.0 if beyond(1.0) >= 0.0 else root(beyond, _TINY, 1.0)

    return bound(values, 0.0), 1.0 - bound(largest - values, largest - 1.0)


_LONGEST = 10**15
RunLength = Annotated[float, Field(strict=True, gt=1, le=_LONGEST)]
# That the range of a baseline holds its true rate.
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class RateChange:
    """An alarm.

    Attributes:
        direction: where the rate went.
        seen_at: steps taken when the alarm was raised.
        began_after: the step after which the change probably began.
    """

    direction: Direction
    seen_at: int
    began_after: int


_Alarm = Annotated[
    RateChange | None,
    BeforeValidator(lambda told: RateChange(*told) if isinstance(told, list) else told),
    PlainSerializer(lambda alarm: None if alarm is None else list(astuple(alarm))),
]


@checked_dataclass(config=ConfigDict(extra="forbid", arbitrary_types_allowed=True), eq=False)
class RateChangeDetector(CheckedSettings):
    """Watches a stream of yes and no for a rate that rises or falls, at an unknown time.

    For each direction ten gamblers bet against "the rate is still in the baseline range", each
    restarting with 1 whenever he falls below it (a CUSUM of e-values); the alarm is
    raised when their mean capital reaches `run_length`. As long as the rate stays in the
    range, whatever the dependence on the past, an alarm comes after `run_length` steps
    on average at the earliest. An alarm stays until `reset`.

    Not for several threads at once; `DecisionMonitor` sees to that.

    Args:
        low: smallest rate that counts as unchanged, in [0, 1).
        high: largest one, in (0, 1].
        run_length: steps between false alarms, on average at least; above 1.
        kind: of a saved state.
        steps: taken.
        capital: logarithm of each gambler's capital, for a rate that rises and one that falls.
        begun: the step after which each of them began.
        alarm: the first one since the last reset.

    Raises:
        InputError: a number is out of range.

    Source: Shin, Ramdas and Rinaldo 2023, E-detectors: a nonparametric framework for
    sequential change detection.

    Example:
        >>> detector = RateChangeDetector(0.2, 0.2, run_length=1000)
        >>> for step in range(200):
        ...     detector.observe(step % 5 == 0 if step < 100 else step % 2 == 0)
        >>> detector.alarm
        RateChange(direction='up', seen_at=141, began_after=100)
    """

    low: _Share
    high: _Share
    _: KW_ONLY
    run_length: RunLength = 100_000
    kind: Literal["rate_change_detector"] = "rate_change_detector"
    steps: Count = 0
    capital: _Capital = field(default_factory=lambda: np.zeros((2, len(_CHANGE_STAKES))))
    begun: _Begun = field(default_factory=lambda: np.zeros((2, len(_CHANGE_STAKES)), np.int64))
    alarm: _Alarm = None

    def __post_init__(self) -> None:
        if self.low > self.high or self.high == 0.0 or self.low == 1.0:
            raise InputError(f"no range of rates: [{self.low}, {self.high}]")
        self._after = {event: log_factors(self.low, self.high, event) for event in (False, True)}

    @classmethod
    def from_counts(
        cls, events: int, trials: int, *, run_length: float = 100_000
    ) -> RateChangeDetector:
        """A detector for a baseline of `events` in `trials`.

        The range is the exact interval (Clopper and Pearson): with 95 % confidence over the
        draw of the baseline it holds the true rate, and `run_length` is kept.
        A small baseline therefore sees large changes only.

        Raises:
            InputError: no trials, more events than trials, or no whole numbers.
        """
        counts = type(events) is int and type(trials) is int
        if not counts or not 0 <= events <= trials <= _LONGEST or trials < 1:
            raise InputError(
                f"a baseline of {events!r} in {trials!r}", hint="two counts: (abstained, decisions)"
            )
        tail = (1 - _CONFIDENCE) / 2
        low = 1.0 - binomial_upper_bound(trials - events, trials, tail)
        high = binomial_upper_bound(events, trials, tail)
        return cls(low, high, run_length=run_length)

    def reset(self) -> None:
        """Reset the alarm and all steps, with the same baseline."""
        self.__init__(*self.settings[:2], run_length=self.run_length)  # type: ignore[misc]

    @property
    def settings(self) -> tuple[float, float, float]:
        """What it was made with."""
        return self.low, self.high, self.run_length

    def log_evidence(self, direction: Direction) -> float:
        """Natural logarithm of the mean capital for a change in this direction; alarms at
        log(2 · `run_length`), as each direction has half of the whole.
        """
        logs = self.capital[0 if direction == "up" else 1]
        return float(log_mean(logs))

    def observe(self, event: bool) -> None:
        """Take one step; constant time and memory."""
        self.begun[self.capital <= 0] = self.steps
        self.capital = np.maximum(self.capital, 0.0) + self._after[bool(event)]
        self.steps += 1
        # The mean of all twenty is at most the largest, so most steps end here.
        enough = math.log(self.run_length)
        if self.alarm is None and self.capital.max() >= enough:
            directions: tuple[Direction, ...] = get_args(Direction)
            evidence = [self.log_evidence(direction) for direction in directions]
            if float(np.logaddexp(evidence[0], evidence[1])) - math.log(2) >= enough:
                row = int(np.argmax(evidence))
                best = int(np.argmax(self.capital[row]))
                self.alarm = RateChange(directions[row], self.steps, int(self.begun[row, best]))


def log_factors(low: float, high: float, event: bool) -> Floats:
    """By what one step multiplies each gambler's capital: logarithms, shape (2, stakes).

    Row 0 bets on a rate above `high`, row 1 on one below `low`; where the rate is
    in between, no factor is above 1 on average.
    """
    up = 1 - _CHANGE_STAKES + (_CHANGE_STAKES / high if event else 0.0)
    down = 1 - _CHANGE_STAKES + (0.0 if event else _CHANGE_STAKES / (1 - low))
    return np.asarray(np.log(np.stack([up, down])))


@checked_dataclass(config=ConfigDict(extra="forbid"), eq=False)
class RiskMonitor(CheckedSettings):
    """Watches the share of wrong replies among those let through, label by label.

    Two statements, each valid at all times at once, however often one looks:

    - `alarm`: the evidence against "the risk is at most α" has reached 1/δ. If every
      reply is wrong with probability at most α given all before it, that ever
      happens with probability δ at most.
    - `estimate`: the share of wrong replies so far with bounds that cover a constant
      risk at all times together but with probability δ.

    After a long good time it takes as much bad news to raise an alarm as the good news
    has outweighed: start again after a recalibration, and watch the estimate and `rise` too.
    Not for several threads at once; `DecisionMonitor` sees to that.

    Args:
        risk: the promised bound α, in (0, 1).
        delta: probability δ of a false alarm, ever; in (0, 1).
        rise: also told each label, to see a risk that rises late, where all weigh alike; only
            where the risk is promised.
        least_rate: the smallest sampling rate that will occur. Where labels are asked for
            at one rate, whatever the reply, leave it at 1 and report labelled replies only.
            Where the rate depends on what is known of a reply, report every reply with its
            rate; labels then weigh 1/rate. At most 64 different rates.
        kind: of a saved state.
        counts: how often each weight of a wrong reply was seen; 0 for all other replies.
        labels: labelled replies among those reported.
        alarmed_at: replies reported when the evidence first reached 1/δ; None before.

    Raises:
        InputError: a number is out of range.

    Source: Waudby-Smith and Ramdas 2024; Howard, Ramdas, McAuliffe and Sekhon 2021.

    Example:
        >>> monitor = RiskMonitor(0.1, 0.1)
        >>> for wrong in [False] * 20 + [True] * 12:
        ...     monitor.observe(wrong)
        >>> monitor.alarm, monitor.replies, monitor.alarmed_at
        (True, 32, 29)
    """

    risk: _Inside
    delta: _Inside = 0.1
    rise: RateChangeDetector | None = None
    _: KW_ONLY
    least_rate: Annotated[float, Field(strict=True, gt=0, le=1)] = 1.0
    kind: Literal["risk_monitor"] = "risk_monitor"
    counts: dict[_Weight, Count] = field(default_factory=lambda: {0.0: 0})
    labels: Count = 0
    alarmed_at: Annotated[Count, Field(ge=1)] | None = None

    def __post_init__(self) -> None:
        if any(weight and not 1 <= weight <= 1 / self.least_rate for weight in self.counts):
            raise InputError("a weight in counts does not go with least_rate")
        if max(self.labels, self.alarmed_at or 0) > self.replies:
            raise InputError("labels or alarmed_at exceed the replies")

    @property
    def settings(self) -> tuple[float, ...]:
        """What it was made with."""
        return self.risk, self.delta, self.least_rate, *(self.rise.settings if self.rise else ())

    @property
    def replies(self) -> int:
        """Replies reported, labelled or not."""
        return sum(self.counts.values())

    @property
    def alarm(self) -> bool:
        """Whether the evidence has ever reached 1/δ."""
        return self.alarmed_at is not None

    @property
    def promised(self) -> bool:
        """Whether the guarantee speaks of this very risk, or it is the one asked for."""
        return self.rise is not None

    def observe(self, wrong: bool | None, *, rate: float = 1.0) -> None:
        """Take in whether a reply that was let through is wrong.

        Args:
            wrong: None where it was not picked for labelling, which is certain at rate 1.
            rate: probability with which this reply was picked.

        Raises:
            InputError: the rate is not within [`least_rate`, 1], or is 1 without a label;
                more than 64 different rates.
        """
        certain = wrong is None and rate == 1
        if certain or not is_number(rate) or not self.least_rate <= rate <= 1:
            raise InputError(
                f"sampling rate {rate!r} is not within [{self.least_rate}, 1]"
                + (", below 1 without a label" if certain else ""),
                hint="declare least_rate=… when the monitor is made",
            )
        weight = 1 / float(rate) if wrong else 0.0
        if weight not in self.counts and len(self.counts) > _MOST_RATES:
            raise InputError(
                f"more than {_MOST_RATES} different sampling rates", hint="round them to a few"
            )
        self.counts[weight] = self.counts.get(weight, 0) + 1
        self.labels += wrong is not None
        # A right reply never adds evidence.
        if wrong and self.alarmed_at is None and self.log_evidence >= -math.log(self.delta):
            self.alarmed_at = self.replies
        if self.rise is not None and self.least_rate == 1:
            self.rise.observe(bool(wrong))

    def reset(self) -> None:
        """Forget all replies."""
        self.counts, self.labels, self.alarmed_at = {0.0: 0}, 0, None
        if self.rise is not None:
            self.rise.reset()

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence against "the risk is at most α", as of now."""
        return float(log_evidence_above(*self._arrays, self.risk))

    @property
    def estimate(self) -> Interval:
        """Share of wrong replies with bounds valid at all times; `n` counts replies."""
        n, (weights, counts) = self.replies, self._arrays
        if not n:
            return Interval(None, None, None, 0)
        low, high = confidence_sequence(weights, counts, self.delta, 1 / self.least_rate)
        share = min(1.0, float(weights @ counts) / n)
        return Interval(share, low, high, n).around(share)

    @property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.array(list(self.counts)), np.array(list(self.counts.values()), np.float64)


ALL = "all"
LET_THROUGH = (Route.FOLLOW_CONTEXT, Route.ANSWER)
_WATCHED = {
    "selective": ALL, "follow": Route.FOLLOW_CONTEXT.value, "answer": Route.ANSWER.value,
}  # fmt: skip


def promised_bounds(policy: Policy) -> dict[str, float]:
    """`all` or a route → the share of wrong replies that the guarantee allows it at most.

    Empty where the guarantee speaks of something else: how often unanswerable questions
    pass (leave-one-out), costs, or abstentions; and where nothing was certified.
    """
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified or "relevance.in_kb" in policy.histograms:
        return {}
    if not guarantee.risks:
        return {ALL: guarantee.risk}
    bounds: dict[str, float] = {}
    for risk in guarantee.risks:
        if (name := _WATCHED.get(risk.kind)) is not None:
            bounds[name] = min(risk.bound, bounds.get(name, 1.0))
    return bounds


def risk_monitors(
    policy: Policy, risk: float | None, delta: float | None, run_length: float, least_rate: float
) -> dict[str, RiskMonitor]:
    """Monitors by name (`all`, routes); those that hold a promise watch for a rise, too.

    Several promises share `delta`, so that a false alarm of any of them has that
    probability, and so do their rises, which are `run_length` labels apart together. The others,
    each at `delta`, are reported but not promised: routes are compared with the bound of all
    replies, all replies against the laxest bound of the routes.
    """
    bounds = promised_bounds(policy) if risk is None else {ALL: risk}
    if delta is None:
        delta = 0.1 if policy.guarantee is None else policy.guarantee.delta
    # Also where nothing is watched: to find a bad number now.
    RiskMonitor(0.5, delta, least_rate=least_rate)
    found = {}
    for name in _WATCHED.values():
        bound = bounds.get(name, bounds.get(ALL))
        if name == ALL and bound is None and len(bounds) == len(LET_THROUGH):
            bound = max(bounds.values())
        if bound is None:
            continue
        level, rise = delta, None
        if name in bounds:
            # A CUSUM of its own: evidence from the beginning would outweigh a late change for long.
            rise = RateChangeDetector(0.0, bound, run_length=run_length * len(bounds))
            level = delta / len(bounds)
        found[name] = RiskMonitor(bound, level, rise, least_rate=least_rate)
    return found
