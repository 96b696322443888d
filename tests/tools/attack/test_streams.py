"""Streams that are cut: the cheap part of the attack."""

from __future__ import annotations

from pathlib import Path

from tools.attack.streams import attacks


def test_no_cut_stream_looks_whole_and_none_goes_on(tmp_path: Path) -> None:
    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []
