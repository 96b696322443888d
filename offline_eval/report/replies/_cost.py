"""What the replies and the verdicts on them cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...replies import Judgement, ReplyRow
from ._evidence import Evidence, error_types


@dataclass(frozen=True, slots=True)
class Cost:
    """Of some rows; each number is None where no row was metered.

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
    """Per system, in the order of the run."""
    every = [*evidence.replies, *evidence.failed]
    return {
        name: _cost(
            [reply.row for reply in every if reply.system.system_id == name],
            error_types([reply for reply in evidence.failed if reply.system.system_id == name]),
        )
        for name in evidence.run.systems
    }


def judge_costs(evidence: Evidence) -> dict[str, Cost]:
    """Per judge, by name."""
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
