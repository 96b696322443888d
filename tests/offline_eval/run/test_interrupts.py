"""Ctrl-C and SIGTERM: whole rows, a prompt end, and the right exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowgate.offline_eval.run.calls import Calls
from tests.support.any_rows import any_rows, any_table

ROOT = Path(__file__).parents[3]

# Half of the calls never answer; in threads, nobody could make them.
_PROGRAM = """
import asyncio, signal, sys, time
from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import Calls
from tests.support.any_rows import any_table

def row(item):
    return {"id": str(item), "text": "x" * 1000}

async def plain(item):
    await asyncio.sleep(3600 if item % 2 else 0.001)
    return row(item)

def blocking(item):
    time.sleep(3600 if item % 2 else 0.001)
    return row(item)

async def default_threads(item):
    return await asyncio.get_running_loop().run_in_executor(None, blocking, item)

calls = {"plain": plain, "default_threads": default_threads}
stored = 0

def progress(state):
    if state.done == 20:
        print("stored", flush=True)

if sys.argv[3] == "own":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
with any_table(sys.argv[1]) as store:
    items = [2 * n for n in range(20)] + [2 * n + 1 for n in range(20)]
    failed = lambda item, error: {"id": str(item)}
    Calls(str, failed, CallLimits(max_concurrency=30), progress).run_sync(
        items, calls[sys.argv[2]], store
    )
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)]
)
@pytest.mark.parametrize(("call", "handler"), [("plain", "own"), ("default_threads", "none")])
def test_a_signal_leaves_whole_rows_and_ends_at_once(
    tmp_path: Path, call: str, handler: str, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "rows"), call, handler]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "stored\n"
        program.send_signal(number)
        # The calls that are left would take an hour.
        _, said = program.communicate(timeout=300)

    assert program.returncode == code, said
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    assert sorted(int(row["id"]) for row in any_rows(tmp_path / "rows")) == list(range(0, 40, 2))
    # The lock went with the process.
    with any_table(tmp_path / "rows"):
        pass


def test_the_handler_of_the_program_is_back_after_the_run(tmp_path: Path) -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError

    async def call(item: int) -> dict[str, str]:
        assert signal.getsignal(signal.SIGTERM) is not mine
        return {"id": str(item)}

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with any_table(tmp_path / "rows") as store:
            calls = Calls[int](str, lambda item, error: {"id": str(item)})
            totals = calls.run_sync(range(3), call, store)
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)

    assert totals.failed == 0
