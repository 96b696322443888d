"""Rows and policies written by hand: small, and every number in them known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import binom

from knowgate.guard import Fingerprint, Guarantee, Policy
from knowgate.guard.artefacts import GuaranteedRisk, PolicyPoint

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


def policy(
    threshold: float | None = 0.5,
    *,
    bound: tuple[float, float] = (0.1, 0.1),
    counts: tuple[int, int] = (40, 1),
    **changes: Any,
) -> dict[str, Any]:
    """A stored policy; `bound` is α and δ, `counts` are questions and errors."""
    (risk, delta), (n, errors) = bound, counts
    p_value = float(binom.cdf(errors, n, risk))
    evidence: dict[str, Any] = {
        "risks": (GuaranteedRisk(kind="leak", bound=risk, n=n, loss=errors, p_value=p_value),),
        "path": (
            PolicyPoint(
                relevance=threshold,
                confidence=None,
                p_value=p_value,
                let_through=errors,
                errors=errors,
            ),
        ),
        "chosen": 0,
    }
    guarantee = Guarantee(
        statement="At most 10 % pass.",
        risk=risk,
        delta=delta,
        certified=threshold is not None,
        loss="a left-out question passes",
        n=n,
        errors=errors,
        **({} if threshold is None else evidence),
    )
    fields: dict[str, Any] = {"guarantee": guarantee, **changes}
    made = Policy(**{"scorer": SCORER, "relevance_threshold": threshold, **fields}).sealed()
    value: dict[str, Any] = json.loads(made.to_json())
    return value
