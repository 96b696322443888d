"""Rows are bound to those before them and to their run: what was changed by accident is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run import Run
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.run.table import TableSpec
from tests.support.any_rows import AnyRow

ROWS = TableSpec("rows", AnyRow, "id")
NAMES = ("a", "b", "c", "d")


def _made(folder: Path, scorer: str = "one", names: tuple[str, ...] = NAMES) -> Path:
    manifest = Manifest.new(suite="toy", settings={"scorer": scorer})
    with Run.create_or_resume(folder, manifest) as run:
        run[ROWS].extend({"id": name, "score": 0.5} for name in names)
    return folder


def _lines(run: Path) -> list[str]:
    return (run / "rows.jsonl").read_text().splitlines(keepends=True)


CHANGES: dict[str, Callable[[list[str], list[str]], list[str]]] = {
    "an edit": lambda lines, _: [lines[0], lines[1].replace("0.5", "0.9"), *lines[2:]],
    "a row dropped": lambda lines, _: [lines[0], *lines[2:]],
    "the first row dropped": lambda lines, _: lines[1:],
    "another order": lambda lines, _: [lines[1], lines[0], *lines[2:]],
    "a row of another run": lambda lines, other: [lines[0], other[1], *lines[2:]],
    "all rows of another run": lambda _, other: other,
    "no digest": lambda lines, _: [lines[0], '{"id": "b", "score": 0.5}\n', *lines[2:]],
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_rows_that_were_changed_are_neither_read_nor_continued(tmp_path: Path, change: str) -> None:
    run, other = _made(tmp_path / "run"), _made(tmp_path / "other", "two")
    lines = CHANGES[change](_lines(run), _lines(other))
    (run / "rows.jsonl").write_text("".join(lines))

    with pytest.raises(InputError, match=r"rows\.jsonl:[12]: not the row that was stored here"):
        Run.read(run)[ROWS].rows()
    with pytest.raises(InputError, match="not the row that was stored here"):
        _made(run)
    assert _lines(run) == lines


def test_another_manifest_is_told(tmp_path: Path) -> None:
    run = _made(tmp_path / "run")
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"one"', '"two"'))
    with pytest.raises(InputError, match=r"manifest\.json was changed"):
        Run.read(run)[ROWS].rows()


@pytest.mark.parametrize("kept", range(len(NAMES)))
def test_a_run_goes_on_after_any_row_and_ends_the_same(tmp_path: Path, kept: int) -> None:
    whole = _made(tmp_path / "whole")
    run = _made(tmp_path / "run")
    lines = _lines(run)
    (run / "rows.jsonl").write_text("".join(lines[:kept]) + lines[kept][:9])
    _made(run)
    assert _lines(run) == _lines(whole)


def test_rows_written_otherwise_that_say_the_same_are_the_same(tmp_path: Path) -> None:
    run = _made(tmp_path / "run")
    rows = [json.loads(line) for line in _lines(run)]
    text = "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\r\n" for row in rows)
    (run / "rows.jsonl").write_bytes(text.encode())
    assert [row.id for row in Run.read(run)[ROWS].rows()] == list(NAMES)  # type: ignore[attr-defined]


def test_rows_that_are_removed_or_sorted_by_knowgate_stay_bound(tmp_path: Path) -> None:
    run = _made(tmp_path / "run", names=("d", "b", "a", "c"))
    with Run.create_or_resume(run, Run.read(run).manifest) as opened:
        opened[ROWS].drop(lambda row: row.id == "c")  # type: ignore[attr-defined]
        opened[ROWS].sort(["a", "b", "c", "d"])
        opened[ROWS].append({"id": "e", "score": 0.1})
    assert [row.id for row in Run.read(run)[ROWS].rows()] == ["a", "b", "d", "e"]  # type: ignore[attr-defined]


def test_a_run_of_before_is_read_and_continued_as_it_is(tmp_path: Path) -> None:
    run = _made(tmp_path / "run", names=NAMES[:2])
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["chained"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    rows = [json.loads(line) for line in _lines(run)]
    (run / "rows.jsonl").write_text(
        "".join(json.dumps({"id": row["id"], "score": row["score"]}) + "\n" for row in rows)
    )
    _made(run)
    assert "digest" not in (run / "rows.jsonl").read_text()
    assert len(Run.read(run)[ROWS].rows()) == len(NAMES)
