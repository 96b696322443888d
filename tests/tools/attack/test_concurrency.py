"""No concurrent call gets what belongs to another."""

from __future__ import annotations

from pathlib import Path

from tools.attack import concurrency


def test_a_hundred_calls_at_once_are_not_crossed(tmp_path: Path) -> None:
    assert [one for one in concurrency.attacks(tmp_path, full=False) if not one.held] == []


def test_a_crossed_decision_would_be_noticed() -> None:
    guard = concurrency._guard()
    decision = guard.decide(concurrency._question(4), concurrency._passages(4))
    assert concurrency._right(4, decision)
    assert not concurrency._right(5, decision)
