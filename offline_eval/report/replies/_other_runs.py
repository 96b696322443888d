"""Finding the systems and questions of another run that belong to those of this one."""

from __future__ import annotations

from collections.abc import Sequence

from ....guard import InputError
from ...replies import ReplySystem
from .._escaping import one_line
from ._differences import Comparison, Pair, case_key, compare
from ._evidence import Evidence, JudgedReply

_FIELDS = (("model", "prompt", "retrieval", "guard"), ("model", "prompt", "retrieval"))


def compare_runs(this: Evidence, other: Evidence, name: str) -> list[Comparison]:
    """This run minus another one, system by system.

    Args:
        this: whose report is written.
        other: what it is compared with.
        name: of the other run, for people.

    Raises:
        InputError: no system of one run belongs to one of the other, or they replied to no
            question in common.
    """
    matched = matching_systems(tuple(other.run.systems.values()), tuple(this.run.systems.values()))
    where = str(other.run.folder)
    if not matched:
        raise InputError(
            "no system of this run has the model, prompt and retrieval of one of the other",
            where=where,
            mend="compare two runs of the same systems",
        )
    found = []
    for base, system in matched:
        pairs = _pairs(
            [reply for reply in other.replies if reply.system is base],
            [reply for reply in this.replies if reply.system is system],
        )
        if pairs:
            found.append(compare(pairs, base, system, factor="run", run=one_line(name)))
    if not found:
        raise InputError(
            "the two runs replied to no question in common",
            where=where,
            mend="compare two runs over the same questions",
        )
    return found


def matching_systems(
    base: Sequence[ReplySystem], other: Sequence[ReplySystem]
) -> list[tuple[ReplySystem, ReplySystem]]:
    """Systems of two runs that belong together.

    By id; those left over by model, prompt, retrieval and guard, then without the guard (a
    new policy has another name), each as far as that names one system of either run; a run
    of one system belongs to one of one.
    """
    by_id = {system.system_id: system for system in base}
    found = [(by_id[system.system_id], system) for system in other if system.system_id in by_id]
    for fields in _FIELDS:
        before = _by([one for one in base if one not in [pair[0] for pair in found]], fields)
        now = _by([one for one in other if one not in [pair[1] for pair in found]], fields)
        found += [
            (before[key][0], same[0])
            for key, same in now.items()
            if len(same) == 1 and len(before.get(key, ())) == 1
        ]
    if not found and len(base) == len(other) == 1:
        return [(base[0], other[0])]
    return found


def _by(
    systems: Sequence[ReplySystem], fields: Sequence[str]
) -> dict[tuple[str, ...], list[ReplySystem]]:
    found: dict[tuple[str, ...], list[ReplySystem]] = {}
    for system in systems:
        found.setdefault(tuple(getattr(system, name) for name in fields), []).append(system)
    return found


def _pairs(base: Sequence[JudgedReply], other: Sequence[JudgedReply]) -> list[Pair]:
    first, second = _once(base), _once(other)
    return [(first[key], reply) for key, reply in second.items() if key in first]


def _once(replies: Sequence[JudgedReply]) -> dict[tuple[str, str, str], JudgedReply]:
    """By case; one that stands twice belongs to nobody for certain."""
    found: dict[tuple[str, str, str], list[JudgedReply]] = {}
    for reply in replies:
        found.setdefault(case_key(reply), []).append(reply)
    return {key: same[0] for key, same in found.items() if len(same) == 1}
