"""Encoded passages on the disk: read back equal, never half a state, never a damaged vector."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Fingerprint, InputError
from knowgate.guard._byte_cache import content_key
from knowgate.guard.engine.passage_store import (
    STORE_FILE,
    EncodedText,
    PassageStore,
    PassageWriter,
    from_float16,
)
from knowgate.guard.errors import ModelFolderError

ENCODER = Fingerprint(kind="encoder", weights_sha256="a" * 64, settings={"stride": 3})


def encoded(text: str, width: int = 6) -> list[EncodedText]:
    """Windows that follow from a text."""
    random = np.random.default_rng(list(content_key(text)))
    return [
        EncodedText(
            random.integers(0, 30_000, length).astype(np.int32),
            random.normal(size=(length, width)).astype(np.float32),
            random.normal(size=4).astype(np.float32),
        )
        for length in random.integers(2, 7, random.integers(1, 4))
    ]


def passages(texts: Sequence[str]) -> dict[bytes, list[EncodedText]]:
    return {content_key(text): encoded(text) for text in texts}


def write(folder: Path, texts: Sequence[str]) -> None:
    with PassageWriter(folder, ENCODER) as writer:
        writer.append(passages(texts))
        writer.commit()


def read(folder: Path, texts: Sequence[str]) -> Mapping[bytes, list[EncodedText]]:
    return PassageStore(folder, ENCODER).found(map(content_key, texts))


def same(found: Sequence[EncodedText], expected: Sequence[EncodedText], within: float) -> bool:
    return len(found) == len(expected) and all(
        np.array_equal(one.ids, other.ids)
        and np.array_equal(one.embedding, other.embedding)
        and np.abs(one.vectors - other.vectors).max() <= within
        for one, other in zip(found, expected, strict=True)
    )


@settings(max_examples=20, deadline=None)
@given(
    parts=st.lists(st.lists(st.text(max_size=4), max_size=6), min_size=1, max_size=4),
    others=st.lists(st.text(max_size=4), max_size=4),
)
def test_any_texts_appended_in_any_parts_are_read_back_and_no_others(
    parts: list[list[str]], others: list[str]
) -> None:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for part in parts:
            write(Path(folder), part)
        store = PassageStore(folder, ENCODER)

        texts = {text for part in parts for text in part}
        found = store.found(map(content_key, [*texts, *others]))
        assert set(found) == set(map(content_key, texts))
        for text in texts:
            windows = found[content_key(text)]
            assert same(windows, encoded(text), 5e-4)
            # What is encoded where a passage is missing is rounded alike, to the last bit.
            assert same(windows, store.rounded(encoded(text)), 0.0)


def test_every_finite_float16_is_widened_to_the_same_number() -> None:
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    assert np.array_equal(from_float16(numbers), numbers.astype(np.float32))


def test_keys_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    keys = [b"\x01" * 8 + bytes([i]) * 8 for i in range(5)]
    keys += [bytes([i]) + b"\x01" * 15 for i in range(2, 200)]
    with PassageWriter(tmp_path, ENCODER) as writer:
        writer.append({key: encoded(str(i)) for i, key in enumerate(keys)})
        writer.commit()

    store = PassageStore(tmp_path, ENCODER)
    for i, key in enumerate(keys):
        assert same(store.found([key])[key], encoded(str(i)), 5e-4)
    assert store.found([b"\x01" * 8 + b"\x07" * 8]) == {}


def _killed(work: Any) -> None:
    """Run `work` in a process that is expected to be killed by it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_writer_that_is_killed_leaves_the_old_state_and_can_be_started_again(
    tmp_path: Path,
) -> None:
    write(tmp_path, ["old"])

    def work() -> None:
        with PassageWriter(tmp_path, ENCODER) as writer:
            writer.append(passages(["new", "newer"]))
            os.kill(os.getpid(), signal.SIGKILL)

    _killed(work)

    assert set(read(tmp_path, ["old", "new", "newer"])) == {content_key("old")}
    write(tmp_path, ["other", "new"])
    found = read(tmp_path, ["old", "new", "newer", "other"])
    assert set(found) == set(map(content_key, ["old", "new", "other"]))
    assert same(found[content_key("new")], encoded("new"), 5e-4)


