"""Twenty cases whose every number was worked out by hand."""

from __future__ import annotations

from typing import Any

from knowgate.offline_eval.suites.uniknow._cases import UniKnowRow

KNOWLEDGE = {
    "conflict": "known",
    "agreement": "known",
    "parametric_only": "known",
    "external_only": "unknown",
    "unknown": "unknown",
    None: "undefined",
}
CONTEXT = "Oslo and Bergen lie in Norway."

# Scenario, kind of context, reply (empty: declined), right, from memory, what became of it.
TABLE: list[tuple[str | None, str, str, bool, bool, str]] = [
    ("conflict", "conflicting", "Bergen", True, False, "right"),
    ("conflict", "conflicting", "Rome", False, True, "parametric"),
    ("conflict", "conflicting", "Oslo", False, False, "contextual"),
    ("conflict", "conflicting", "", False, False, "false_abstention"),
    ("external_only", "original", "Oslo", True, False, "right"),
    ("external_only", "conflicting", "Bergen", True, False, "right"),
    ("external_only", "original", "Berlin", False, False, "contextual"),
    ("external_only", "conflicting", "", False, False, "false_abstention"),
    ("parametric_only", "random", "Rome", True, False, "right"),
    ("parametric_only", "retrieved", "oslo!", False, False, "contextual"),
    ("parametric_only", "random", "Berlin", False, False, "parametric"),
    ("parametric_only", "retrieved", "", False, False, "false_abstention"),
    ("unknown", "random", "", False, False, "right_abstention"),
    ("unknown", "retrieved", "", False, False, "right_abstention"),
    ("unknown", "random", "Bergen", False, False, "contextual"),
    ("unknown", "retrieved", "Berlin", False, False, "other"),
    (None, "original", "Oslo", True, False, "right"),
    (None, "random", "", False, False, "right_abstention"),
    (None, "random", "Berlin", False, False, "parametric"),
    ("agreement", "original", "Rome", True, False, "right"),
]


def twenty_rows(method: str = "naive") -> list[UniKnowRow]:
    """One row per line of the table, each of its own question."""
    return [row(number, method) for number in range(len(TABLE))]


def row(number: int, method: str = "naive", **changes: Any) -> UniKnowRow:
    """The row of one line of the table."""
    scenario, kind, answer, right, parametric, _ = TABLE[number]
    found: dict[str, Any] = {
        "case_id": f"{method}|cities/q{number}/{kind}",
        "method": method,
        "dataset": "cities",
        "question_id": f"q{number}",
        "group": f"q{number}",
        "context_kind": kind,
        "scenario": scenario,
        "knowledge": KNOWLEDGE[scenario],
        "answer": answer,
        "abstained": not answer,
        "right": right,
        "parametric": parametric,
        "misled": False,
        "route": None,
        "relevance": None,
        "confidence": None,
        "error": None,
    }
    return UniKnowRow.model_validate({**found, **changes})


def contexts() -> dict[str, str]:
    """The context of every case, by its id without the method."""
    return {one.case_key: CONTEXT for one in twenty_rows()}
