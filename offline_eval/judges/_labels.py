"""People's labels, from wherever they come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

from ..replies import RepliesRun


@runtime_checkable
class HumanLabels(Protocol):
    """What people agreed on; `labelling.read_labels` gives one.

    Labels of a sample with unequal chances also have `inclusion_probability(reply_id)`, the
    chance in (0, 1] with which a reply was drawn, None where unknown. Those that know on
    which replies people disagree have `unsettled(criterion)`, the ids of these.
    """

    def consensus(self, criterion: str) -> Mapping[str, str]:
        """Reply id → outcome, of the replies that people agreed on."""
        ...


LabelsLike = HumanLabels | Mapping[str, Mapping[str, str]]
"""Labels of people, or criterion → (reply id → outcome)."""


def labels_for(labels: LabelsLike, criterion: str) -> Mapping[str, str]:
    """Reply id → outcome by one criterion; empty where nobody labelled it."""
    if isinstance(labels, Mapping):
        return labels.get(criterion, {})
    return labels.consensus(criterion)


def unsettled_in(labels: LabelsLike, criterion: str) -> Collection[str]:
    """Labelled replies that people did not agree on, as far as the labels know of any."""
    found = getattr(labels, "unsettled", None)
    ids: Collection[str] = () if found is None else found(criterion)
    return ids


def weights_for(
    labels: LabelsLike, weights: Mapping[str, float] | None, names: Collection[str]
) -> dict[str, float] | None:
    """Weight of each labelled reply, None where all weigh the same.

    Args:
        labels: where they know with which chance each reply was drawn
            (`inclusion_probability`), the weight is one over that.
        weights: come first; a reply that is not in them weighs 1.
        names: reply ids.
    """
    if weights is not None:
        found = {name: float(weights.get(name, 1.0)) for name in names}
    else:
        chance = getattr(labels, "inclusion_probability", None)
        if chance is None:
            return None
        chances = {name: chance(name) for name in names}
        found = {name: 1.0 / value if value else 1.0 for name, value in chances.items()}
    return found if len(set(found.values())) > 1 else None


def labels_of_judge(run: RepliesRun, judge: str) -> dict[str, dict[str, str]]:
    """What a judge of the run said, in the shape of labels, to measure others against it.

    Returns:
        Criterion → (reply id → outcome); failures are left out.
    """
    found: dict[str, dict[str, str]] = {}
    for judgement in run.judgements.values():
        if judgement.judge == judge and judgement.outcome is not None:
            found.setdefault(judgement.criterion, {})[judgement.reply_id] = judgement.outcome
    return found
