"""What would work where a calibration is refused, with figures of the questions at hand.

refused ─► other bounds, as the next attempt would test them ─┐
           more questions, reviews, another scorer ───────────┼─► lines
           a threshold without a promise, cross-validated ────┘
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...calibration import CalibrationRecord, Interval
from ...calibration.risk import Leak, MaxAbstention
from ...calibration.risk.fit import PolicyBinding
from ...calibration.risk.leak import populations_of
from ...calibration.risk.plan import LeakPlan
from ...calibration.risk.risks import LEARN_CALIBRATORS, Risk
from ...guard.artefacts import Guarantee
from ...guard.policy import Policy
from ._attempts import Asked
from ._calibrated import Calibrated
from ._rates import passing
from .records import CalibrationSet

Trial = Callable[[Risk], Calibrated]
_LARGEST = 0.99
_BETTER_SCORER = "sufficiency_cross"


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
        return (*(one.hint for one in found.problems), *_selective(found))
    return tuple(_of_leak(found, found.risk, asked, trial))


def _selective(found: Calibrated) -> Iterator[str]:
    smallest = found.smallest_risk()
    if smallest is not None:
        yield f"--risk {smallest:g} is about the smallest bound that can be certified{_at(found)}"


def _of_leak(found: Calibrated, risk: Leak, asked: Asked, trial: Trial) -> Iterator[str]:
    limit = asked.max_false_abstention
    measured = [record for record in found.certify if record.relevance is not None]
    if not any(r.is_answerable for r in measured) or not any(r.is_missing for r in measured):
        yield from (one.hint for one in found.problems)
        return
    yield from _bounds(found, risk, limit, trial)
    limited = None
    # Costs are weighed for one scorer, and somebody has to want less than all abstained from.
    if found.measured.cascade is None and limit < 1.0:
        limited = trial(MaxAbstention(limit, risk.missing))
    yield from _more_questions(found, risk, asked, limited)
    yield from _reviews(found, limited)
    yield _another_scorer(found)
    if limited is not None:
        yield _without_promise(limited, limit)


# -- other bounds ---------------------------------------------------------------------


def _bounds(found: Calibrated, risk: Leak, limit: float, trial: Trial) -> Iterator[str]:
    """The smallest bound of all, and the smallest one under which little is abstained from."""
    smallest = found.smallest_risk()
    if smallest is None:
        return

    def tried(bound: float) -> Calibrated:
        return trial(Leak(bound, risk.missing))

    usable = None
    # A cascade chooses its band anew for each bound, which takes long.
    if found.measured.cascade is None:
        steps = [n / 100 for n in range(1, 100) if smallest < n / 100 <= _LARGEST]
        usable = _first_usable([smallest, *steps], limit, tried)
    if not found.policy.may_follow and (usable is None or usable[0] > smallest):
        abstains = _percent(tried(smallest).false_abstention)
        yield (
            f"--risk {smallest:g} is the smallest bound that can be certified{_at(found)}, and "
            f"abstains from {abstains} of what could be answered"
        )
    if usable is not None:
        bound, abstains = usable[0], _percent(usable[1].false_abstention)
        yield (
            f"--risk {bound:g} abstains from {abstains}, the smallest bound with no more than "
            f"{limit:.0%}{_at(found)}"
        )
    elif found.measured.cascade is None:
        yield f"no bound keeps false abstention within {limit:.0%}{_at(found)}"


def _first_usable(
    bounds: Sequence[float], limit: float, tried: Callable[[float], Calibrated]
) -> tuple[float, Calibrated] | None:
    """The smallest bound whose policy abstains from no more than `limit`; laxer ones do, too."""
    best, low, high = None, 0, len(bounds) - 1
    while low <= high:
        # The laxest first, which says whether there is any.
        middle = high if best is None else (low + high) // 2
        one = tried(bounds[middle])
        share = one.false_abstention.value
        if one.policy.may_follow and share is not None and share <= limit:
            best, high = (bounds[middle], one), middle - 1
        elif best is None:
            return None
        else:
            low = middle + 1
    return best


def _at(found: Calibrated) -> str:
    """At which level this would be tested; the same for all figures of one message."""
    if found.next_attempt is None:
        return ""
    return f" (tested as attempt {found.next_attempt} on this data)"


# -- more evidence --------------------------------------------------------------------


def _more_questions(
    found: Calibrated, risk: Leak, asked: Asked, limited: Calibrated | None
) -> Iterator[str]:
    """How many units would certify the bound with little abstention, in a run of their own."""
    leak = 0.0 if limited is None else max(one.value or 0.0 for one in limited.leaks.values())
    first = None if found.next_attempt is None else 1
    level = Guarantee.level_of(asked.delta, first) / max(1, len(asked.candidates))
    needed = LeakPlan.units_for(leak, risk.bound, delta=level)
    wanted = (
        ""
        if limited is None
        else f" and abstain from no more than {asked.max_false_abstention:.0%}"
    )
    if needed is None:
        yield (
            f"more questions alone will not do: at that abstention {leak:.0%} leak, and the bound "
            f"is {risk.bound:g}"
        )
        return
    here, units = min(_units(found))
    if needed > here:
        yield (
            f"about {needed - here} more {units}, {needed} in all, would certify {risk.bound:g}"
            f"{wanted} if they go like these: measured into a new run, as its first attempt"
        )


def _units(found: Calibrated) -> Iterator[tuple[int, str]]:
    """Of each kind that must not pass, how many there are, and what they are called."""
    for case in populations_of(found.certify):
        records = [r for r in found.certify if r.case == case and r.relevance is not None]
        units = {record.unit for record in records}
        names = {"group": "topics", "question": "unanswerable questions"}
        name = "passages with questions"
        if case == "unanswerable":
            name = names[max((kind for kind, _ in units), default="question")]
        yield len(units), name


def _reviews(found: Calibrated, limited: Calibrated | None) -> Iterator[str]:
    """How many left-out cases pass where abstention is bearable."""
    if limited is None or not Path(found.measured.source).is_dir():
        return
    left_out = [record for record in found.certify if record.case == "left_out"]
    count = len(passing(limited.policy, left_out))
    if count:
        yield (
            f"`knowgate label {found.measured.source}`: {count} left-out cases lie above "
            "the threshold that abstains so little; one that another passage answers is no leak"
        )


def _another_scorer(found: Calibrated) -> str:
    scorer = found.measured.scorer
    better = "" if scorer is None or scorer.kind == _BETTER_SCORER else f", e.g. {_BETTER_SCORER}"
    return (
        f"a scorer that tells the cases apart better{better}: `knowgate measure` with several "
        "--scorer compares them on your questions"
    )


# -- costs in place of a promise ------------------------------------------------------


def _without_promise(limited: Calibrated, limit: float) -> str:
    leaks = " and ".join(
        f"{_percent(leak)} of {case.replace('_', '-')}" for case, leak in limited.leaks.items()
    )
    return (
        f"without any guarantee, --max-abstention {limit:g} lets through about {leaks} questions "
        f"and abstains from about {_percent(limited.false_abstention)} of what could be answered; "
        "--cost leak=… weighs both by your own costs"
    )


def _percent(rate: Interval) -> str:
    return "an unknown share" if rate.value is None else f"{rate.value:.0%}"


_FEW_UNITS = 30
_CROWDED = 3.0


def limits(policy: Policy) -> list[str]:
    """List what the guarantee does not cover, beyond what its own statement says.

    Empty where nothing is certified: then there is no promise with limits.
    """
    if policy.guarantee is None or not policy.guarantee.certified:
        return []
    kinds = {risk.kind for risk in policy.guarantee.risks}
    lines = ["questions of which fewer can be answered than of these: more of what passes is wrong"]
    if not kinds & {"false_abstention", "cost"}:
        lines.append("how often it abstains without need: that is measured, not bounded")
    if policy.may_follow and policy.may_answer and "answer" not in kinds:
        lines.append(
            "each route on its own: contexts followed and answers from memory are bounded together"
        )
    if policy.scorer.kind == PolicyBinding.UNNAMED.kind:
        lines.append(
            "a guard that serves with some scorer: the records do not name theirs, so no guard "
            "loads this policy"
        )
    return lines


def cautions(
    measured: CalibrationSet, certify: Sequence[CalibrationRecord], policy: Policy, *, share: float
) -> list[str]:
    """List what to know before trusting the promise; often nothing.

    Args:
        measured: all records.
        certify: those that the certificate rests on.
        policy: the fitted one.
        share: of the questions that was fitted on.
    """
    certified = policy.guarantee is not None and policy.guarantee.certified
    found = [*_unnamed(measured), *(_crowded(certify) if certified else [])]
    found += [*_off_scale(measured), *_unjudged(measured), *_unbound(measured)]
    return [*found, *_in_all(measured, certify, policy, share)]


def _in_all(
    measured: CalibrationSet, certify: Sequence[CalibrationRecord], policy: Policy, share: float
) -> list[str]:
    """The number of further questions that would help, of all and not of those that certify."""
    more = None if policy.guarantee is None else policy.guarantee.more_questions
    if more is None:
        return []
    certifying = len({case.question_id for case in certify})
    needed = LEARN_CALIBRATORS.questions_for(certifying + more) / share
    given = math.ceil(needed - 1e-9) - measured.questions
    return [
        f"The number of further questions counts those that certify, {certifying} of the "
        f"{measured.questions} here: in all it takes about {max(more, given)} more."
    ]


def _unnamed(measured: CalibrationSet) -> list[str]:
    lines = []
    if measured.scorer is None:
        lines.append(
            "The records do not name the relevance scorer that measured them, so the policy is "
            'bound to none and no guard loads it: add {"scorer": {"kind": …}} as their first line.'
        )
    if measured.estimator is None and any(c.confidence is not None for c in measured.records):
        lines.append(
            "The records do not name the confidence estimator that measured them, so no guard can "
            'check that it serves with the same one: add {"estimator": {"kind": …}} to their '
            "first line."
        )
    return lines


def _crowded(certify: Sequence[CalibrationRecord]) -> list[str]:
    questions = len({case.question_id for case in certify})
    units = len({case.unit for case in certify})
    lines = []
    if units < _FEW_UNITS:
        lines.append(
            f"Only {units} independent units certify: a promise from so few depends on each of "
            "them."
        )
    if units and questions / units >= _CROWDED:
        lines.append(
            f"{questions} questions come from {units} groups. Questions of one group tend to go "
            "alike, so that each group counts once: more groups say more than more questions."
        )
    return lines


def _off_scale(measured: CalibrationSet) -> list[str]:
    """A guard takes relevance on any scale, but confidence as a probability alone."""
    off = sum(c.confidence is not None and not 0 <= c.confidence <= 1 for c in measured.records)
    if not off:
        return []
    return [
        f"In {off} case{'' if off == 1 else 's'} confidence lies outside 0 and 1. A guard takes "
        "such a confidence for a failed one: bring it to 0 to 1 before measuring and serving."
    ]


def _unbound(measured: CalibrationSet) -> list[str]:
    if not measured.unbound:
        return []
    return [
        "The run is of an earlier version, in which a row that was edited, lost or taken from "
        "another run is not noticed: measure into a new folder if that may have happened."
    ]


def _unjudged(measured: CalibrationSet) -> list[str]:
    unknown = sum(case.context_right is None for case in measured.records)
    if not unknown:
        return []
    return [
        f"Of {unknown} cases it is not known whether the reply from the context is right; they "
        "count as wrong."
    ]
