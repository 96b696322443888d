"""Rows and policies written by hand: small, and every number in them known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from knowgate.guard import Fingerprint, Guarantee, Policy

Row = dict[str, Any]
WriteRun = Callable[..., Path]

SCORER = Fingerprint(kind="lexical")


def case(question: int | str, kind: str, score: float | None, **changes: Any) -> Row:
    """A row; without a score nothing was retrieved."""
    own = f"q{question}" if isinstance(question, int) else question
    passage = own if kind == "in_kb" else "q_other"
    row: Row = {
        "case_id": f"{own}/{kind}",
        "question_id": own,
        "kind": kind,
        "retrieved": [] if score is None else [passage],
        "scores": [] if score is None else [score],
        "raw_relevance": score,
        "retrieval_miss": False,
        "error": None,
    }
    return {**row, **changes}


def failed(question: int, kind: str, error: str = "SignalTimeoutError") -> Row:
    return case(question, kind, None, error={"type": error, "detail": "too slow"})


def missed(question: int, score: float) -> Row:
    return case(question, "in_kb", score, retrieved=["q_other"], retrieval_miss=True)


def pairs(in_kb: Sequence[float], left_out: Sequence[float]) -> list[Row]:
    rows: list[Row] = []
    for number, (with_source, without) in enumerate(zip(in_kb, left_out, strict=True)):
        rows += [case(number, "in_kb", with_source), case(number, "left_out", without)]
    return rows


def policy(threshold: float | None = 0.5, **changes: Any) -> dict[str, Any]:
    guarantee = Guarantee(
        statement="At most 10 % pass.",
        risk=0.1,
        delta=0.1,
        certified=threshold is not None,
        loss="a left-out question passes",
        n=40,
        errors=1,
    )
    fields: dict[str, Any] = {"guarantee": guarantee, **changes}
    made = Policy(scorer=SCORER, relevance_threshold=threshold, **fields)
    value: dict[str, Any] = json.loads(made.to_json())
    return value
