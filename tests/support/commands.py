"""Programs in processes of their own that are forked from one that has imported everything.

A fresh interpreter imports for seconds before it does anything. A forked one starts at once,
and is as much a process: it has its own signals, files and exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "knowgate.offline_eval.cli._suite_command",
        "knowgate.offline_eval.suites",
        "knowgate.offline_eval.web._label",
        "knowgate.offline_eval.web._server",
        "torch",
    ]
)


class Program:
    """A call of `work` that runs beside the test; killed with the block that it is used in.

    Args:
        work: a function of a module, called with `arguments`.
        arguments: that can be pickled.
        cwd: its working directory.
        env: environment variables to set.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        # Not in the test's own folder: tests look at what is left there.
        self._folder = TemporaryDirectory()
        self._streams = [Path(self._folder.name) / name for name in ("out", "err")]
        given = (self._streams, str(cwd or Path.cwd()), dict(env or {}))
        self._process = _SERVER.Process(target=_run, args=(given, work, arguments))
        self._process.start()

    @property
    def out(self) -> str:
        """What it wrote to standard output so far."""
        return self._streams[0].read_text(encoding="utf-8") if self._streams[0].exists() else ""

    @property
    def err(self) -> str:
        """What it wrote to standard error so far."""
        return self._streams[1].read_text(encoding="utf-8") if self._streams[1].exists() else ""

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, seconds: float = 120.0) -> int:
        """Wait for the end; the exit code."""
        self._process.join(seconds)
        assert self.code is not None, f"it is still running after {seconds} s"
        return self.code

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait for `condition`, which must come true before the end."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.code is None, f"it ended too early: {self.err}"
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.002)

    def wait_for_lines(self, path: Path, count: int) -> None:
        """Wait until a file has so many whole lines."""
        self.wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= count)

    def first_line(self) -> str:
        """The first line of its standard output, once it is there."""
        self.wait_for_lines(self._streams[0], 1)
        return self.out.split("\n")[0]

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def command(*arguments: str | Path, **options: Any) -> Program:
    """Start `knowgate ARGUMENTS`; `options` are those of `Program`."""
    return Program(_knowgate, [str(argument) for argument in arguments], **options)


def _knowgate(arguments: list[str]) -> None:
    from knowgate.offline_eval.cli import main

    sys.argv = ["knowgate", *arguments]
    main()


def _run(
    given: tuple[list[Path], str, dict[str, str]],
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    streams, cwd, env = given
    for number, path in enumerate(streams, start=1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    os.environ.update(env)
    os.fsync = lambda fd: None
    work(*arguments)
