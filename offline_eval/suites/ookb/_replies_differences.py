"""Differences between two systems, on the questions that both answered.

one factor changed  ─┐
                     ├─► pairs of replies ─► McNemar, paired bootstrap ─► Holm over all
another run         ─┘
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any

from ....calibration import Interval
from ....calibration.statistics import holm_adjusted, mcnemar_p_value
from ....guard.errors import InputError
from ...report.document import as_json
from ...report.text import one_line
from ...run.grouping import grouped
from ...run.replies import ReplySystem
from ._replies import FACTORS, OFF, Evidence, JudgedReply

# Fixed beforehand and not by what came out: the family that Holm's method pays for.
MAX_PAIRS = 40
LEVEL = 0.05
_FIRST_SHOWN = ("guard", "model", "retrieval", "prompt")
# Systems of two runs belong together by the first of these that names one of each.
_MATCHED_BY = (
    ("system_id",),
    ("model", "prompt", "retrieval", "guard"),
    # A new policy has another name.
    ("model", "prompt", "retrieval"),
)

Pair = tuple[JudgedReply, JudgedReply]


@dataclass(frozen=True, slots=True)
class Measure:
    """A rate that two systems are compared by.

    Attributes:
        title: for people.
        out_of_kb: whether it is about questions that the knowledge base does not answer.
        of: what it says of such a reply; None where the reply is not measured.
        fewest: pairs that make it worth a test.
    """

    title: str
    out_of_kb: bool
    of: Callable[[JudgedReply], bool | None]
    fewest: int = 1


MEASURES: Mapping[str, Measure] = {
    "abstention": Measure("Abstained, not in the KB", True, lambda reply: reply.abstained),
    "wrong_answer": Measure("Wrong answers, not in the KB", True, lambda reply: reply.wrong),
    "factuality": Measure(
        "Right where both answered",
        True,
        lambda reply: None if reply.tier is None else not reply.wrong,
        10,
    ),
    "false_abstention": Measure("False abstentions", False, lambda reply: reply.abstained),
}


class Difference:
    """The difference of two systems in one measure.

    Args:
        flags: per pair of replies what the measure says of the first and of the second, and the
            question; at least one.

    Attributes:
        base: share of the system that is taken from the other.
        other: share of the system that it is taken from.
        base_only: pairs in which the flag is set for the base alone.
        other_only: the other way round.
        difference: other minus base; `n` counts questions.
        p_value: McNemar's.
        p_adjusted: Holm's, over all differences of the report; None until it is known.
    """

    def __init__(self, flags: Sequence[tuple[bool, bool, str]]) -> None:
        base, other, questions = (list(column) for column in zip(*flags, strict=True))
        self.base, self.other = sum(base) / len(flags), sum(other) / len(flags)
        self.base_only = sum(below and not above for below, above, _ in flags)
        self.other_only = sum(above and not below for below, above, _ in flags)
        self.difference = Interval.paired_difference(other, base, groups=questions, seed=0)
        self.p_value = mcnemar_p_value(self.base_only, self.other_only)
        self.p_adjusted: float | None = None

    @property
    def shown(self) -> bool:
        """Whether the difference is more than chance explains, the whole family considered."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL


