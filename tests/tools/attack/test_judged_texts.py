"""Judged texts are shown, and what is no passage is not judged."""

from __future__ import annotations

from pathlib import Path

from tools.attack.judged_texts import attacks


def test_judged_texts_are_shown_and_what_is_no_passage_is_not_judged(tmp_path: Path) -> None:
    assert [one for one in attacks(tmp_path, False) if not one.held] == []
