"""How plausible an answer is, on a continuous scale beside the classes."""

from __future__ import annotations

from collections.abc import Sequence

from ._rows import Check

_LEAST, _MOST = 1, 5
# From here on an answer counts as plausible, up to there as implausible.
PLAUSIBLE_FROM, IMPLAUSIBLE_TO = 3.0, 2.0
# Two judges this far apart disagree.
DISAGREEMENT = 2


def likelihood_rank(value: float, others: Sequence[float]) -> float | None:
    """Share of the alternatives that a model finds less likely than an answer.

    Args:
        value: natural-log likelihood per token of the answer after the bare question.
        others: likewise of wrong answers of the same kind.

    Returns:
        In [0, 1], ties counted half; None without alternatives. Among values that all could
        be true it is spread evenly around .5; of what is no possible answer it is near 0.

    Example:
        >>> likelihood_rank(-1.0, [-2.0, -3.0, -0.5, -1.0])
        0.625
    """
    if not others:
        return None
    below = sum(other < value for other in others)
    equal = sum(other == value for other in others)
    return (below + equal / 2) / len(others)


def judged_plausibility(checks: Sequence[Check]) -> float | None:
    """The judges' mean verdict of 1 to 5, put on [0, 1]; None without a verdict.

    Example:
        >>> judged_plausibility([Check(judge="a", criterion="plausibility", outcome="5"),
        ...                      Check(judge="b", criterion="plausibility", outcome="4")])
        0.875
    """
    mean = mean_verdict(checks)
    return None if mean is None else (mean - _LEAST) / (_MOST - _LEAST)


def mean_verdict(checks: Sequence[Check]) -> float | None:
    """The mean of the plausibility verdicts, 1 to 5; None without any."""
    found = _numbers(checks)
    return sum(found) / len(found) if found else None


def disagree(checks: Sequence[Check]) -> bool:
    """Whether judges of the same passage differ: on yes or no, or by two or more of five."""
    numbers = _numbers(checks)
    words = {check.outcome for check in checks if check.criterion == "yields" and check.outcome}
    return len(words) > 1 or (len(numbers) > 1 and max(numbers) - min(numbers) >= DISAGREEMENT)


def _numbers(checks: Sequence[Check]) -> list[int]:
    return [
        int(check.outcome)
        for check in checks
        if check.criterion == "plausibility" and check.outcome is not None
    ]