class Comparison:
    """The comparison of two systems on the cases that both replied to.

    Args:
        replies: of both systems to each case, those of the base first.
        systems: the base, whose shares are subtracted from those of the other, and the other.
        factor: in which they differ, `several`, or `run` for two runs.
        run: name of the other run's folder, where there is one; the base is of that run.

    Attributes:
        base: id of the base.
        other: id of the other system.
        pairs: cases that count; without a guard all of them.
        seen_in_calibration: cases left out because the guard's policy was calibrated on their
            question.
        differences: by measure; those without a pair are left out.
    """

    def __init__(
        self,
        replies: Sequence[Pair],
        systems: tuple[ReplySystem, ReplySystem],
        factor: str,
        run: str = "",
    ) -> None:
        usable = replies
        if any(system.guard != OFF for system in systems):
            usable = [pair for pair in replies if False not in [one.case.held_out for one in pair]]
        self.base, self.other = (system.system_id for system in systems)
        self.factor, self.run = factor, run
        self.pairs, self.seen_in_calibration = len(usable), len(replies) - len(usable)
        found = {name: _flags(measure, usable) for name, measure in MEASURES.items()}
        self.differences = {
            name: Difference(flags)
            for name, flags in found.items()
            if len(flags) >= MEASURES[name].fewest
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        value = {**vars(self), "run": self.run or None}
        del value["differences"]
        return value | {name: as_json(vars(one)) for name, one in self.differences.items()}


def compare_systems(evidence: Evidence) -> tuple[list[Comparison], int]:
    """Compare systems of a run, and count how many more pairs there would have been."""
    by_system = grouped(evidence.replies, lambda reply: reply.system.system_id)
    wanted = one_factor_pairs(tuple(evidence.run.systems.values()))
    found = []
    for factor, *systems in wanted[:MAX_PAIRS]:
        replies = [by_system.get(one.system_id, ()) for one in systems]
        below, above = ({reply.case.case_id: reply for reply in own} for own in replies)
        if pairs := [(below[case], above[case]) for case in below if case in above]:
            found.append(Comparison(pairs, (systems[0], systems[1]), factor))
    return found, max(0, len(wanted) - MAX_PAIRS)


def one_factor_pairs(systems: Sequence[ReplySystem]) -> list[tuple[str, ReplySystem, ReplySystem]]:
    """Pair the systems that differ in one factor, those that differ in the guard first.

    Where no two do, each is compared with the first. The guarded one of a pair stands
    second, otherwise the order of the run decides.
    """
    found = []
    for first, second in combinations(systems, 2):
        changed = [name for name in FACTORS if getattr(first, name) != getattr(second, name)]
        if len(changed) == 1:
            swap = changed[0] == "guard" and second.guard == OFF
            found.append((changed[0], *((second, first) if swap else (first, second))))
    if not found:
        return [("several", systems[0], other) for other in systems[1:]]
    return sorted(found, key=lambda pair: _FIRST_SHOWN.index(pair[0]))


def compare_runs(this: Evidence, other: Evidence) -> list[Comparison]:
    """Compare this run with another one, system by system.

    Args:
        this: the run that is reported.
        other: what it is compared with.

    Raises:
        InputError: no system of one run belongs to one of the other, or they replied to no
            question in common.
    """
    where = str(other.run.folder)
    name = one_line(os.path.basename(os.path.abspath(where)))
    matched = matching_systems(tuple(other.run.systems.values()), tuple(this.run.systems.values()))
    if not matched:
        raise InputError(
            "no system of this run has the model, prompt and retrieval of one of the other",
            where=where,
            hint="compare two runs of the same systems",
        )
    found = []
    for base, system in matched:
        below = _by_question(reply for reply in other.replies if reply.system is base)
        above = _by_question(reply for reply in this.replies if reply.system is system)
        pairs = [(below[key], reply) for key, reply in above.items() if key in below]
        if pairs:
            found.append(Comparison(pairs, (base, system), "run", name))
    if not found:
        raise InputError(
            "the two runs replied to no question in common",
            where=where,
            hint="compare two runs over the same questions",
        )
    return found


def matching_systems(
    base: Sequence[ReplySystem], other: Sequence[ReplySystem]
) -> list[tuple[ReplySystem, ReplySystem]]:
    """Match the systems of two runs.

    By id; those left over by model, prompt, retrieval and guard, then without the guard (a
    new policy has another name), each as far as that names one system of either run; a run
    of one system belongs to one of one.
    """
    found: list[tuple[ReplySystem, ReplySystem]] = []
    for fields in _MATCHED_BY:
        before, now = (
            grouped(
                (one for one in side if one not in [pair[at] for pair in found]),
                attrgetter(*fields),
            )
            for at, side in enumerate((base, other))
        )
        pairs = ((before.get(name, []), same) for name, same in now.items())
        found += [(a[0], b[0]) for a, b in pairs if len(a) == len(b) == 1]
    alone = len(base) == len(other) == 1
    return [(base[0], other[0])] if alone and not found else found


def _by_question(replies: Iterable[JudgedReply]) -> dict[Hashable, JudgedReply]:
    """Index by question and state of the KB; a case that occurs twice is left out."""
    found = grouped(
        replies,
        lambda reply: (
            "out_of_kb" if reply.out_of_kb else "in_kb",
            " ".join(reply.question.question.split()),
            " ".join(reply.question.answer.split()),
        ),
    )
    return {key: same[0] for key, same in found.items() if len(same) == 1}


def _flags(measure: Measure, pairs: Sequence[Pair]) -> list[tuple[bool, bool, str]]:
    found = []
    for pair in pairs:
        below, above = map(measure.of, pair)
        own = all(reply.out_of_kb is measure.out_of_kb for reply in pair)
        if own and below is not None and above is not None:
            found.append((below, above, pair[1].case.question_id))
    return found


def adjust_p_values(comparisons: Sequence[Comparison]) -> None:
    """Adjust the p-values over all comparisons, by Holm's method."""
    tests = [one for found in comparisons for one in found.differences.values()]
    known = {one: one.p_value for one in tests if one.p_value is not None}
    for one, adjusted in zip(known, holm_adjusted(list(known.values())), strict=True):
        one.p_adjusted = adjusted
