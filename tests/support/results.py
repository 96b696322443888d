"""What a fit or a measure came to, where it came to something."""

from __future__ import annotations

from knowgate.calibration import Interval
from knowgate.guard.artefacts import Guarantee
from knowgate.guard.policy import Policy


def within(interval: Interval, value: float) -> bool:
    """Whether an interval holds a value."""
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= value <= interval.high


def guarantee_of(policy: Policy) -> Guarantee:
    assert policy.guarantee is not None
    return policy.guarantee
