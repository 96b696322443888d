"""Connections that take places and memory of a server: idle, half a request, large bodies."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.support.commands import Program

from .outcome import Outcome, tally

_FILES = 256
_SECONDS = 10.0
# After so long a server takes no further connection.
_FULL = 0.3
_MOST_LOGGED = 20_000
_MIB = 2**20
_HEAD = (
    b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n{"
)
# What connections send that then wait.
_HALVES = {
    "nothing": b"",
    "half a line": b"POST /v1/deci",
    "half of the headers": b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le",
    "half of a body": _HEAD % 5_000,
}


def with_few_files(work: Callable[[], None]) -> None:
    """Run a server that may open 256 files; it prints an address that it answers."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    work()


def idle(
    name: str, work: Callable[[], None], count: int, halves: Mapping[str, bytes] = _HALVES
) -> Outcome:
    """Open more connections than a server has files for, again wherever it closes one.

    It gets through if the server is silent for 10 s or closes a new client's connection, or logs
    more than 20 kB.
    """

    def succeeds(sent: bytes) -> bool:
        with Program(with_few_files, work) as program:
            url = program.first_line()
            with contextlib.closing(_Crowd(url, sent, count)) as crowd:
                for _ in range(3):
                    crowd.fill()
                    if not _is_answered(url):
                        return True
            return len(program.err) > _MOST_LOGGED

    return tally(f"idle connections that silence {name}", halves.items(), succeeds)


def bodies(name: str, work: Callable[[], None], count: int, most_mib: int) -> Outcome:
    """Send bodies of 8 MiB less one byte, and count the memory that the server takes for them."""
    size = 8 * _MIB
    with Program(with_few_files, work) as program:
        url = program.first_line()
        before = _memory(program)
        with contextlib.closing(_Crowd(url, _HEAD % size + b"x" * (size - 2), count)) as crowd:
            crowd.fill()
            grown, answered = _memory(program) - before, _is_answered(url)
    through = int(grown > most_mib * _MIB or not answered)
    cases = (f"{grown // _MIB} MiB, answered: {answered}",)
    return Outcome(f"large bodies that fill the memory of {name}", count, through, cases=cases)


class _Crowd:
    """Connections to one server that all send the same and then wait."""

    def __init__(self, url: str, sent: bytes, count: int) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._sent, self._count = sent, count
        self._open: list[socket.socket] = []

    def fill(self) -> None:
        """Open as many as there should be."""
        self._open = [one for one in self._open if not _is_closed(one)]
        with contextlib.suppress(OSError):
            while len(self._open) < self._count:
                one = socket.create_connection(self._address, timeout=_FULL)
                self._open.append(one)
                with contextlib.suppress(OSError):  # rejected before it was sent
                    one.sendall(self._sent)

    def close(self) -> None:
        """Close them all."""
        for one in self._open:
            one.close()


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(65_536)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _is_answered(url: str) -> bool:
    started = time.monotonic()
    try:
        reply = httpx.get(url, timeout=_SECONDS, trust_env=False)
    except httpx.HTTPError:
        return False
    return reply.status_code < 400 and time.monotonic() - started < _SECONDS


def _memory(program: Program) -> int:
    pages = int(Path(f"/proc/{program.pid}/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


def attack(name: str, work: Callable[[], None], most_mib: int, *, full: bool) -> Iterator[Outcome]:
    """Make both attacks on one server."""
    quick = {half: _HALVES[half] for half in ("nothing", "half of a body")}
    yield idle(name, work, 400 if full else 300, _HALVES if full else quick)
    yield bodies(name, work, 100 if full else 40, most_mib)
