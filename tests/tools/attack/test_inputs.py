"""Hostile questions end in a decision, damaged files in one line."""

from __future__ import annotations

from pathlib import Path

from tools.attack import inputs


def test_hostile_inputs_and_damaged_questions_end_orderly(tmp_path: Path) -> None:
    assert [one for one in inputs.attacks(tmp_path, full=False) if not one.held] == []


def test_a_call_that_takes_too_much_or_ends_badly_would_be_noticed() -> None:
    assert inputs.too_much(lambda: False)
    assert not inputs.too_much(lambda: True)
