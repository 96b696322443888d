"""Reasons why a fitted policy should not serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...guard.policy import Policy
from .. import CalibrationRecord, Interval, SelectiveCurve

_MOST_MISSES = 1 / 3
_ASK_PEOPLE = (
    "collect thirty or more questions of people (a search log, support tickets), or accept a smoke "
    "test (--accept-generated; in Python accept_generated=True)"
)
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a policy should not serve.

    Attributes:
        MAX_FALSE_ABSTENTION: share of the answerable questions that a usable policy may
            abstain from, by default.
        kind: `uncertified`: no threshold met the bound; `blind`: no signal tells questions
            that can be answered from those that cannot; `abstains`: too many answerable
            questions are abstained from; `misses`: the retriever does not find the source of
            too many; `generated`: programs made more than a tenth of the questions.
        what: the reason, as a sentence.
        hint: what to do about it.
    """

    MAX_FALSE_ABSTENTION: ClassVar = 0.35

    kind: Literal["uncertified", "blind", "abstains", "misses", "generated"]
    what: str
    hint: str

    @classmethod
    def find(
        cls,
        policy: Policy,
        records: Sequence[CalibrationRecord],
        false_abstention: float | None,
        *,
        max_false_abstention: float = MAX_FALSE_ABSTENTION,
        seed: int = 0,
    ) -> tuple[Problem, ...]:
        """Find what makes a policy useless to serve, the cause before its effects.

        Args:
            policy: fitted to the records.
            records: as measured, on any scale.
            false_abstention: share of the answerable questions that it abstains from, itself and
                not what other questions would make of it; None where that is not known.
            max_false_abstention: the largest such share that will do.
            seed: of the resampling behind the interval of the AUROC.
        """
        found = [_misses(records), _blind(policy, records, seed)]
        if policy.rests_on_generated:
            found.append(cls("generated", policy.note, _ASK_PEOPLE))
        guarantee = policy.guarantee
        if guarantee is not None and not guarantee.certified:
            found.append(
                cls(
                    "uncertified",
                    guarantee.statement,
                    "measure more questions, best on further passages, or allow a larger bound",
                )
            )
        elif false_abstention is not None and false_abstention > max_false_abstention:
            found.append(
                cls(
                    "abstains",
                    f"It would abstain from {false_abstention:.0%} of the questions that could be "
                    f"answered, more than {max_false_abstention:.0%}.",
                    "compare scorers, measure more questions, or allow a larger bound",
                )
            )
        return tuple(problem for problem in found if problem is not None)


def _misses(records: Sequence[CalibrationRecord]) -> Problem | None:
    asked = [
        r for r in records if r.case == "in_kb" and (r.relevance is not None or r.nothing_retrieved)
    ]
    missed = sum(not record.is_answerable for record in asked)
    if not asked or missed <= _MOST_MISSES * len(asked):
        return None
    return Problem(
        "misses",
        f"The retriever does not find the source of {missed} of {len(asked)} questions although "
        "it is there: calibration would be about the retriever, not the guard.",
        "check that the passages are chunks of the documents, and repair the retriever first",
    )


def _blind(policy: Policy, records: Sequence[CalibrationRecord], seed: int) -> Problem | None:
    """Where the AUROC of every signal that opens a route may be that of chance."""
    signals = ["relevance"] if policy.may_follow or not policy.may_answer else []
    signals += ["confidence"] if policy.may_answer and policy.estimator is not None else []
    aurocs = [(name, separation(records, name, seed=seed)) for name in signals]
    known = [(name, found) for name, found in aurocs if found.low is not None]
    if not known or any((found.low or 0.0) > 0.5 for _, found in known):
        return None
    told = "; ".join(
        f"{name} has an AUROC of {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
        for name, found in known
    )
    return Problem(
        "blind",
        f"No signal tells questions that can be answered from those that cannot: {told}, where "
        "0.5 is chance.",
        "look at a few cases (`knowgate view`), check what stands in a passage, or use another "
        "scorer",
    )


def separation(
    records: Sequence[CalibrationRecord], signal: str = "relevance", *, seed: int = 0
) -> Interval:
    """AUROC of a signal for cases that can be answered, with its interval over units."""
    right = "context_right" if signal == "relevance" else "closed_book_right"
    by_unit: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for record in records:
        value = getattr(record, signal)
        if value is None or (record.case == "in_kb" and not record.context_right):
            continue  # with the source in place and not retrieved it is neither
        sides = by_unit.setdefault(record.unit, ([], []))
        sides[0 if getattr(record, right) else 1].append(value)
    return SelectiveCurve.bootstrap_auroc(list(by_unit.values()), resamples=_RESAMPLES, seed=seed)
