"""A small run, and its cases as a reviewer reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.judging.labelling.review_session import ReviewSession
from tests.offline_eval.judging.labelling.reviewing.small_run import write_small_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "run")


@pytest.fixture
def session(run: Path) -> ReviewSession:
    return ReviewSession.open(run)
