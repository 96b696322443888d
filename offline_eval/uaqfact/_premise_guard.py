"""A guard that abstains from nothing but questions with a false premise."""

from __future__ import annotations

from ...guard import Guard, Policy
from ...guard.answerability import PremiseChecker
from ...guard.relevance import LexicalScorer

# The published set is a snapshot of that year: its periods reach up to it.
SNAPSHOT = 2024


def premise_guard(*, closed_world: bool = True, now: int | None = SNAPSHOT) -> Guard:
    """A guard that follows every context unless the question's premise is false by it.

    Any passage is relevant enough for its policy, so that what it changes is the look at the
    premise alone. Needs no model and no calibration.

    Args:
        closed_world: whether the facts of a question are all there are, as those of the set
            are meant; see `PremiseChecker`.
        now: the year in which the facts were written down.
    """
    scorer = LexicalScorer()
    return Guard(
        Policy(scorer=scorer.fingerprint, relevance_threshold=0.0),
        scorer=scorer,
        answerability=PremiseChecker(closed_world=closed_world, now=now),
        metrics=False,
    )
