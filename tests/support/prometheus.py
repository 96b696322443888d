"""A real Prometheus, where the Debian package `prometheus` is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_PROMTOOL, _PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
needs_promtool = pytest.mark.skipif(_PROMTOOL is None, reason="promtool is not installed")
needs_prometheus = pytest.mark.skipif(_PROMETHEUS is None, reason="prometheus is not installed")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `promtool ARGUMENTS`."""
    assert _PROMTOOL is not None
    return subprocess.run(
        [_PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


class Prometheus:
    """A server that scrapes one target."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self._url, self._process, self._log = f"http://127.0.0.1:{port}", process, log

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the API; raises for an error."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def value(self, expr: str) -> float | None:
        """The value of the only sample of an expression; None where there is none."""
        found = self.get("query", query=expr)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for `condition`, which may fail while the server starts."""
        ends = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < ends, f"not within {seconds} s: {self._log.read_text()}"
            time.sleep(0.02)


@contextmanager
def prometheus(folder: Path, target: str, rules: str) -> Iterator[Prometheus]:
    """A server on a free port that scrapes `target` five times a second.

    Args:
        folder: for its configuration and data.
        target: host and port.
        rules: the text of a file of rules, evaluated as often.
    """
    assert _PROMETHEUS is not None
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    settings = {
        "global": {
            "scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms",
        },
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "faq", "static_configs": [{"targets": [target]}]}],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                _PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}", "--enable-feature=exemplar-storage",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
            ],
            stdout=stream, stderr=stream,
        )  # fmt: skip
    try:
        yield Prometheus(port, process, log)
    finally:
        process.kill()
        process.wait()
