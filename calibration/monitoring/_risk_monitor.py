"""Is the promised risk still kept? Evidence from feedback, valid at every moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...guard import InputError
from .._intervals import Interval
from ._betting import confidence_sequence, log_evidence_above
from ._state import number, probability, state_of, whole

_MOST_RATES = 64
_STATE = "risk_monitor"


class RiskMonitor:
    """Watches the share of wrong replies among those let through, label by label.

    Two statements, each valid at all times at once, however often one looks:

    - `alarm`: the evidence against "the risk is at most α" has reached 1/δ. If every
      reply is wrong with probability at most α given all before it, that ever
      happens with probability δ at most.
    - `estimate`: the share of wrong replies so far with bounds that cover a constant
      risk at all times together but with probability δ.

    After a long good time it takes as much bad news to raise an alarm as the good news
    has outweighed: start anew after a recalibration, and watch the estimate too.
    Not for several threads at once; `DecisionMonitor` sees to that.

    Args:
        risk: the promised bound α, in (0, 1).
        delta: probability δ of a false alarm, ever; in (0, 1).
        least_rate: the smallest sampling rate that will occur. Where labels are asked for
            at one rate, whatever the reply, leave it at 1 and report labelled replies only.
            Where the rate depends on what is known of a reply, report every reply: labelled
            ones with `observe(wrong, rate=…)`, the others with `skip(rate=…)`; labels
            then weigh 1/rate. At most 64 different rates.

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

    def __init__(self, risk: float, delta: float = 0.1, *, least_rate: float = 1.0) -> None:
        self.risk = probability(risk, "risk")
        self.delta = probability(delta, "delta")
        self.least_rate = probability(least_rate, "least_rate", or_one=True)
        self._counts: dict[float, int] = {0.0: 0}
        self._labels = 0
        self._alarmed_at: int | None = None

    @property
    def replies(self) -> int:
        """Replies reported, labelled or not."""
        return sum(self._counts.values())

    @property
    def labels(self) -> int:
        """Labelled replies among them."""
        return self._labels

    @property
    def alarm(self) -> bool:
        """Whether the evidence has ever reached 1/δ."""
        return self._alarmed_at is not None

    @property
    def alarmed_at(self) -> int | None:
        """Replies reported when it first did; None before."""
        return self._alarmed_at

    def observe(self, wrong: bool, *, rate: float = 1.0) -> None:
        """Take in one label.

        Args:
            wrong: whether the reply that was let through is wrong.
            rate: probability with which this reply was picked for labelling.

        Raises:
            InputError: `wrong` is no bool, or the rate is not within [`least_rate`, 1].
        """
        if not isinstance(wrong, bool):
            raise InputError("feedback is neither true nor false")
        rate = self._checked(rate)
        self._labels += 1
        value = 1 / rate if wrong else 0.0
        if value not in self._counts and len(self._counts) > _MOST_RATES:
            self._labels -= 1
            raise InputError(
                f"more than {_MOST_RATES} different sampling rates", mend="round them to a few"
            )
        self._counts[value] = self._counts.get(value, 0) + 1
        # A right reply never adds evidence.
        if wrong and self._alarmed_at is None and self.log_evidence >= -math.log(self.delta):
            self._alarmed_at = self.replies

    def skip(self, *, rate: float) -> None:
        """Take in that a reply was let through and, at this rate, not picked for labelling.

        Raises:
            InputError: the rate is not within [`least_rate`, 1).
        """
        if self._checked(rate) == 1:
            raise InputError(
                "a reply that was certain to be picked has no label",
                mend="leave it out, or tell the rate at which such replies are picked",
            )
        self._counts[0.0] += 1

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence against "the risk is at most α", as of now."""
        values, counts = self._arrays()
        return float(log_evidence_above(values, counts, self.risk))

    @property
    def estimate(self) -> Interval:
        """Share of wrong replies with bounds valid at all times; `n` counts replies."""
        values, counts = self._arrays()
        n = self.replies
        if not n:
            return Interval(None, None, None, 0)
        low, high = confidence_sequence(values, counts, self.delta, 1 / self.least_rate)
        share = min(1.0, float(values @ counts) / n)
        return Interval(share, min(low, share), max(high, share), n)

    def to_dict(self) -> dict[str, Any]:
        """Everything it knows, as JSON holds it; `from_dict` gives back its equal."""
        return {
            "kind": _STATE,
            "risk": self.risk,
            "delta": self.delta,
            "least_rate": self.least_rate,
            "counts": [[value, count] for value, count in self._counts.items()],
            "labels": self._labels,
            "alarmed_at": self._alarmed_at,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> RiskMonitor:
        """A monitor that goes on where `to_dict` left off.

        Raises:
            InputError: the state is not one of a risk monitor.
        """
        found = state_of(state, _STATE)
        monitor = cls(
            number(found, "risk"), number(found, "delta"), least_rate=number(found, "least_rate")
        )
        pairs = found.get("counts")
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            raise InputError("field 'counts' of a saved risk monitor is broken")
        for value, count in pairs:
            pair = {"value": value, "count": count}
            amount = number(pair, "value")
            if amount != 0 and not 1 <= amount <= 1 / monitor.least_rate:
                raise InputError("field 'counts' of a saved risk monitor is broken")
            monitor._counts[amount] = whole(pair, "count")
        monitor._labels = whole(found, "labels")
        if monitor._labels > monitor.replies:
            raise InputError("field 'labels' of a saved risk monitor exceeds its replies")
        if found.get("alarmed_at") is not None:
            monitor._alarmed_at = whole(found, "alarmed_at")
            if not 1 <= monitor._alarmed_at <= monitor.replies:
                raise InputError("field 'alarmed_at' of a saved risk monitor is no reply of it")
        return monitor

    def _checked(self, rate: float) -> float:
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if not is_number or not self.least_rate <= rate <= 1:
            raise InputError(
                f"sampling rate {rate!r} is not within [{self.least_rate}, 1]",
                mend="declare least_rate=… when the monitor is made",
            )
        return float(rate)

    def _arrays(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return (
            np.array(list(self._counts), dtype=np.float64),
            np.array(list(self._counts.values()), dtype=np.float64),
        )
