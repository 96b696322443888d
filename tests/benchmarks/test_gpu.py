"""The script for a GPU, on a CPU and as small as it gets."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.paths import BENCHMARKS


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("benchmarks_gpu", BENCHMARKS / "gpu.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(script: ModuleType, out: Path, *sections: str) -> tuple[int, dict[str, Any]]:
    given = ["--device", "cpu", "--size", "tiny", "--in-process", "--out", str(out)]
    status = script.main([*given, "--only", *sections])
    return status, json.loads((out / "gpu.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_checks_hold_on_a_cpu(script: ModuleType, tmp_path: Path) -> None:
    status, report = run(script, tmp_path, "parity", "threads", "memory", "sampling")
    sections = report["sections"]
    assert {name: one["error"] for name, one in sections.items()} == dict.fromkeys(sections)
    checks = [(what, one) for part in sections.values() for what, one in part["checks"].items()]
    assert [what for what, one in checks if not one["holds"]] == []
    assert len(checks) >= 9
    assert status == 0
    assert sections["memory"]["found"]["without memory"] == "scored"
    table = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert "| threads | threads get their own scores |" in table
    assert "transformers.generate" in table


def test_a_section_that_fails_is_reported_and_the_rest_goes_on(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("no kernel image")

    def check(run: Any) -> None:
        run.check("a number", 1.0, 2.0)
        run.check("no number", float("nan"), 2.0)

    monkeypatch.setitem(script.SECTIONS, "machine", (fail, 0.1))
    monkeypatch.setitem(script.SECTIONS, "threads", (check, 0.1))
    status, report = run(script, tmp_path, "machine", "threads")
    assert status == 1
    assert report["sections"]["machine"]["error"] == "RuntimeError: no kernel image"
    checks = report["sections"]["threads"]["checks"]
    assert [one["holds"] for one in checks.values()] == [True, False]
    assert "no kernel image" in (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert {"date", "device", "versions"} <= report["about"].keys()


def test_a_section_that_hangs_or_dies_is_ended(script: ModuleType, tmp_path: Path) -> None:
    def hang(_: Any) -> None:
        threading.Event().wait()

    def die(_: Any) -> None:
        os._exit(3)

    run = script.Run("cpu", True, tmp_path, 0.0)
    for work, seconds, error in ((hang, 0.05, "not done after 0 s"), (die, 60.0, "status 3")):
        script.SECTIONS["threads"] = (work, 0.1)
        assert error in script.run_apart("threads", run, seconds)["error"]
    script.SECTIONS["threads"] = (lambda run: run.check("one", 1.0, 1.0), 0.1)
    found = script.run_apart("threads", run, 60.0)
    assert found["error"] is None
    assert found["checks"]["one"]["holds"]


def test_sections_fit_into_nine_minutes(script: ModuleType) -> None:
    assert sum(minutes for _, minutes in script.SECTIONS.values()) <= 9.01
    assert script.arguments([]).minutes == 9
