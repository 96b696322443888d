"""The store of rows: whole rows, each once, for one process alone."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run import StoreKind, open_store, stored_rows
from knowgate.offline_eval.run._table import UnstorableRowError

_KINDS = get_args(StoreKind)
_either = pytest.mark.parametrize("kind", _KINDS)


def _rows(stem: Path) -> list[dict[str, Any]]:
    return [row for _, row in stored_rows(stem)]


@_either
def test_rows_come_back_as_they_were_in_order_and_with_their_place(
    tmp_path: Path, kind: StoreKind
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "b\n\u2028ä", "x": [1, 2.5, None]},
        {"id": "a\0", "text": "half \ud800 “”"},
    ]

    with open_store(tmp_path / "new" / "replies", key="id", kind=kind) as store:
        for row in rows:
            store.append(row)
        assert list(store.done) == ["b\n\u2028ä", "a\0"]

    path = tmp_path / "new" / f"replies.{kind}"
    assert stored_rows(tmp_path / "new" / "replies") == [
        (f"{path}:1", rows[0]),
        (f"{path}:2", rows[1]),
    ]
    assert list(path.parent.iterdir()) == [path]


@_either
def test_a_store_goes_on_where_it_ended(tmp_path: Path, kind: StoreKind) -> None:
    for name in "abc":
        with open_store(tmp_path / "rows", key="id", kind=kind) as store:
            store.append({"id": name})
            assert name in store.done

    assert [row["id"] for row in _rows(tmp_path / "rows")] == ["a", "b", "c"]


def test_where_nothing_was_stored_there_are_no_rows(tmp_path: Path) -> None:
    assert stored_rows(tmp_path / "nothing" / "here") == []


@_either
def test_a_store_without_rows_has_none(tmp_path: Path, kind: StoreKind) -> None:
    with open_store(tmp_path / "rows", key="id", kind=kind):
        assert stored_rows(tmp_path / "rows") == []
    (tmp_path / f"rows.{kind}").write_bytes(b"")  # killed before the first sync

    assert stored_rows(tmp_path / "rows") == []
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:
        assert not store.done


@_either
def test_no_key_is_stored_twice(tmp_path: Path, kind: StoreKind) -> None:
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:
        store.append({"id": "a", "x": 1})
        with pytest.raises(ValueError, match="'a' is in the store already"):
            store.append({"id": "a", "x": 2})
    with (
        open_store(tmp_path / "rows", key="id", kind=kind) as store,
        pytest.raises(ValueError, match="'a' is in the store already"),
    ):
        store.append({"id": "a", "x": 3})

    assert _rows(tmp_path / "rows") == [{"id": "a", "x": 1}]


@_either
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
    tmp_path: Path, kind: StoreKind, row: dict[Any, Any]
) -> None:
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:
        store.append({"id": "a"})
        with pytest.raises(UnstorableRowError):
            store.append(row)
        store.append({"id": "b"})

    assert _rows(tmp_path / "rows") == [{"id": "a"}, {"id": "b"}]


@_either
def test_a_closed_store_takes_nothing(tmp_path: Path, kind: StoreKind) -> None:
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:
        pass

    with pytest.raises(ValueError, match="closed"):
        store.append({"id": "a"})


@_either
def test_rows_of_many_threads_are_all_there_once(tmp_path: Path, kind: StoreKind) -> None:
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:

        def append(thread: int) -> None:
            for number in range(20):
                store.append({"id": f"{thread}/{number}"})

        threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = [row["id"] for row in _rows(tmp_path / "rows")]
    assert sorted(found) == sorted(f"{t}/{n}" for t in range(8) for n in range(20))


@_either
def test_what_was_handed_over_is_on_disk_when_the_store_is_closed(
    tmp_path: Path, kind: StoreKind
) -> None:
    def break_off() -> None:
        with open_store(tmp_path / "rows", key="id", kind=kind) as store:
            for number in range(100):
                store.submit({"id": str(number)})
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        break_off()

    assert len(_rows(tmp_path / "rows")) == 100


@pytest.mark.parametrize(("kind", "other"), [_KINDS, _KINDS[::-1]])
def test_a_store_of_the_other_kind_is_refused(
    tmp_path: Path, kind: StoreKind, other: StoreKind
) -> None:
    with open_store(tmp_path / "rows", key="id", kind=other) as store:
        store.append({"id": "a"})

    with (
        pytest.raises(InputError, match=f"stored as {other}, not as {kind}.*--store {other}"),
        open_store(tmp_path / "rows", key="id", kind=kind),
    ):
        pass

    assert [path.suffix for path in tmp_path.iterdir()] == [f".{other}"]


def test_two_stores_of_the_same_rows_are_not_guessed_between(tmp_path: Path) -> None:
    for kind in _KINDS:
        with open_store(tmp_path / kind / "rows", key="id", kind=kind) as store:
            store.append({"id": "a"})
    (tmp_path / "sqlite" / "rows.sqlite").rename(tmp_path / "jsonl" / "rows.sqlite")

    with pytest.raises(InputError, match="two stores of the same rows"):
        stored_rows(tmp_path / "jsonl" / "rows")
    with (
        pytest.raises(InputError, match="two stores of the same rows"),
        open_store(tmp_path / "jsonl" / "rows", key="id"),
    ):
        pass


@_either
def test_a_second_writer_is_refused_while_readers_are_not(tmp_path: Path, kind: StoreKind) -> None:
    program = (
        "import sys\n"
        "from knowgate.offline_eval.run import open_store\n"
        "with open_store(sys.argv[1], key='id', kind=sys.argv[2]): pass\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "rows")]
    with open_store(tmp_path / "rows", key="id", kind=kind) as store:
        store.append({"id": "a"})
        assert _rows(tmp_path / "rows") == [{"id": "a"}]
        for tried in _KINDS:
            refused = subprocess.run(
                [*command, tried], check=False, capture_output=True, text=True, timeout=60
            )
            assert "InputError" in refused.stderr
            assert "another process is writing" in refused.stderr

    subprocess.run([*command, kind], check=True, timeout=60)


def test_a_line_that_a_kill_cut_off_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "te', encoding="utf-8")

    assert _rows(tmp_path / "rows") == [{"id": "a"}]
    with open_store(tmp_path / "rows", key="id") as store:
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
        stored_rows(tmp_path / "rows")
    with pytest.raises(InputError, match=words), open_store(tmp_path / "rows", key="id"):
        pass

    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a"}', r"rows\.jsonl:2: id 'a' stands here a second time"),
        ('{"name": "b"}', r"rows\.jsonl:2: field 'id' is missing"),
    ],
)
def test_rows_that_cannot_be_told_apart_are_named(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "rows.jsonl").write_text(f'{{"id": "a"}}\n{line}\n', encoding="utf-8")

    with pytest.raises(InputError, match=words), open_store(tmp_path / "rows", key="id"):
        pass


def test_a_damaged_row_of_a_database_is_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "rows", key="id", kind="sqlite") as store:
        store.append({"id": "a"})
        store.append({"id": "b"})
    with sqlite3.connect(tmp_path / "rows.sqlite") as connection:
        connection.execute("UPDATE rows SET row = '{' WHERE key = 'b'")
    connection.close()

    with pytest.raises(InputError, match=r"rows\.sqlite:2: the row is damaged"):
        stored_rows(tmp_path / "rows")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.sqlite"
    path.write_text("mine " * 1000, encoding="utf-8")

    with pytest.raises(InputError, match="not a database of rows"):
        stored_rows(tmp_path / "rows")
    with (
        pytest.raises(InputError, match="not a database of rows"),
        open_store(tmp_path / "rows", key="id", kind="sqlite"),
    ):
        pass

    assert path.read_text(encoding="utf-8") == "mine " * 1000


_FULL_DISK = """
import json, resource, sys
from knowgate.guard import InputError
from knowgate.offline_eval.run import open_store
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
told = []
with open_store(sys.argv[1], key="id", kind=sys.argv[2]) as store:
    try:
        for number in range(100):
            store.append({"id": str(number), "text": "x" * 1000})
            told.append(str(number))
    except InputError as error:
        message = str(error)
    try:
        store.append({"id": "later"})
    except InputError as error:
        assert str(error) == message
