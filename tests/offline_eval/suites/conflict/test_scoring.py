"""Accuracy, preference and suppression, counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from knowgate.offline_eval.suites.conflict._rows import (
    CLOSED_BOOK,
    REMOVES,
    ConflictManifest,
    ConflictRow,
    Instance,
    Option,
    Shown,
)
from knowgate.offline_eval.suites.conflict._scoring import (
    ConflictRun,
)
from knowgate.offline_eval.suites.conflict.items import EvidenceKind, Task
from knowgate.offline_eval.suites.parts import MODEL_SYSTEM

NC, HPC, LPC = EvidenceKind.NC, EvidenceKind.HPC, EvidenceKind.LPC
ROLES = ("belief", "plausible", "implausible", "distractor")  # A, B, C, D


def instance(key: str, plausibility: float | None = None) -> Instance:
    return Instance(
        key=key,
        question="Who?",
        options=tuple(Option(text=f"{role} {key}", role=role) for role in ROLES),
        evidence={
            kind: Shown(passage="p", plausibility=None if kind is NC else plausibility)
            for kind in (NC, HPC, LPC)
        },
        agreeing_first=True,
    )


def row(
    key: str, task: Task, kind: EvidenceKind | None, letters: str | None, right: str, **fields: Any
) -> ConflictRow:
    values: dict[str, Any] = {
        "row_id": f"{fields.get('system', MODEL_SYSTEM)}/{task}/{kind}/{key}",
        "system": MODEL_SYSTEM,
        "task": task,
        "evidence": kind,
        "key": key,
        "letters": None if letters is None else tuple(letters),
        "right": tuple(right),
        "correct": letters == right,
    }
    return ConflictRow(**(values | fields))


def run(*rows: ConflictRow, tasks: str = "CK PK RAG", plausibility: Any = None) -> ConflictRun:
    manifest = ConflictManifest(
        suite="conflict",
        settings={
            "tasks": tasks.split(),
            "kinds": ["NC", "HPC", "LPC"],
            "beliefs": "given",
            "answers": "letters",
        },
        systems=(MODEL_SYSTEM, CLOSED_BOOK, REMOVES),
        questions=4,
    )
    keys = list(dict.fromkeys(one.key for one in rows))
    values = plausibility or {}
    instances = tuple(instance(key, values.get(key)) for key in keys)
    return ConflictRun(manifest, (), (), instances, rows)


def pk(key: str, alone: str, kept: str, removed: str = "A") -> list[ConflictRow]:
    return [
        row(key, Task.PK, None, alone, "A", system=CLOSED_BOOK),
        row(key, Task.PK, None, removed, "A", system=REMOVES),
        row(key, Task.PK, HPC, kept, "A"),
    ]


def test_suppression_is_what_stays_right_of_what_was_known() -> None:
    rows = [
        *pk("1", "A", "A"),
        *pk("2", "A", "B"),
        *pk("3", "A", "B"),
        *pk("4", "A", "B"),
        *pk("5", "B", "A", removed="B"),  # not known: no part of the score
    ]
    found = run(*rows).suppressions
    model, removed = found[HPC][MODEL_SYSTEM], found[HPC][REMOVES]
    assert (model["score"].value, model["score"].n) == (0.25, 4)
    assert (model["accuracy"].value, model["closed_book"].value) == (0.4, 0.8)
    assert model["difference"].value == pytest.approx(-0.4)
    assert (removed["score"].value, removed["difference"].value) == (1.0, 0.0)


def test_errors_are_left_out_and_counted() -> None:
    error = {"type": "LanguageModelError", "detail": "down"}
    rows = [
        row("1", Task.CK, HPC, "B", "B"),
        row("2", Task.CK, HPC, "A", "B"),
        row("3", Task.CK, HPC, None, "B"),
        row("4", Task.CK, HPC, None, "B", correct=None, error=error),
    ]
    cell = run(*rows).cells[Task.CK][HPC]
    assert cell["accuracy"].value == pytest.approx(1 / 3)
    assert (cell["accuracy"].n, cell["unread"], cell["errors"]) == (3, 1, 1)
    nothing = run(*rows).cells[Task.CK][NC]
    assert nothing["accuracy"].value is None


def test_the_confident_subset_is_right_in_all_tasks_over_nc() -> None:
    rows = [
        *(row("1", task, NC, "A", "A") for task in (Task.CK, Task.PK, Task.RAG)),
        *(row("2", task, NC, "A", "A") for task in (Task.CK, Task.PK)),
        row("2", Task.RAG, NC, "B", "A"),
        *(row("3", task, NC, "A", "A") for task in (Task.CK, Task.PK)),
        row("1", Task.CK, HPC, "A", "B"),
        row("2", Task.CK, HPC, "B", "B"),
    ]
    assert run(*rows).confident == {"1"}
    cell = run(*rows).cells[Task.CK][HPC]
    assert (cell["accuracy"].value, cell["confident"].value, cell["confident"].n) == (0.5, 0.0, 1)
    assert run(*rows, tasks="KF").confident == frozenset()


def test_preference_counts_replies_that_take_one_side() -> None:
    rows = [
        row("1", Task.RAG, HPC, "B", "AB"),
        row("2", Task.RAG, HPC, "A", "AB"),
        row("3", Task.RAG, HPC, "B", "AB"),
        row("4", Task.RAG, HPC, "AB", "AB"),
        row("5", Task.RAG, HPC, "D", "AB"),
        row("1", Task.RAG, LPC, "A", "AC"),
        row("3", Task.RAG, LPC, "C", "AC"),
    ]
    found = run(*rows).preferences
    assert found[HPC]["follows"].value == pytest.approx(2 / 3)
    assert (found[HPC]["both"].value, found[HPC]["neither"].value) == (0.2, 0.2)
    assert found[LPC]["follows"].value == 0.5
    # Questions 1 and 3 take a side in both: (1 + 1) / 2 against (0 + 1) / 2.
    assert run(*rows).plausible_preference.value == 0.5


def test_the_likelier_side_is_taken_where_options_were_scored() -> None:
    rows = [
        row("1", Task.RAG, HPC, "AB", "AB", likelihoods=(-2.0, -1.0, -9.0, -9.0)),
        row("2", Task.RAG, HPC, "D", "AB", likelihoods=(-1.0, -2.0, -9.0, -0.5)),
        row("3", Task.RAG, HPC, "AB", "AB", likelihoods=(-1.0, -1.0, -9.0, -9.0)),
    ]
    follows = run(*rows).preferences[HPC]["follows"]
    assert (follows.value, follows.n) == (0.5, 2)


def test_differences_are_paired_by_question() -> None:
    rows = [
        row("1", Task.CK, NC, "A", "A"),
        row("2", Task.CK, NC, "A", "A"),
        row("3", Task.CK, NC, "A", "A"),
        row("1", Task.CK, HPC, "A", "B"),
        row("2", Task.CK, HPC, "B", "B"),
    ]
    ((task, of),) = run(*rows).differences.items()
    ((kind, found),) = of.items()
    assert (task, kind, found.value, found.n) == (Task.CK, HPC, 0.5, 2)


def test_bands_hold_what_was_measured() -> None:
    rows = [
        row("1", Task.CK, HPC, "B", "B"),
        row("2", Task.CK, HPC, "A", "B"),
        row("3", Task.CK, HPC, "B", "B"),
        row("3", Task.PK, HPC, "B", "A"),
    ]
    found = run(*rows, plausibility={"1": 0.0, "2": 0.24, "3": 1.0}).bands
    assert [band["follows"].value for band in found] == [0.5, None, None, 1.0]
    assert found[3]["ignores"].value == 0.0
    assert run(*rows).bands == []


def test_what_agrees_is_in_no_band() -> None:
    measured = run(row("1", Task.CK, NC, "A", "A"), row("1", Task.CK, HPC, "B", "B"))
    (one,) = measured.instances
    shown = {kind: Shown(passage="p", plausibility=0.9) for kind in one.evidence}
    measured = replace(measured, instances=(one.model_copy(update={"evidence": shown}),))
    assert [band["follows"].n for band in measured.bands] == [0, 0, 0, 1]
