"""The page's server: loopback only, for whoever knows the address, many requests at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.web import PageServer, label_app
from tests.offline_eval.judging.labelling.conftest import Serve
from tests.support.commands import Program
from tools.attack.pages import cookie_of

JSON = {"Content-Type": "application/json"}
WEB = "knowgate.offline_eval.web"


def ask(
    url: str,
    path: str = "",
    body: Any = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of one request with the page's cookie."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(
            method or ("GET" if body is None else "POST"),
            f"/label/{path}",
            body=payload,
            headers=({} if body is None else JSON) | cookie_of(url) | (headers or {}),
        )
        response = connection.getresponse()
        text = response.read().decode("utf-8")
        return response.status, dict(response.getheaders()), text
    finally:
        connection.close()


@pytest.fixture
def url(run: RepliesRun, serve: Serve) -> str:
    return serve(LabelSession.annotate(run, "anna"))


OF_OTHER_PAGES = (
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example:80"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
)


def test_other_pages_can_neither_read_nor_label(run: RepliesRun, url: str) -> None:
    body = {"criterion": "abstention", "outcome": "yes"}

    for headers in OF_OTHER_PAGES:
        assert ask(url, "replies/0", headers=headers)[0] == 403, headers
        assert ask(url, "replies/0/label", body, headers)[0] == 403, headers
    assert not (run.folder / "labels" / "anna.jsonl").exists()


def test_a_form_of_another_page_cannot_label(run: RepliesRun, url: str) -> None:
    body = {"criterion": "abstention", "outcome": "yes"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert ask(url, "replies/0/label", body, {"Content-Type": kind})[0] == 415
    assert not (run.folder / "labels" / "anna.jsonl").exists()


BAD_REQUESTS: list[tuple[str, Any, int]] = [
    ("replies/0/label", b"{", 400),
    ("replies/0/label", b"[]", 400),
    ("replies/0/label", b"[" * 5000, 400),
    ("replies/0/label", {"criterion": 1, "outcome": "yes"}, 400),
    ("replies/0/label", {"criterion": "abstention", "outcome": "yes", "note": 3}, 400),
    ("replies/0/label", {"criterion": "abstention", "outcome": "maybe"}, 409),
    ("replies/0/label", {"criterion": "factuality", "outcome": "tier_1"}, 409),
    ("replies/999/label", {"criterion": "abstention", "outcome": "yes"}, 404),
    ("replies/-1/skip", {}, 404),
    ("replies/0/label", b"x" * 70_000, 413),
    ("nothing", {}, 404),
]


def test_bad_requests_are_refused_and_the_server_goes_on(run: RepliesRun, url: str) -> None:
    for path, body, status in BAD_REQUESTS:
        found, _, text = ask(url, path, body)

        assert found == status, (path, body)
        assert json.loads(text)["error"]
        assert ask(url, "state")[0] == 200
    assert not (run.folder / "labels" / "anna.jsonl").exists()


def test_a_disk_that_refuses_is_told_and_nothing_is_acknowledged(run: RepliesRun, url: str) -> None:
    (run.folder / "labels" / "anna.jsonl").mkdir()
    status, _, text = ask(url, "replies/0/skip", {})

    assert status == 500
    assert "anna.jsonl" in json.loads(text)["error"]


@pytest.mark.slow
def test_parallel_requests_of_two_annotators_lose_no_label(run: RepliesRun, serve: Serve) -> None:
    urls = [serve(LabelSession.annotate(run, name)) for name in ("anna", "bob")]
    jobs = [(url, position) for position in range(32) for url in urls]

    def label(job: tuple[str, int]) -> int:
        url, position = job
        body = {"criterion": "abstention", "outcome": "yes"}
        return ask(url, f"replies/{position}/label", body)[0]

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(label, jobs)) == {200}
    votes = Labels.read(run.folder).votes("abstention")
    assert len(votes) == 32
    assert all(vote == {"anna": "yes", "bob": "yes"} for vote in votes.values())


@pytest.mark.parametrize(
    "start",
    [
        "GET",
        "POST /label/undo HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n"
        "Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n{{",
    ],
    ids=["head", "body"],
)
def test_a_request_that_comes_byte_by_byte_is_given_up(
    url: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowgate.adapters.serve._server.HEADER_SECONDS", 0.2)
    monkeypatch.setattr(f"{WEB}._server._BODY_SECONDS", 0.2)
    parts = urlsplit(url)
    ends = time.monotonic() + 30
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=60) as connection:
        connection.sendall(start.format(cookie=cookie_of(url)["Cookie"]).encode())
        connection.settimeout(0.02)
        ended = False
        while not ended and time.monotonic() < ends:
            with contextlib.suppress(TimeoutError):
                ended = _sent_byte(connection)
    assert ended


def _sent_byte(connection: socket.socket) -> bool:
    """Send one more byte; whether the other side has ended the connection."""
    try:
        connection.sendall(b" ")
        return connection.recv(1000) == b""
    except ConnectionError:
        return True


def serve(folder: Path) -> None:
    """Serve a run to Anna; print the address first."""
    run = RepliesRun.read(folder)
    with PageServer(label_app(LabelSession.annotate(run, "anna"))) as server:
        print(server.url, flush=True)
        server.serve_forever()


@pytest.mark.slow
def test_a_killed_server_loses_no_acknowledged_label(run: RepliesRun, socket_enabled: None) -> None:
    acknowledged: set[int] = set()
    for first in (0, 16):
        with Program(serve, run.folder) as server, ThreadPoolExecutor(4) as pool:
            url = server.first_line()
            answers = {p: pool.submit(label_status, url, p) for p in range(first, first + 16)}
            # Some are acknowledged, others under way, the rest still to come.
            answers[first + 5].result()
            server.signal(signal.SIGKILL)
            server.wait()
        done = {position for position, answer in answers.items() if answer.result() == 200}
        assert first + 5 in done
        acknowledged |= done
        statuses = LabelSession.annotate(run, "anna").state()["statuses"]
        assert {statuses[position] for position in acknowledged} == {"done"}


def label_status(url: str, position: int) -> int:
    body = {"criterion": "abstention", "outcome": "yes"}
    try:
        return ask(url, f"replies/{position}/label", body)[0]
    except (OSError, http.client.HTTPException):
        return 0
