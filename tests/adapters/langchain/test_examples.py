"""The examples run as they are, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

FETCH = """
import runpy, urllib.request
server = runpy.run_path("examples/metrics.py")["main"](0)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10).read().decode())
"""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_guarded_rag_example_takes_all_routes() -> None:
    printed = run("examples/guarded_rag.py")

    assert "follow_context (sufficient_context): The library opens at nine" in printed
    assert "answer (confident_memory): Paris" in printed
    assert "abstain (neither_knows): I do not know" in printed
    assert "streamed: The library opens at nine" in printed


@pytest.mark.slow
def test_the_metrics_example_serves_and_prints_the_abstention_rate() -> None:
    printed = run("-c", FETCH)

    assert "abstention rate 0.67" in printed
    assert (
        'knowgate_decisions_total{guard="default",mode="enforce",reason="sufficient_context"'
        in printed
    )


@pytest.mark.slow
def test_the_metrics_example_ends_by_itself_without_a_terminal() -> None:
    assert "abstention rate" in run("examples/metrics.py", "0")
