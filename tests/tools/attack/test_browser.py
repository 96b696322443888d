"""Hostile texts in Chromium: reports and the playground."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM
from tools.attack.browser import attacks


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_hostile_texts_do_nothing_in_a_browser(tmp_path: Path, socket_enabled: None) -> None:
    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []
