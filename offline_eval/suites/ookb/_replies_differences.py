"""Differences between two systems, on the questions that both answered.

one factor changed  ─┐
                     ├─► pairs of replies ─► McNemar, paired bootstrap ─► Holm over all
another run         ─┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ....calibration import Interval, holm_adjusted, mcnemar_p_value
from ...run import (
    CaseKind,
    Judgement,
    ReplySystem,
)
from ._replies_evidence import JudgedReply
from ._replies_names import FACTORS

# Fixed beforehand and not by what came out: the family that Holm's method pays for.
MOST_PAIRS = 40
LEVEL = 0.05
_FIRST_SHOWN = ("guard", "model", "retrieval", "prompt")

Pair = tuple[JudgedReply, JudgedReply]


@dataclass(frozen=True, slots=True)
class Measure:
    """A rate that two systems are compared by.

    Attributes:
        name: in `report.json`.
        title: for people.
        of: what it says of one reply; None where the reply is not measured.
        fewest: pairs that make it worth a test.
    """

    name: str
    title: str
    of: Callable[[JudgedReply], bool | None]
    fewest: int = 1


def _abstained_out_of_kb(reply: JudgedReply) -> bool | None:
    return reply.abstained if reply.out_of_kb else None


def _wrong_out_of_kb(reply: JudgedReply) -> bool | None:
    return reply.wrong if reply.out_of_kb else None


def _factual_out_of_kb(reply: JudgedReply) -> bool | None:
    return reply.tier != Judgement.TIERS[2] if reply.out_of_kb and reply.tier is not None else None


def _abstained_in_kb(reply: JudgedReply) -> bool | None:
    return None if reply.out_of_kb else reply.abstained


MEASURES = (
    Measure("abstention", "Abstained, not in the KB", _abstained_out_of_kb),
    Measure("wrong_answer", "Wrong answers, not in the KB", _wrong_out_of_kb),
    Measure("factuality", "Right where both answered", _factual_out_of_kb, 10),
    Measure("false_abstention", "False abstentions", _abstained_in_kb),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two systems in one measure.

    Attributes:
        measure: name of it.
        base: share of the system that is taken from the other.
        other: share of the system that it is taken from.
        base_only: pairs in which the flag is set for the base alone.
        other_only: the other way round.
        difference: other minus base; `n` counts questions.
        p_value: McNemar's.
        p_adjusted: Holm's, over all differences of the report.
    """

    measure: str
    base: float | None
    other: float | None
    base_only: int
    other_only: int
    difference: Interval
    p_value: float | None
    p_adjusted: float | None = None

    @property
    def shown(self) -> bool:
        """Whether the difference is more than chance explains, the whole family considered."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "base": self.base,
            "other": self.other,
            "base_only": self.base_only,
            "other_only": self.other_only,
            "difference": self.difference.to_dict(),
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two systems.

    Attributes:
        base: id of the system whose shares are subtracted from those of the other.
        other: id of the other.
        factor: in which they differ, `several`, or `run` for two runs.
        run: name of the other run's folder, where there is one; the base is of that run.
        pairs: cases that both replied to.
        seen: cases left out because the guard's policy was calibrated on their question.
        differences: by measure; those without a pair are left out.
    """

    base: str
    other: str
    factor: str
    run: str
    pairs: int
    seen: int
    differences: Mapping[str, Difference]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        return {
            "base": self.base,
            "other": self.other,
            "factor": self.factor,
            "run": self.run or None,
            "pairs": self.pairs,
            "seen_in_calibration": self.seen,
            **{name: found.to_dict() for name, found in self.differences.items()},
        }


