"""Differences between two systems, on the questions that both answered.

one factor changed  ─┐
                     ├─► pairs of replies ─► McNemar, paired bootstrap ─► Holm over all
another run         ─┘
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from operator import attrgetter
from typing import Any

from ....calibration import Interval
from ....calibration.statistics import holm_adjusted, mcnemar_p_value
from ....guard.errors import InputError
from ...judging.rated import Evidence, RatedReply
from ...report.text import one_line
from ...run.grouping import grouped
from ...run.replies import ReplySystem
from ...systems.guards import OFF

FACTORS = ("model", "retrieval", "prompt", "guard")
SEPARATOR = " \N{MIDDLE DOT} "
LONGEST = 60


def varying(systems: Sequence[ReplySystem]) -> tuple[str, ...]:
    """List the factors in which the systems differ; of a single system, all known ones."""
    values = {name: {getattr(system, name) for system in systems} for name in FACTORS}
    found = tuple(name for name in FACTORS if len(values[name]) > 1)
    return found or tuple(name for name in FACTORS if any(values[name]))


def labels(systems: Sequence[ReplySystem], factors: Sequence[str]) -> dict[str, str]:
    """Name each system by its varying factors, or by its id where these are not unique."""
    short = {system.system_id: label(system, factors) for system in systems}
    alike = len(set(short.values())) < len(short)
    shown = [name if alike else text or name for name, text in short.items()]
    return dict(zip(short, distinct(shown), strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """Shorten each name to one line, and number those that then look alike.

    Example:
        >>> distinct(["a", "b", "a\\n"])
        ['a', 'b', 'a #2']
    """
    found: list[str] = []
    for name in names:
        short = one_line(name, LONGEST)
        numbered = (f"{short} #{number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (short, *numbered) if one not in found))
    return found


def change(base: ReplySystem, other: ReplySystem, factor: str, factors: Sequence[str]) -> str:
    """Describe what changes from one system to another.

    Args:
        base: before.
        other: after.
        factor: in which they differ.
        factors: in which the systems of the run differ.
    """
    texts = (one_line(getattr(one, factor)) or "unknown" for one in (base, other))
    changed = " → ".join(one_line(text, LONGEST) for text in texts)
    same = one_line(label(base, [name for name in factors if name != factor]), LONGEST)
    return f"{same}: {changed}" if same else changed


def label(system: ReplySystem, factors: Sequence[str]) -> str:
    """Name a system by some of its factors."""
    values = {name: one_line(getattr(system, name)) or f"{name} unknown" for name in factors}
    return SEPARATOR.join(f"guard {v}" if name == "guard" else v for name, v in values.items())


# -- Differences --------------------------------------------------------------------------

# Fixed beforehand and not by what came out: the family that Holm's method pays for.
MAX_PAIRS = 40
LEVEL = 0.05
_FIRST_SHOWN = ("guard", "model", "retrieval", "prompt")
# Systems of two runs belong together by the first of these that names one of each; a new policy
# has another name.
_MATCHED_BY = (
    ("system_id",),
    ("model", "prompt", "retrieval", "guard"),
    ("model", "prompt", "retrieval"),
)
Pair = tuple[RatedReply, RatedReply]
# Two systems compared; see `_compared`.
Difference = dict[str, Any]

# Rates that two systems are compared by: what is compared of a reply, whether it is about questions
# that the knowledge base does not answer, and the fewest pairs that make it worth a test.
MEASURES = {
    "abstention": ("abstained", True, 1),
    "wrong_answer": ("wrong", True, 1),
    "factuality": ("right", True, 10),
    "false_abstention": ("abstained", False, 1),
}


def measured(found: Difference) -> list[str]:
    """Return the measures by which two systems could be compared."""
    return [name for name in MEASURES if name in found]


def _compared(pairs: Sequence[Pair], factor: str, run: str | None = None) -> Difference:
    """Compare two systems on the cases that both replied to.

    Args:
        pairs: replies of both systems to each case, at least one. Those of the base stand first:
            its shares are subtracted from those of the other.
        factor: in which they differ, `several`, or `run` for two runs.
        run: name of the other run's folder, where there is one; the base is of that run.

    Returns:
        Ids of both, factor and run; the number of cases that count (with a guard, those that its
        policy was not calibrated on), and of the others; and by measure the shares of both, in how
        many pairs one alone is flagged, other minus base (`n` counts questions), McNemar's
        p-value, and Holm's over all differences of the report.
    """
    usable, systems = pairs, [reply.system for reply in pairs[0]]
    if any(system.guard != OFF for system in systems):
        usable = [pair for pair in pairs if False not in [one.case.held_out for one in pair]]
    found: Difference = {
        "base": systems[0].system_id,
        "other": systems[1].system_id,
        "factor": factor,
        "run": run,
        "pairs": len(usable),
        "seen_in_calibration": len(pairs) - len(usable),
    }
    for name, (flag, out_of_kb, fewest) in MEASURES.items():
        flags = [
            (getattr(base, flag), getattr(other, flag), other.case.question_id)
            for base, other in usable
            if base.out_of_kb is other.out_of_kb is out_of_kb
        ]
        known = [pair for pair in flags if None not in pair]
        if len(known) >= fewest:
            found[name] = _difference(*zip(*known, strict=True))
    return found


def _difference(
    base: Sequence[bool],
    other: Sequence[bool],
    questions: Sequence[str],
) -> dict[str, Any]:
    one_alone = [
        sum(mine > yours for mine, yours in zip(*both, strict=True))
        for both in ((base, other), (other, base))
    ]
    return {
        "base": sum(base) / len(base),
        "other": sum(other) / len(other),
        "base_only": one_alone[0],
        "other_only": one_alone[1],
        "difference": Interval.paired_difference(other, base, groups=questions, seed=0),
        "p_value": mcnemar_p_value(*one_alone),
        "p_adjusted": None,
    }


def _paired(
    base: Iterable[RatedReply], other: Iterable[RatedReply], key: Callable[[RatedReply], object]
) -> list[Pair]:
    """Pair the replies of two systems; what occurs twice is left out."""
    sides = (grouped(replies, key) for replies in (base, other))
    below, above = ({k: one for k, (one, *more) in of.items() if not more} for of in sides)
    return [(below[name], reply) for name, reply in above.items() if name in below]


def compare_systems(evidence: Evidence) -> tuple[list[Difference], int]:
    """Compare systems of a run, and count how many more pairs there would have been."""
    by_system = grouped(evidence.replies, lambda reply: reply.system.system_id)
    wanted = _one_factor_pairs(tuple(evidence.run.systems.values()))
    found = []
    for factor, *systems in wanted[:MAX_PAIRS]:
        base, other = (by_system.get(one.system_id, ()) for one in systems)
        if pairs := _paired(base, other, lambda reply: reply.case.case_id):
            found.append(_compared(pairs, factor))
    return found, max(0, len(wanted) - MAX_PAIRS)


def _one_factor_pairs(systems: Sequence[ReplySystem]) -> list[tuple[str, ReplySystem, ReplySystem]]:
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


def compare_runs(this: Evidence, other: Evidence) -> list[Difference]:
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
    found = []
    for systems in _matching(*(tuple(one.run.systems.values()) for one in (other, this))):
        base, now = (
            [reply for reply in run.replies if reply.system is system]
            for run, system in zip((other, this), systems, strict=True)
        )
        if pairs := _paired(base, now, _asked):
            found.append(_compared(pairs, "run", name))
    if not found:
        raise InputError(
            "no system replied to the same questions in both runs",
            where=where,
            hint="compare two runs of the same systems over the same questions",
        )
    return found


def _matching(
    base: Sequence[ReplySystem],
    other: Sequence[ReplySystem],
) -> Iterator[tuple[ReplySystem, ReplySystem]]:
    """Match the systems of two runs, each way as far as it names one system of either run.

    A run of one system belongs to one of one.
    """
    if len(base) == len(other) == 1:
        yield base[0], other[0]
        return
    left = [list(base), list(other)]
    for fields in _MATCHED_BY:
        before, now = (grouped(side, attrgetter(*fields)) for side in left)
        for name, same in now.items():
            if len(same) == len(before.get(name, ())) == 1:
                yield before[name][0], same[0]
                left[0].remove(before[name][0])
                left[1].remove(same[0])


def _asked(reply: RatedReply) -> tuple[object, ...]:
    """Return what tells a case in several runs: question, answer and state of the KB."""
    texts = (reply.question.question, reply.question.answer)
    return reply.out_of_kb, *(" ".join(text.split()) for text in texts)


def adjust_p_values(comparisons: Sequence[Difference]) -> None:
    """Adjust the p-values over all comparisons, by Holm's method."""
    tests = [found[name] for found in comparisons for name in measured(found)]
    known = [one for one in tests if one["p_value"] is not None]
    for one, adjusted in zip(known, holm_adjusted([one["p_value"] for one in known]), strict=True):
        one["p_adjusted"] = adjusted
