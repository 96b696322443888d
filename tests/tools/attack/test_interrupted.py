"""Commands that write, on a full disk and killed: the cheap part of the attack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack.interrupted import attacks


@pytest.mark.slow
def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    found = list(attacks(tmp_path, full=False))
    assert [outcome.cases for outcome in found if not outcome.held] == []
    assert len(found) == 4
