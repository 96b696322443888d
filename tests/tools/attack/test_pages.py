"""Hostile texts stay texts, and reading them takes no time that grows with their square."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack import pages


def test_hostile_texts_and_requests_do_nothing(tmp_path: Path, socket_enabled: None) -> None:
    run = pages.hostile_run(tmp_path)
    assert pages.pages(run).held
    assert pages.requests(run).held


@pytest.mark.parametrize("text", [
    "<script>1</script>", "<img src=x onerror=a()>", "<a href='http://x'>y</a>",
])  # fmt: skip
def test_a_page_with_script_would_be_noticed(text: str) -> None:
    assert pages.runs_script(f"<p>{text}</p>")
    assert not pages.runs_script("<p><a href='#top'>y</a></p>")


def test_repetitive_texts_are_read_in_time() -> None:
    assert pages.patterns(2_000).held


@pytest.mark.slow
def test_connections_and_bodies_leave_room_for_others(socket_enabled: None) -> None:
    assert [one for one in pages.crowds(full=False) if not one.held] == []
