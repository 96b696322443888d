"""What happened on a Ray cluster, for all tests that ask: it is started once."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """

    said: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    times_stored: Counter[str]
    times_asked: Counter[str]


@functools.cache
def ray_outcomes() -> RayOutcomes:
    """Run the program; once per session, however many tests ask."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = subprocess.run(
            [*PROGRAM, str(folder), "many"],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        rows = any_rows(folder / "rows")
        asked = (folder / "asked").read_text(encoding="utf-8").split("\n")[:-1]
    return RayOutcomes(
        said=json.loads(done.stdout.strip().split("\n")[-1]),
        rows={row["id"]: row for row in rows},
        times_stored=Counter(row["id"] for row in rows),
        times_asked=Counter(asked),
    )
