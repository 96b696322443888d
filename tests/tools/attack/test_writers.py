"""Two writers on one folder: the cheap part of the attack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack.writers import attacks, labels


def test_no_label_of_several_sessions_is_lost(tmp_path: Path) -> None:
    outcome = labels(tmp_path / "labels", people=2, sessions=2)
    assert outcome.held, outcome


@pytest.mark.slow
def test_two_writers_leave_what_one_of_them_writes(tmp_path: Path) -> None:
    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []
