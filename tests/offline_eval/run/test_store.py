"""The store of rows: whole rows, each once, for one process alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run import Run
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.run.rows import UnstorableRowError, stored_rows
from knowgate.offline_eval.run.table import TableSpec
from tests.support.any_rows import AnyRow, any_rows, any_table

ROOT = Path(__file__).parents[3]


def test_rows_come_back_as_they_were_in_order_and_with_their_place(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "b\n\u2028ä", "x": [1, 2.5, None]},
        {"id": "a\0", "text": "half \ud800 “”"},
    ]

    with any_table(tmp_path / "new" / "replies") as store:
        for row in rows:
            store.append(row)
        assert list(store.done) == ["b\n\u2028ä", "a\0"]

    path = tmp_path / "new" / "replies.jsonl"
    assert stored_rows(path) == [(f"{path}:1", rows[0]), (f"{path}:2", rows[1])]
    assert list(path.parent.iterdir()) == [path]


def test_no_key_is_stored_twice(tmp_path: Path) -> None:
    with any_table(tmp_path / "rows") as store:
        store.append({"id": "a", "x": 1})
        with pytest.raises(ValueError, match="'a' is in the table already"):
            store.append({"id": "a", "x": 2})
    with (
        any_table(tmp_path / "rows") as store,
        pytest.raises(ValueError, match="'a' is in the table already"),
    ):
        store.append({"id": "a", "x": 3})

    assert any_rows(tmp_path / "rows") == [{"id": "a", "x": 1}]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "b", "x": float("nan")},
        {"id": "b", "x": [float("inf")]},
        {"id": "b", "x": {1, 2}},
        {"id": "b", "x": 10**5000},
        {"id": "b", ("x",): 1},
        {"id": ""},
        {"id": 7},
        {"id": "\ud800"},
        {},
    ],
)
def test_what_json_cannot_hold_is_refused_before_anything_is_written(
    tmp_path: Path, row: dict[Any, Any]
) -> None:
    with any_table(tmp_path / "rows") as store:
        store.append({"id": "a"})
        with pytest.raises(UnstorableRowError):
            store.append(row)
        store.append({"id": "b"})

    assert any_rows(tmp_path / "rows") == [{"id": "a"}, {"id": "b"}]


def test_rows_of_many_threads_are_all_there_once(tmp_path: Path) -> None:
    with any_table(tmp_path / "rows") as store:

        def append(thread: int) -> None:
            for number in range(20):
                store.append({"id": f"{thread}/{number}"})

        threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = [row["id"] for row in any_rows(tmp_path / "rows")]
    assert sorted(found) == sorted(f"{t}/{n}" for t in range(8) for n in range(20))


@pytest.mark.slow
def test_a_second_writer_is_refused_while_readers_are_not(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tests.support.any_rows import any_table\n"
        "with any_table(sys.argv[1]): pass\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "rows")]
    with any_table(tmp_path / "rows") as store:
        store.append({"id": "a"})
        assert any_rows(tmp_path / "rows") == [{"id": "a"}]
        refused = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=300, cwd=ROOT
        )
        assert "InputError" in refused.stderr
        assert "another process is writing" in refused.stderr

    subprocess.run(command, check=True, timeout=300, cwd=ROOT)


def test_a_line_that_a_kill_cut_off_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "te', encoding="utf-8")

    assert any_rows(tmp_path / "rows") == [{"id": "a"}]
    with any_table(tmp_path / "rows") as store:
        store.append({"id": "b"})

    assert path.read_text(encoding="utf-8") == '{"id": "a"}\n{"id": "b"}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id": "b"', r"rows\.jsonl:2: the row is damaged \(broken JSON\)"),
        (b'{"id": "\xff"}', r"rows\.jsonl:2: the row is damaged \(not UTF-8\)"),
        (b"\0" * 20, r"rows\.jsonl:2: the row is damaged"),
        (b"[1]", r"rows\.jsonl:2: expected a JSON object, found list"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_changed(
    tmp_path: Path, line: bytes, words: str
) -> None:
    path = tmp_path / "rows.jsonl"
    content = b'{"id": "a"}\n' + line + b'\n{"id": "c"}\n{"id": "cut o'
    path.write_bytes(content)

    with pytest.raises(InputError, match=words):
        TableSpec("rows", AnyRow, "id").read(tmp_path)
    with pytest.raises(InputError, match=words), any_table(tmp_path / "rows"):
        pass

    assert path.read_bytes() == content


_FULL_DISK = """
import json, resource, sys
from knowgate.guard import InputError
from tests.support.any_rows import any_table
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
told = []
with any_table(sys.argv[1]) as store:
    try:
        for number in range(100):
            store.append({"id": str(number), "text": "x" * 1000})
            told.append(str(number))
    except InputError as error:
        message = str(error)
print(json.dumps({"told": told, "message": message}))
"""


@pytest.mark.slow
def test_a_full_disk_is_one_clear_error_and_what_was_stored_stays(tmp_path: Path) -> None:
    stem = tmp_path / "rows"
    command = [sys.executable, "-c", _FULL_DISK, str(stem)]

    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300, cwd=ROOT
    )

    said = json.loads(done.stdout)
    assert "rows.jsonl: cannot be written (" in said["message"]
    assert "it goes on after the last whole row" in said["message"]
    assert 0 < len(said["told"]) < 100
    assert [row["id"] for row in any_rows(stem)] == said["told"]
    with any_table(stem) as store:
        store.append({"id": "later"})
    assert [row["id"] for row in any_rows(stem)] == [*said["told"], "later"]


@pytest.mark.parametrize("how", ["removed", "moved", "folder"])
def test_a_store_that_is_gone_under_way_takes_no_further_row(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    path = folder / "rows.jsonl"

    with any_table(folder / "rows") as store:
        store.append({"id": "a"})
        if how == "removed":
            path.unlink()
        elif how == "moved":
            path.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(folder)

        with pytest.raises(InputError, match="cannot be written"):
            store.append({"id": "b"})
        with pytest.raises(InputError, match="cannot be written"):
            store.append({"id": "c"})
        assert set(store.done) == {"a"}


def test_lines_that_somebody_else_appends_are_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"

    with any_table(tmp_path / "rows") as store:
        store.append({"id": "a"})
        with path.open("a", encoding="utf-8") as other:
            other.write('{"id": "theirs"}\n')

        with pytest.raises(InputError, match="somebody else has changed it"):
            store.append({"id": "b"})

    assert [row["id"] for row in any_rows(tmp_path / "rows")] == ["a", "theirs"]


def test_lines_are_forced_to_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        sync(descriptor)
        forced.append(os.fstat(descriptor).st_size)

    with any_table(tmp_path / "rows") as store:
        monkeypatch.setattr(os, "fsync", noting)
        store.append({"id": "a"})
        store.append({"id": "b"})

    assert forced == [len('{"id": "a"}\n'), len('{"id": "a"}\n{"id": "b"}\n')]


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