print(json.dumps({"told": told, "message": message}))
"""


@_either
def test_a_full_disk_is_one_clear_error_and_what_was_stored_stays(
    tmp_path: Path, kind: StoreKind
) -> None:
    stem = tmp_path / "rows"
    command = [sys.executable, "-c", _FULL_DISK, str(stem), kind]

    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    said = json.loads(done.stdout)
    assert f"rows.{kind}: cannot be written (" in said["message"]
    assert "it goes on after the last whole row" in said["message"]
    assert 0 < len(said["told"]) < 100
    assert [row["id"] for row in _rows(stem)] == said["told"]
    with open_store(stem, key="id", kind=kind) as store:
        store.append({"id": "later"})
    assert [row["id"] for row in _rows(stem)] == [*said["told"], "later"]


@_either
def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path, kind: StoreKind) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / f"taken.{kind}").mkdir()

    for stem in (tmp_path / "file" / "rows", tmp_path / "taken"):
        with (
            pytest.raises(InputError, match="cannot be written"),
            open_store(stem, key="id", kind=kind),
        ):
            pass

    assert not [name for name in os.listdir(tmp_path) if name.endswith(".lock")]


@_either
@pytest.mark.parametrize("how", ["removed", "moved", "folder"])
def test_a_store_that_is_gone_under_way_takes_no_further_row(
    tmp_path: Path, kind: StoreKind, how: str
) -> None:
    folder = tmp_path / "run"
    path = folder / f"rows.{kind}"

    with open_store(folder / "rows", key="id", kind=kind) as store:
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

    with open_store(tmp_path / "rows", key="id") as store:
        store.append({"id": "a"})
        with path.open("a", encoding="utf-8") as other:
            other.write('{"id": "theirs"}\n')

        with pytest.raises(InputError, match="somebody else has changed it"):
            store.append({"id": "b"})

    assert [row["id"] for row in _rows(tmp_path / "rows")] == ["a", "theirs"]


def test_lines_are_forced_to_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        sync(descriptor)
        forced.append(os.fstat(descriptor).st_size)

    with open_store(tmp_path / "rows", key="id") as store:
        monkeypatch.setattr(os, "fsync", noting)
        store.append({"id": "a"})
        store.append({"id": "b"})

    assert forced == [len('{"id": "a"}\n'), len('{"id": "a"}\n{"id": "b"}\n')]
