"""`knowgate label`: refusals, agreement, export, and the page as a process serves it."""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.support.commands import command
from tools.attack.pages import cookie_of


@pytest.fixture
def run(tmp_path: Path) -> RepliesRun:
    return toy_run(tmp_path / "run")


@pytest.mark.slow
def test_the_command_serves_until_interrupted_and_goes_on_later(
    run: RepliesRun, socket_enabled: None
) -> None:
    for done in (0, 1):
        options = ("--annotator", "anna", "--no-browser", *(() if done else ("--sample", "5")))
        with command("label", run.folder, *options) as server:
            first = server.first_line()
            assert first.startswith(f"{done} of 5 replies labelled — http://127.0.0.1:")
            parts = urlsplit(first.split()[-1])
            connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
            connection.request(
                "POST",
                f"/label/replies/{done}/label",
                json.dumps({"criterion": "abstention", "outcome": "yes"}),
                {"Content-Type": "application/json"} | cookie_of(first.split()[-1]),
            )
            assert connection.getresponse().status == 200
            connection.close()
            server.signal(signal.SIGINT)
            assert (server.wait(), server.err) == (0, "")
            assert server.out.endswith(f"{done + 1} of 5 replies labelled\n")
    labels = Labels.read(run.folder)
    assert labels.sample is not None
    assert len(labels.sample.replies) == 5
    assert len(labels.votes("abstention")) == 2
