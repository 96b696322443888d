"""What would work where a calibration is refused, with figures of the questions at hand.

refused ─► other bounds, as the next attempt would test them ─┐
           more questions, reviews, another scorer ───────────┼─► lines
           a threshold without a promise, cross-validated ────┘
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ...calibration.records import Records
from ...calibration.risk import Leak, MaxAbstention
from ...calibration.risk.fit import PolicyBinding
from ...calibration.risk.leak import populations_of
from ...calibration.risk.plan import LeakPlan
from ...calibration.risk.risks import LEARN_CALIBRATORS, Risk, questions_to_test
from ...guard.artefacts import Guarantee
from ...guard.policy import Policy
from ._attempts import Asked
from ._calibrated import Calibrated
from ._rates import passes
from .records import WORDS, CalibrationSet

Trial = Callable[[Risk], Calibrated]


def advice_for(found: Calibrated, asked: Asked, trial: Trial) -> tuple[str, ...]:
    """Say what would work where a policy has problems, the cause before its effects.

    Args:
        found: with problems.
        asked: what it was calibrated for.
        trial: calibrates for another risk as the next attempt, without counting it.
    """
    hints = [one.hint for one in found.problems if one.kind in ("blind", "misses")]
    if hints:
        return tuple(hints)
    if not isinstance(found.risk, Leak):
        hints, smallest = [one.hint for one in found.problems], found.smallest_risk()
        if smallest is not None:
            hints.append(WORDS.text("smallest", smallest, found.next_attempt))
        return tuple(hints)
    return tuple(_of_leak(found, found.risk, asked, trial))


def _of_leak(found: Calibrated, risk: Leak, asked: Asked, trial: Trial) -> Iterator[str]:
    measured = [record for record in found.certify if record.relevance is not None]
    if not any(r.is_answerable for r in measured) or not any(r.is_missing for r in measured):
        yield from (one.hint for one in found.problems)
        return
    limit, limited = asked.max_false_abstention, None
    # Costs are weighed for one scorer, and somebody has to want less than all abstained from.
    if found.measured.cascade is None and limit < 1.0:
        limited = trial(MaxAbstention(limit, risk.missing))
    above = 0
    # How many left-out cases pass where abstention is bearable, if they can be reviewed.
    if limited is not None and Path(found.measured.source).is_dir():
        above = sum(r.case == "left_out" and passes(limited.policy, r) for r in found.certify)
    yield from WORDS.paragraphs(
        "advice",
        found,
        asked,
        {
            **_bounds(found, limit, lambda bound: trial(Leak(bound, risk.missing))),
            **_more_questions(found, risk, asked, limited),
            "limited": limited,
            "above": above,
        },
    )


def _bounds(
    found: Calibrated, limit: float, trial: Callable[[float], Calibrated]
) -> dict[str, Any]:
    """The smallest bound of all, and the smallest one under which little is abstained from."""
    smallest = found.smallest_risk()
    known: dict[str, Any] = {"smallest": smallest, "strictest": None, "usable": None}
    # A cascade chooses its band anew for each bound, which takes long.
    if smallest is None or found.measured.cascade is not None:
        return known
    tried = cache(trial)

    def usable(bound: float) -> bool:
        share = tried(bound).false_abstention.value
        return tried(bound).policy.may_follow and share is not None and share <= limit

    bounds = [smallest, *(n / 100 for n in range(1, 100) if n / 100 > smallest)]
    known["strictest"] = tried(smallest).false_abstention
    place = bisect_left(bounds, True, key=usable)  # laxer ones are usable, too
    if place < len(bounds):
        best = bounds[place]
        known |= {"usable": best, "usable_abstention": tried(best).false_abstention}
    return known


def _more_questions(
    found: Calibrated, risk: Leak, asked: Asked, limited: Calibrated | None
) -> dict[str, Any]:
    """How many units would certify the bound with little abstention, in a run of their own."""
    leak = 0.0 if limited is None else max(one.value or 0.0 for one in limited.leaks.values())
    first = None if found.next_attempt is None else 1
    level = Guarantee.level_of(asked.delta, first) / max(1, len(asked.candidates))
    # Of each kind that must not pass, how many there are, and what they are called.
    there = []
    for case in populations_of(found.certify):
        own = {r.unit for r in found.certify if r.case == case and r.relevance is not None}
        names = {"group": "topics", "question": "unanswerable questions"}
        name = names[max((kind for kind, _ in own), default="question")]
        there.append((len(own), name if case == "unanswerable" else "passages with questions"))
    here, units = min(there)
    needed = LeakPlan.units_for(leak, risk.bound, delta=level)
    return {"leak": leak, "needed": needed, "here": here, "units": units}


def limits(policy: Policy) -> list[str]:
    """List what the guarantee does not cover, beyond what its own statement says.

    Empty where nothing is certified: then there is no promise with limits.
    """
    if policy.guarantee is None or not policy.guarantee.certified:
        return []
    unnamed = policy.scorer.kind == PolicyBinding.UNNAMED.kind
    return WORDS.paragraphs("limits", policy, unnamed)


def cautions(
    measured: CalibrationSet, certify: Records, policy: Policy, *, share: float
) -> list[str]:
    """List what to know before trusting the promise; often nothing.

    Args:
        measured: all records.
        certify: those that the certificate rests on.
        policy: the fitted one.
        share: of the questions that was fitted on.
    """
    guarantee, more = policy.guarantee, None
    questions = len({case.question_id for case in certify})
    if guarantee is not None and guarantee.more_questions is not None:
        # Of all questions, and not of those that certify.
        needed = questions_to_test(LEARN_CALIBRATORS, questions + guarantee.more_questions) / share
        given = math.ceil(needed - 1e-9) - measured.questions
        more = max(guarantee.more_questions, given)
    confidences = [one.confidence for one in measured.records if one.confidence is not None]
    numbers = {
        "questions": questions,
        "units": len({case.unit for case in certify}),
        "confidences": len(confidences),
        # A guard takes relevance on any scale, but confidence as a probability alone.
        "off_scale": sum(not 0 <= confidence <= 1 for confidence in confidences),
        "unjudged": sum(case.context_right is None for case in measured.records),
        "more": more,
    }
    certified = guarantee is not None and guarantee.certified
    return WORDS.paragraphs("cautions", measured, certified, numbers)