def one_factor_pairs(systems: Sequence[ReplySystem]) -> list[tuple[str, ReplySystem, ReplySystem]]:
    """Pair the systems that differ in one factor, those that differ in the guard first.

    Where no two do, each is compared with the first. The guarded one of a pair stands
    second, otherwise the order of the run decides.
    """
    found = []
    for first, second in combinations(systems, 2):
        changed = [name for name in FACTORS if getattr(first, name) != getattr(second, name)]
        if len(changed) == 1:
            swap = changed[0] == "guard" and second.guard == "off"
            found.append((changed[0], *((second, first) if swap else (first, second))))
    if not found:
        return [("several", systems[0], other) for other in systems[1:]]
    return sorted(found, key=lambda pair: _FIRST_SHOWN.index(pair[0]))


def compare_systems(
    replies: Iterable[JudgedReply], systems: Sequence[ReplySystem]
) -> tuple[list[Comparison], int]:
    """Comparisons within a run, and how many more there would have been."""
    by_system: dict[str, dict[str, JudgedReply]] = {}
    for reply in replies:
        by_system.setdefault(reply.system.system_id, {})[reply.case.case_id] = reply
    wanted = one_factor_pairs(systems)
    found = []
    for factor, base, other in wanted[:MOST_PAIRS]:
        below, above = (by_system.get(system.system_id, {}) for system in (base, other))
        pairs = [(below[case], above[case]) for case in below if case in above]
        if pairs:
            found.append(compare(pairs, base, other, factor=factor))
    return found, max(0, len(wanted) - MOST_PAIRS)


def compare(
    pairs: Sequence[Pair], base: ReplySystem, other: ReplySystem, *, factor: str, run: str = ""
) -> Comparison:
    """Compare two systems on the cases that both replied to.

    Args:
        pairs: reply of the base, reply of the other.
        base: its shares are subtracted from those of the other.
        other: see there.
        factor: in which they differ.
        run: that the base is of, where it is another one.
    """
    guarded = "off" not in (base.guard, other.guard) or base.guard != other.guard
    usable = [pair for pair in pairs if not (guarded and _seen(pair))]
    differences = {
        measure.name: found
        for measure in MEASURES
        if (found := _difference(measure, usable)) is not None
    }
    return Comparison(
        base=base.system_id,
        other=other.system_id,
        factor=factor,
        run=run,
        pairs=len(usable),
        seen=len(pairs) - len(usable),
        differences=differences,
    )


def with_holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjust the p-values over all comparisons."""
    tests = [found for one in comparisons for found in one.differences.values()]
    adjusted = iter(holm_adjusted([found.p_value for found in tests if found.p_value is not None]))
    return [
        replace(
            one,
            differences={
                name: found if found.p_value is None else replace(found, p_adjusted=next(adjusted))
                for name, found in one.differences.items()
            },
        )
        for one in comparisons
    ]


def case_key(reply: JudgedReply) -> tuple[str, str, str]:
    """Return what identifies a case in another run: the same question in the same state."""
    question = reply.question
    kind = "in_kb" if reply.case.kind is CaseKind.IN_KB else "out_of_kb"
    return kind, " ".join(question.question.split()), " ".join(question.answer.split())


def _seen(pair: Pair) -> bool:
    return any(reply.case.held_out is False for reply in pair)


def _difference(measure: Measure, pairs: Sequence[Pair]) -> Difference | None:
    flags = [
        (below, above, pair[1].case.question_id)
        for pair in pairs
        if (below := measure.of(pair[0])) is not None and (above := measure.of(pair[1])) is not None
    ]
    if len(flags) < measure.fewest:
        return None
    base = [below for below, _, _ in flags]
    other = [above for _, above, _ in flags]
    base_only = sum(below and not above for below, above, _ in flags)
    other_only = sum(above and not below for below, above, _ in flags)
    return Difference(
        measure=measure.name,
        base=sum(base) / len(flags),
        other=sum(other) / len(flags),
        base_only=base_only,
        other_only=other_only,
        difference=Interval.paired_difference(
            other, base, groups=[question for _, _, question in flags], seed=0
        ),
        p_value=mcnemar_p_value(base_only, other_only),
    )
