"""What happened on a Ray cluster, for all tests that ask: it is started once."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.any_rows import any_rows
from tests.support.paths import ROOT

PROGRAM = (sys.executable, "-m", "tests.offline_eval.run.ray_run")


@dataclass(frozen=True)
class RayOutcomes:
    """What the program said, and what its run with a killed worker left.

    Attributes:
        said: by the program at its end.
        rows: of the run by id.
        times_stored: how often each id stands in the store.
        times_asked: how often each item was asked.
        folder: of the program.
    """

    said: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    times_stored: Counter[str]
    times_asked: Counter[str]
    folder: Path


def ray_outcomes(temporary: pytest.TempPathFactory) -> RayOutcomes:
    """Run the program, or read what it left: once for all processes that run tests."""
    base = temporary.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "ray"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "said").exists():
            done = subprocess.run(
                [*PROGRAM, str(folder), "many"],
                cwd=ROOT,
                check=False,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            (folder / "said").write_text(done.stdout, encoding="utf-8")
    rows = any_rows(folder / "rows")
    asked = (folder / "asked").read_text(encoding="utf-8").split("\n")[:-1]
    said = (folder / "said").read_text(encoding="utf-8")
    return RayOutcomes(
        said=json.loads(said.strip().split("\n")[-1]),
        rows={row["id"]: row for row in rows},
        times_stored=Counter(row["id"] for row in rows),
        times_asked=Counter(asked),
        folder=folder,
    )
