"""A guard that abstains from nothing but questions with a false premise."""

from __future__ import annotations

import hashlib

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
        # Neither a fault nor a busy machine is to look like good judgement.
        on_error="raise",
        deadlines=dict.fromkeys(("answerability", "relevance")),
        metrics=False,
    )


def premise_sha256(*, closed_world: bool = True, now: int | None = SNAPSHOT) -> str:
    """What tells two versions of that guard apart."""
    fingerprint = PremiseChecker(closed_world=closed_world, now=now).fingerprint
    return hashlib.sha256(fingerprint.model_dump_json().encode("utf-8")).hexdigest()
