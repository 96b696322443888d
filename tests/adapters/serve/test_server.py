"""A real server: streams as they arrive, and the end after SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowgate.adapters.serve import _server, bound_socket, serve
from knowgate.guard import InputError
from tests.adapters.serve.hanging import HangingScorer
from tests.adapters.serve.service import GOOD, Model, chat, chunk, make_app, make_guard
from tests.support.commands import Program

PATH = "/v1/chat/completions"


class _Halting(Model):
    """Streams a word, and the rest once a file is there."""

    def __init__(self, go: Path) -> None:
        super().__init__()
        self._go = go

    async def _chunks(self, body: dict[str, Any]):  # type: ignore[no-untyped-def]
        yield chunk("At", body)
        while not self._go.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.002)
        yield chunk("nine.", body)
        yield b"data: [DONE]\n\n"


def _serve(go: str) -> None:
    listening = bound_socket("127.0.0.1", 0, has_token=False)
    print(listening.getsockname()[1], flush=True)
    serve(make_app(model=_Halting(Path(go))), listening)
    print("ended", flush=True)


@pytest.mark.enable_socket
def test_a_stream_arrives_unbuffered_and_ends_after_sigterm(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with Program(_serve, str(go)) as program:
        base = f"http://127.0.0.1:{program.first_line()}"
        with httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
            assert client.get("/readyz").json()["status"] == "ready"
            with client.stream("POST", PATH, json=chat("When?", GOOD, stream=True)) as running:
                assert running.headers["x-knowgate-route"] == "follow_context"
                lines = running.iter_lines()
                first = json.loads(next(lines).removeprefix("data: "))
                # The upstream has not said more yet.
                assert first["choices"][0]["delta"]["content"] == "At"

                program.signal(signal.SIGTERM)

                program.wait_until(lambda: client.get("/readyz").status_code == 503)
                late = client.post("/v1/decide", json={"question": "q"})
                assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
                go.touch()
                rest = "\n".join(lines)
        assert "nine." in rest
        assert rest.rstrip().endswith("[DONE]")
        assert program.wait() == 0
        assert "ended" in program.out
        assert "When?" not in program.err + program.out


def _serve_with_few_files(header_seconds: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    _server.HEADER_SECONDS = float(header_seconds)
    _serve("")


def _half_requests(port: int, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        found.append(socket.create_connection(("127.0.0.1", port)))
        found[-1].sendall(b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
    return found


@pytest.mark.slow
@pytest.mark.enable_socket
def test_headers_that_do_not_end_end_the_connection() -> None:
    with Program(_serve_with_few_files, "0.1") as program:
        port = int(program.first_line())
        [half] = _half_requests(port, 1)
        half.settimeout(60)
        with suppress(ConnectionResetError):
            assert half.recv(1) == b""
        half.close()


def _raw(port: int, *sent: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"".join(sent))
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.slow
@pytest.mark.enable_socket
@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x00\x01\r\n\r\n",
    ],
    ids=["two lengths", "no HTTP"],
)
def test_what_others_may_read_otherwise_is_400_in_json_and_closes(sent: bytes) -> None:
    with Program(_serve_with_few_files, "60") as program:
        port = int(program.first_line())
        smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        head, _, body = _raw(port, sent, smuggled).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert json.loads(body)["error"]["code"] == "invalid_http"


def _serve_hanging() -> None:
    listening = bound_socket("127.0.0.1", 0, has_token=False)
    print(listening.getsockname()[1], flush=True)
    serve(make_app(make_guard(HangingScorer())), listening, drain_seconds=0.1)
    os._exit(0)


@pytest.mark.slow
@pytest.mark.enable_socket
def test_a_request_that_the_end_cuts_off_is_told_so_in_json() -> None:
    with Program(_serve_hanging) as program:
        base = f"http://127.0.0.1:{program.first_line()}"
        client = httpx.Client(base_url=base, timeout=60, trust_env=False)
        with client, ThreadPoolExecutor(1) as threads:
            body = {"question": "When?", "passages": [GOOD]}
            cut = threads.submit(client.post, "/v1/decide", json=body)
            asked = 'knowgate_http_requests{state="running"} 1.0'
            program.wait_until(lambda: asked in client.get("/metrics").text)
            program.signal(signal.SIGTERM)
            reply = cut.result()
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "draining")
        assert program.wait() == 0
        assert "Traceback" not in program.err


def test_the_same_message_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, logger = 0.0, logging.getLogger("knowgate.tests.rarely")
    monkeypatch.setattr("time.monotonic", lambda: now)
    logger.addFilter(_server._rarely())
    for now in [*range(50), 61.0]:
        logger.warning("socket.accept() out of system resource\nsocket: %s", now)
    logger.warning("another one")
    told = [record.getMessage().rpartition("\n")[2] for record in caplog.records]
    assert told == ["socket: 0", "socket: 61.0 (49 more of these before)", "another one"]


def test_other_machines_need_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        with pytest.raises(InputError, match="needs a token"):
            bound_socket(host, 0, has_token=False)


@pytest.mark.enable_socket
def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen"):
            bound_socket("127.0.0.1", port, has_token=False)


def test_a_second_signal_ends_it_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app()
    server = _server.BoundedServer(app, app.state.admission, (30.0, 0.0))

    server.handle_exit(signal.SIGTERM, None)
    assert app.state.admission.draining
    server.handle_exit(signal.SIGTERM, None)  # of the same moment: that of the process group
    assert not server.should_exit

    monkeypatch.setattr(_server, "_ONE_SIGNAL_SECONDS", -1.0)
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
