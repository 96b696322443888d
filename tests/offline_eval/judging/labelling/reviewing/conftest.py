"""A small run, and its cases as a reviewer reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowgate.offline_eval.judging.labelling.review_session import ReviewSession
from tests.guard.engine.remembered import remembered_encoders
from tests.offline_eval.judging.labelling.reviewing.small_run import write_small_run


@pytest.fixture(scope="module", autouse=True)
def _remembered_encoders() -> Iterator[None]:
    with remembered_encoders():
        yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "run")


@pytest.fixture
def session(run: Path) -> ReviewSession:
    return ReviewSession.open(run)
