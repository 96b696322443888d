"""The pages of `knowgate label` and `knowgate view` as processes serve them."""

from __future__ import annotations

import http.client
import json
import re
import signal
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from knowgate.offline_eval.cli import main
from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.offline_eval.web.runs import replies_run
from tests.support.commands import Program, command
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGHUP, 129)])
def test_the_page_is_served_until_it_is_interrupted(
    tmp_path: Path, socket_enabled: None, number: signal.Signals, code: int
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests are run by nohup")
    run = replies_run(tmp_path / "run", questions=1)
    with Program(_view, run) as server:
        found = re.search(r"4 rows of 1 run — (\S+)", server.first_line())
        assert found is not None
        parts = urlsplit(found[1])
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        connection.request("GET", f"/?{parts.query}")
        assert connection.getresponse().status == 303
        connection.close()
        server.signal(number)
        assert server.wait() == code


def _view(run: Path) -> None:
    sys.argv = ["knowgate", "view", str(run), "--no-browser"]
    main()


def test_nohup_keeps_a_command_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["knowgate", "--version"])
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit):
            main()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])
