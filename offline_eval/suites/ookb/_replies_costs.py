"""Finding the systems and questions of another run that belong to those of this one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ....guard.errors import InputError
from ...report import one_line
from ...run import Judgement, RepliesRun, ReplyRow, ReplySystem
from ..judge_bias import JudgeBias
from ._replies_differences import Comparison, Pair, case_key, compare
from ._replies_evidence import Evidence, JudgedReply, error_types


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of some rows; each number is None where no row was metered.

    Attributes:
        rows: replies or verdicts, failed ones included.
        metered: rows of which the calls are known.
        calls: of language models.
        input_tokens: of these calls.
        output_tokens: likewise.
        seconds_p50: median from the first call to the reply.
        seconds_p95: that 95 % of the replies stay under.
        errors: by type, the most frequent first.
    """

    rows: int
    metered: int
    calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    seconds_p50: float | None
    seconds_p95: float | None
    errors: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def reply_costs(evidence: Evidence) -> dict[str, Cost]:
    """Sum the cost per system, in the order of the run."""
    every = [*evidence.replies, *evidence.failed]
    return {
        name: _cost(
            [reply.row for reply in every if reply.system.system_id == name],
            error_types([reply for reply in evidence.failed if reply.system.system_id == name]),
        )
        for name in evidence.run.systems
    }


def judge_costs(evidence: Evidence) -> dict[str, Cost]:
    """Sum the cost per judge, by name."""
    rows: dict[str, list[Judgement]] = {}
    for verdict in evidence.run.judgements.values():
        rows.setdefault(verdict.judge, []).append(verdict)
    found = {}
    for judge in sorted(rows):
        errors: dict[str, int] = {}
        for row in rows[judge]:
            if row.error is not None:
                errors[row.error.type] = errors.get(row.error.type, 0) + 1
        found[judge] = _cost(rows[judge], dict(sorted(errors.items())))
    return found


def _cost(rows: Sequence[ReplyRow] | Sequence[Judgement], errors: dict[str, int]) -> Cost:
    seconds = sorted(
        row.seconds for row in rows if isinstance(row, ReplyRow) and row.seconds is not None
    )
    p50, p95 = np.quantile(seconds, [0.5, 0.95]) if seconds else (None, None)
    return Cost(
        rows=len(rows),
        metered=sum(row.calls is not None for row in rows),
        calls=_total(row.calls for row in rows),
        input_tokens=_total(row.input_tokens for row in rows),
        output_tokens=_total(row.output_tokens for row in rows),
        seconds_p50=None if p50 is None else float(p50),
        seconds_p95=None if p95 is None else float(p95),
        errors=errors,
    )


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


_FIELDS = (("model", "prompt", "retrieval", "guard"), ("model", "prompt", "retrieval"))


def compare_runs(this: Evidence, other: Evidence, name: str) -> list[Comparison]:
    """Compare this run with another one, system by system.

    Args:
        this: the run that is reported.
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
            hint="compare two runs of the same systems",
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
    """Index by case; a case that occurs twice is left out."""
    found: dict[tuple[str, str, str], list[JudgedReply]] = {}
    for reply in replies:
        found.setdefault(case_key(reply), []).append(reply)
    return {key: same[0] for key, same in found.items() if len(same) == 1}


def judge_warnings(run: RepliesRun) -> dict[str, tuple[str, ...]]:
    """Collect warnings on the judges that gave a verdict, by judge; often none.

    Raises:
        InputError: the run's `judge_bias.json` is broken.
    """
    judges = {judgement.judge for judgement in run.judgements.values()}
    said = {name: bias.warning for name, bias in JudgeBias.of_run(run.folder).items()}
    return {name: (text,) for name, text in said.items() if text is not None and name in judges}