def test_what_is_not_committed_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, ["old"])
    with PassageWriter(tmp_path, ENCODER) as writer:
        writer.append(passages(["new"]))
        assert content_key("new") in writer
    assert set(read(tmp_path, ["old", "new"])) == {content_key("old")}


def test_a_store_that_is_open_stays_as_it_is_while_another_appends(tmp_path: Path) -> None:
    write(tmp_path, ["old"])
    before = PassageStore(tmp_path, ENCODER)

    new = [f"new {i}" for i in range(50)]
    write(tmp_path, new)

    assert before.found(map(content_key, new)) == {}
    assert same(before.found([content_key("old")])[content_key("old")], encoded("old"), 5e-4)
    assert len(read(tmp_path, ["old", *new])) == 51


def test_two_writers_at_once_are_rejected(tmp_path: Path) -> None:
    with (
        PassageWriter(tmp_path, ENCODER),
        pytest.raises(InputError, match="another process is writing this store"),
    ):
        PassageWriter(tmp_path, ENCODER)
    write(tmp_path, ["afterwards"])


def test_threads_and_forked_processes_read_the_same_store(tmp_path: Path) -> None:
    texts = [f"passage {i}" for i in range(20)]
    write(tmp_path, texts)
    store = PassageStore(tmp_path, ENCODER)
    wrong: list[str] = []

    def look() -> None:
        found = ((text, store.found([content_key(text)])) for text in texts * 3)
        wrong.extend(
            text
            for text, windows in found
            if not same(windows[content_key(text)], encoded(text), 5e-4)
        )

    child = os.fork()
    if child == 0:
        try:
            look()
        finally:
            os._exit(1 if wrong else 0)
    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert wrong == []


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _overwrite(path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)


def _run(*statements: str) -> Any:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return change


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = content.index(np.array([4, 6], "<u4").tobytes())  # of a passage
    content[start + 20] ^= 1
    path.write_bytes(content)


def _about(old: str, new: str) -> Any:
    return _run(f"UPDATE about SET content = replace(content, '{old}', '{new}')")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "passages.sqlite: cannot be read"),
        (_overwrite, "passages.sqlite: cannot be read"),
        (_flip, "passages.sqlite: the vectors of a passage are not as written"),
        (_run("UPDATE passages SET vectors = 7"), "the vectors of a passage are not as written"),
        (_run("DELETE FROM about"), "passages.sqlite: Invalid JSON"),
        (_run("CREATE VIEW more AS SELECT 1"), "passages.sqlite: is no database of passages"),
        (_about("float16", "int8"), "passages.sqlite: field 'dtype'"),
        (_about('"schema_version":2', '"schema_version":3'), "schema 3 is not 2"),
        (_about('"schema_version"', '"more"'), "field 'more'"),
        (os.remove, "is no store of passages"),
    ],
)
def test_damage_is_one_line_that_names_the_command(
    damage: Any, message: str, tmp_path: Path
) -> None:
    write(tmp_path, ["a passage"])
    write(tmp_path, ["another"])
    damage(tmp_path / STORE_FILE)
    with pytest.raises(ModelFolderError, match=message) as raised:
        read(tmp_path, ["a passage", "another"])
    assert "knowgate index" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_full_disk_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, ["old"])

    with PassageWriter(tmp_path, ENCODER) as writer:
        writer._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(InputError, match=r"cannot be written \(.*full"):
            writer.append(passages([f"new {i}" for i in range(2_000)]))

    assert set(read(tmp_path, ["old", "new 1"])) == {content_key("old")}
