"""Hostile requests to the HTTP service do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack import served


def test_hostile_requests_are_harmless(tmp_path: Path, socket_enabled: None) -> None:
    outcomes = list(served.attacks(tmp_path, False))
    assert [one for one in outcomes if not one.held] == []
    assert sum(one.tried for one in outcomes) > 140


@pytest.mark.slow
def test_connections_and_bodies_leave_room_for_others(socket_enabled: None) -> None:
    assert [one for one in served.crowds(full=False) if not one.held] == []
