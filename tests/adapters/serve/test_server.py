"""A real server: streams as they arrive, and the end after SIGTERM."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from knowgate.adapters.serve import _connections, _server, bound_socket, serve
from knowgate.guard import InputError
from tests.adapters.serve.service import GOOD, Model, chat, chunk, make_app
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
    _connections.HEADER_SECONDS = float(header_seconds)
    _serve("")


def _half_requests(port: int, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        found.append(socket.create_connection(("127.0.0.1", port)))
        found[-1].sendall(b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
    return found


@pytest.mark.slow
@pytest.mark.enable_socket
def test_connections_that_ask_nothing_keep_nobody_out() -> None:
    with Program(_serve_with_few_files, "600") as program:
        port = int(program.first_line())
        idle = _half_requests(port, 300)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as one:
            assert one.get("/healthz").status_code == 200
            assert one.post("/v1/decide", json={"question": "q"}).status_code == 200
            # Its place is taken while it waits, and it gets another one.
            idle += _half_requests(port, 300)
            assert one.get("/healthz").status_code == 200
        for connection in idle:
            connection.close()


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
    server = _server._Server(uvicorn.Config(app), app.state.admission, 30.0, 0.0)

    server.handle_exit(signal.SIGTERM, None)
    assert app.state.admission.draining
    server.handle_exit(signal.SIGTERM, None)  # of the same moment: that of the process group
    assert not server.should_exit

    monkeypatch.setattr(_server, "_ONE_SIGNAL_SECONDS", -1.0)
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
