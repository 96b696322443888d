"""Measured cases from a population whose true probabilities are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from knowgate.calibration import CalibrationRecord
from knowgate.guard import Fingerprint
from knowgate.offline_eval.policies.records import CalibrationSet

SCORER = Fingerprint(kind="bi_encoder", weights_sha256="a" * 64, backend="torch")
ESTIMATOR = Fingerprint(kind="sampled_consistency", settings={"n": 10})


def drawn(
    questions: int, *, seed: int = 0, variants: int = 1, confidence: bool = True, shift: float = 0.0
) -> CalibrationSet:
    """Questions whose raw relevance is a log-odds and whose raw confidence is too high.

    Args:
        questions: how many.
        seed: of the draw.
        variants: cases per question, which share its difficulty.
        confidence: False leaves confidence unmeasured.
        shift: added to the log-odds that a context is right, unknown to the scorer.
    """
    rng = np.random.default_rng(seed)
    cases = []
    for i in range(questions):
        easy = rng.normal()
        for v in range(variants):
            score = 2.0 * easy + rng.normal()
            sure = rng.uniform()
            cases.append(
                CalibrationRecord(
                    question_id=f"q{i}",
                    relevance=float(score),
                    confidence=float(sure**0.5) if confidence else None,
                    context_right=bool(rng.random() < 1 / (1 + np.exp(-(1.5 * score + shift)))),
                    closed_book_right=bool(rng.random() < sure) if confidence else None,
                    group=f"d{i // 2}",
                    case=f"v{v}",
                )
            )
    return CalibrationSet(
        tuple(cases), "drawn", SCORER, ESTIMATOR if confidence else None, population="drawn ones"
    )


def case(
    name: str = "q",
    relevance: float | None = 0.9,
    confidence: float | None = 0.2,
    right: Sequence[bool | None] = (True, False),
    **more: object,
) -> CalibrationRecord:
    """One case; `right` says whether context and memory are."""
    return CalibrationRecord(name, relevance, confidence, right[0], right[1], **more)  # type: ignore[arg-type]


def record_lines(measured: CalibrationSet) -> Iterator[Mapping[str, Any]]:
    """The lines of a records file that reads back as `measured`, the header first."""
    header: dict[str, Any] = {"aggregator": measured.aggregator}
    for name, fingerprint in (("scorer", measured.scorer), ("estimator", measured.estimator)):
        if fingerprint is not None:
            header[name] = fingerprint.model_dump(mode="json")
    if measured.population:
        header["population"] = measured.population
    if measured.conflict_between != "memory":
        header["conflict_between"] = measured.conflict_between
    yield header
    for case in measured.records:
        yield {field.name: getattr(case, field.name) for field in fields(case)}
