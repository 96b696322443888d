"""From the scores of several passages to one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ._scorer_defaults import JOINT
from .errors import InputError

Aggregator = Callable[[Sequence[float]], float]


def aggregate_max(scores: Sequence[float]) -> float:
    """The best passage's score: one sufficient passage is enough.

    Example:
        >>> aggregate_max([0.2, 0.9])
        0.9
    """
    return max(scores)


def aggregate_noisy_or(scores: Sequence[float]) -> float:
    """Probability that at least one passage suffices, were they independent.

    Scores are clipped to [0, 1] first, so this fits scores that are probabilities.

    Example:
        >>> aggregate_noisy_or([0.5, 0.5])
        0.75
    """
    none_suffices = 1.0
    for score in scores:
        none_suffices *= 1.0 - min(1.0, max(0.0, score))
    return 1.0 - none_suffices


def aggregate_top3_mean(scores: Sequence[float]) -> float:
    """Mean of the three best scores (of all, where there are fewer).

    Example:
        >>> aggregate_top3_mean([3.0, 0.0, 1.0, 2.0])
        2.0
    """
    best = sorted(scores, reverse=True)[:3]
    return sum(best) / len(best)


def aggregate_joint(scores: Sequence[float]) -> float:
    """The scorer's own value for all passages together, which cannot be had from `scores`.

    Raises:
        InputError: always; a guard under this aggregator asks the scorer's `score_set`.
    """
    raise InputError(
        "the joint value is the scorer's own and does not follow from passage scores",
        hint="use a scorer with score_set and score_sets",
    )


# Those that follow from passage scores alone; a policy may name these or `joint`.
AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType(
    {"max": aggregate_max, "noisy_or": aggregate_noisy_or, "top3_mean": aggregate_top3_mean}
)
AGGREGATOR_NAMES = (*AGGREGATORS, JOINT)


def aggregator(name: str) -> Aggregator:
    """The aggregator called `name`; it is never given an empty sequence.

    Raises:
        InputError: there is none of that name.
    """
    if name == JOINT:
        return aggregate_joint
    try:
        return AGGREGATORS[name]
    except KeyError:
        raise InputError(
            f"unknown aggregator {name!r}", hint=f"one of: {', '.join(AGGREGATOR_NAMES)}"
        ) from None
