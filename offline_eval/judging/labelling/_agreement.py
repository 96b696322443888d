"""Measure how far annotators agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from ....calibration import Interval
from ...run import RepliesRun
from .._chance_agreement import cohens_kappa, fleiss_kappa, krippendorff_alpha
from ._labels import Labels


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement on one criterion. No number is weighted: it is of the labelled replies.

    Attributes:
        criterion: its name.
        annotators: all who labelled by it.
        replies: labelled by at least one.
        by_two: labelled by at least two.
        by_all: labelled by all annotators.
        disagreements: replies with different outcomes.
        cohen: kappa per pair of annotators, over the replies that both labelled.
        fleiss: kappa over the replies that all annotators labelled, which it needs.
        alpha: nominal, over all replies with two labels or more.
        ordinal_alpha: for outcomes in order; None for others.
    """

    criterion: str
    annotators: tuple[str, ...]
    replies: int
    by_two: int
    by_all: int
    disagreements: int
    cohen: Mapping[tuple[str, str], Interval]
    fleiss: Interval
    alpha: Interval
    ordinal_alpha: Interval | None

    @classmethod
    def of(
        cls,
        labels: Labels,
        criterion: str,
        *,
        run: RepliesRun | None = None,
        resamples: int = 1000,
        seed: int = 0,
    ) -> Agreement:
        """Measure how far all annotators agree on one criterion, before any settling.

        Args:
            labels: of a run.
            criterion: name of one of theirs; nothing is known of one that nobody labelled by.
            run: of the labels: replies to one question are then drawn together, as they are
                likely to be alike, and each `n` counts questions. Otherwise replies are taken
                for independent.
            resamples: draws for each interval.
            seed: of the draws.
        """
        draws: dict[str, int] = {"resamples": resamples, "seed": seed}
        votes = labels.votes(criterion)
        who = tuple(
            name for name in labels.annotators if any(name in vote for vote in votes.values())
        )
        table = [[vote.get(name) for name in who] for vote in votes.values()]
        groups = None if run is None else [_question(run, reply) for reply in votes]
        complete = [place for place, row in enumerate(table) if None not in row]
        order = next(
            (c.outcomes for c in labels.criteria if c.name == criterion and c.ordinal), None
        )
        return cls(
            criterion=criterion,
            annotators=who,
            replies=len(table),
            by_two=sum(len(vote) > 1 for vote in votes.values()),
            by_all=len(complete),
            disagreements=len(labels.disagreements(criterion)),
            cohen={
                (who[a], who[b]): cohens_kappa(
                    [row[a] for row in table], [row[b] for row in table], groups=groups, **draws
                )
                for a, b in combinations(range(len(who)), 2)
            },
            fleiss=fleiss_kappa(
                [table[place] for place in complete],
                groups=None if groups is None else [groups[place] for place in complete],
                **draws,
            ),
            alpha=krippendorff_alpha(table, order=None, groups=groups, **draws),
            ordinal_alpha=(
                None
                if order is None
                else krippendorff_alpha(table, order=order, groups=groups, **draws)
            ),
        )


def _question(run: RepliesRun, reply_id: str) -> str:
    # A label of a reply that the run has not stands by itself.
    reply = run.replies.get(reply_id)
    return reply_id if reply is None else run.case_of(reply).question_id
