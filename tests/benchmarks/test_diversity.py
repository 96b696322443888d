"""`benchmarks/diversity.py`, which is a script and no package."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import BENCHMARKS

MODULES = ("diversity", "overhead")


@pytest.fixture(scope="module")
def diversity() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("diversity")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_one_command_compares_and_measures(
    diversity: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "figures.json"
    sizes = ["--compare", "60", "--sizes", "--nearest", "--json", str(path)]
    monkeypatch.setattr("sys.argv", ["diversity.py", *sizes])

    diversity.main()

    figures = json.loads(path.read_text(encoding="utf-8"))
    whole, part = figures["compared"]
    assert whole["same"]
    assert part["same"]
    assert whole["kept"] == 60 > part["kept"] > 1
    assert "same" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["meaning", "keywords", "nearest"])
def test_a_job_tells_its_cost(diversity: Any, what: str) -> None:
    found = diversity.measure(what, 50)

    assert found["items"] == found["kept"] == 50
    assert found["cpu_seconds"] > 0
    assert found["peak_mib"] > 10


def test_what_is_measured_is_told_for_each_set(diversity: Any, shared_data: Path) -> None:
    rows = diversity.what_is_measured(shared_data, None)

    assert [(row["questions"], row["n"]) for row in rows] == [
        ("XQuAD en", 612),
        ("BTT", 55),
        ("CPF", 112),
    ]
    assert all(row["ours_copy"] == 0.0 < row["original_copy"] for row in rows)
