"""A policy serves on other processors than the one that it was calibrated on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.processors import DECIDED, NEWER, OLD

# Nearer to the threshold than this a decision may flip.
NEAR = 1e-4


def done(action: str, folder: Path, processor: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.processors", action, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **processor}
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
    found = (folder / DECIDED.format(action)).read_text(encoding="utf-8")
    return json.loads(found)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_policy_calibrated_on_one_processor_decides_alike_on_another(tmp_path: Path) -> None:
    before, after = done("calibrate", tmp_path, OLD), done("serve", tmp_path, NEWER)

    assert before["scorer"] == after["scorer"]
    threshold = before["threshold"]
    assert len(before["decisions"]) == len(after["decisions"]) == 300
    assert {route for route, _, _ in before["decisions"]} == {"follow_context", "abstain"}
    for (route, relevance, _), (then, value, _) in zip(
        before["decisions"], after["decisions"], strict=True
    ):
        assert value == pytest.approx(relevance, abs=NEAR)
        assert then == route or abs(relevance - threshold) < NEAR
