"""How well signals put right answers before wrong ones: the selective metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...calibration import (
    Interval,
    SelectiveCurve,
    augrc,
    aurc,
    bootstrap_interval,
    coverage_at_risk,
    excess_aurc,
    selective_curve,
)
from ...guard import Policy
from ._measured import MeasuredCase
from ._outcomes import Outcome, outcomes_under

_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class SelectiveQuality:
    """One way of ranking cases, the surest first.

    Attributes:
        name: of the ranking, in words.
        cases: that it ranks; those whose signal failed are left out.
        curve: risk against coverage.
        aurc: area under it, with its interval over questions' groups.
        excess: the same, less that of the best ranking there is.
        augrc: area under the generalised curve.
        coverage: largest share accepted at no more than the bound, as it was seen here;
            None where no threshold stays within it.
    """

    name: str
    cases: int
    curve: SelectiveCurve
    aurc: Interval
    excess: Interval
    augrc: Interval
    coverage: float | None


def selective_qualities(
    policy: Policy, cases: Sequence[MeasuredCase], *, risk: float, seed: int = 0
) -> list[SelectiveQuality]:
    """By relevance alone, by confidence alone, and by the larger of the two.

    Args:
        policy: for its calibrators.
        cases: that the calibrators were not fitted on.
        risk: the bound that coverage is read off at.
        seed: of the resampling behind the intervals.
    """
    outcomes = outcomes_under(policy, cases)
    rankings: list[tuple[str, Callable[[Outcome], tuple[float, bool] | None]]] = [
        ("context alone, by relevance", _by_relevance),
        ("memory alone, by confidence", _by_confidence),
        ("context or memory, by the larger", _by_the_larger),
    ]
    found = []
    for name, ranking in rankings:
        ranked = [(o, place) for o in outcomes if (place := ranking(o)) is not None]
        if not ranked:
            continue
        sure = [place[0] for _, place in ranked]
        wrong = [place[1] for _, place in ranked]
        units = [":".join(o.case.unit) for o, _ in ranked]

        def interval(
            statistic: Callable[..., float | None],
            sure: Sequence[float] = sure,
            wrong: Sequence[bool] = wrong,
            units: Sequence[str] = units,
        ) -> Interval:
            return bootstrap_interval(
                statistic, sure, wrong, groups=units, resamples=_RESAMPLES, seed=seed
            )

        found.append(
            SelectiveQuality(
                name=name,
                cases=len(ranked),
                curve=selective_curve(sure, wrong),
                aurc=interval(aurc),
                excess=interval(excess_aurc),
                augrc=interval(augrc),
                coverage=coverage_at_risk(sure, wrong, risk),
            )
        )
    return found


def _by_relevance(outcome: Outcome) -> tuple[float, bool] | None:
    if outcome.relevance is None:
        return None
    return outcome.relevance, not outcome.case.context_right


def _by_confidence(outcome: Outcome) -> tuple[float, bool] | None:
    if outcome.confidence is None:
        return None
    return outcome.confidence, not outcome.case.closed_book_right


def _by_the_larger(outcome: Outcome) -> tuple[float, bool] | None:
    context, memory = _by_relevance(outcome), _by_confidence(outcome)
    if context is None or memory is None:
        return None
    return context if context[0] >= memory[0] else memory
