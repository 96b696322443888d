"""Processes end as they want to, whatever their abandoned calls are doing."""

from __future__ import annotations

from pathlib import Path

from tools.attack.exits import attacks


def test_a_process_with_abandoned_calls_in_torch_ends_with_its_own_exit_code(
    tmp_path: Path,
) -> None:
    for outcome in attacks(tmp_path, False):
        assert outcome.held, outcome
