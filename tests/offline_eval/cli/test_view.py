"""`knowgate view`: what it rejects, and the page as a process serves it."""

from __future__ import annotations

import re
import signal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.web.runs import replies_run
from tests.support.commands import command


def test_folders_without_runs_and_broken_runs_are_one_line(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    refused(knowgate("view", tmp_path), "no run in this folder")
    refused(knowgate("view", tmp_path / "nowhere"), "no such folder")
    run = replies_run(tmp_path / "run", questions=1)
    (run / "replies.jsonl").write_text("{]\n", encoding="utf-8")
    refused(knowgate("view", run), "replies.jsonl:1")


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path, socket_enabled: None) -> None:
    run = replies_run(tmp_path / "run", questions=1)
    with command("view", run, "--no-browser") as server:
        found = re.search(r"4 rows of 1 run — (\S+)", server.first_line())
        assert found is not None
        parts = urlsplit(found[1])
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        connection.request("GET", f"/?{parts.query}")
        assert connection.getresponse().status == 303
        connection.close()
        server.signal(signal.SIGINT)
        assert server.wait() == 0
