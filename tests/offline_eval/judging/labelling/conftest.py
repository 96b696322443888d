"""A run to label, copied per test; a browser where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tools.attack.pages import serving

Serve = Callable[[LabelSession], str]


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that nobody has labelled; read only."""
    return toy_run(tmp_path_factory.mktemp("labelling") / "run").folder


@pytest.fixture
def run(stored_run: Path, tmp_path: Path) -> RepliesRun:
    """A copy of it."""
    return RepliesRun.read(shutil.copytree(stored_run, tmp_path / "run"))


@pytest.fixture
def serve(socket_enabled: None) -> Iterator[Serve]:
    """Serves sessions on loopback until the test ends; gives the page's address."""
    with ExitStack() as stack:
        yield lambda session: stack.enter_context(serving(session))
