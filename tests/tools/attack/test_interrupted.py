"""Commands that write, on a full disk and killed: the cheap part of the attack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack import interrupted


@pytest.mark.slow
def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the commands, one that writes a whole run; `make attack` tries all.
    run = next(one for one in interrupted._COMMANDS if one[0].startswith("import"))
    monkeypatch.setattr(interrupted, "_COMMANDS", (run,))
    monkeypatch.setattr(interrupted, "_QUICK", ("import",))
    found = list(interrupted.attacks(tmp_path, full=False))
    assert [outcome.cases for outcome in found if not outcome.held] == []
    assert len(found) == 2 + interrupted._can_mount()
