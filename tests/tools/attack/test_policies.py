"""Enormous policy files are rejected at once; copies work or say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack.policies import attacks, copies


def test_copies_work_or_say_what_to_do() -> None:
    assert copies().held


@pytest.mark.slow
def test_no_policy_hangs_its_reader_or_deceives(tmp_path: Path) -> None:
    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []
