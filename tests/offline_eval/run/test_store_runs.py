"""The run store: what it refuses, and that it says so in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run import Run
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.run.table import TableSpec
from tests.support.any_rows import AnyRow

_MANIFEST: dict[str, Any] = {
    "schema_version": Manifest.SCHEMA_VERSION,
    "suite": "x",
    "settings": {"a": 1},
}
_IDS = ["1/a", "1/b", "2/a"]
_ROWS = TableSpec("rows", AnyRow, "case_id")


def _run(folder: Path, manifest: dict[str, Any] | None = None) -> Any:
    return Run.create_or_resume(folder, Manifest.model_validate(manifest or _MANIFEST))


def _write(folder: Path, rows: int = 3, manifest: dict[str, Any] | None = None) -> None:
    with _run(folder, manifest) as run:
        table = run[_ROWS]
        table.require_order(_IDS)
        for name in _IDS[len(table.done) : rows]:
            table.append({"case_id": name, "text": "ä\u2028“"})


def test_rows_come_back_in_order_one_line_each(tmp_path: Path) -> None:
    _write(tmp_path / "run")

    lines = (tmp_path / "run" / "rows.jsonl").read_bytes().split(b"\n")

    assert [json.loads(line)["case_id"] for line in lines[:-1]] == _IDS
    assert lines[-1] == b""
    assert Manifest.read_raw(tmp_path / "run") == _MANIFEST


@pytest.mark.parametrize("name", ["notes.txt", "questions.jsonl", "rows.jsonl", "calibration.json"])
def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine\n", encoding="utf-8")

    with pytest.raises(InputError, match="holds no run") as caught:
        _write(tmp_path)

    assert name in str(caught.value)
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [
        (name, "mine\n")
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"settings": {"a": 2}}, "settings.a"),
        ({"settings": {"a": 1, "b": None, "c": 1}}, "settings.c"),
        ({"suite": "y"}, "suite"),
        ({"more": 1}, "more"),
    ],
)
def test_another_run_is_refused_and_what_differs_is_named(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    _write(tmp_path, rows=1)
    before = (tmp_path / "rows.jsonl").read_bytes()

    with pytest.raises(InputError, match=rf"another run \(its {named} differs\)"):
        _write(tmp_path, manifest={**_MANIFEST, **change})

    assert (tmp_path / "rows.jsonl").read_bytes() == before
    assert Manifest.read_raw(tmp_path) == _MANIFEST
