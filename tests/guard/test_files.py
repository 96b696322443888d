"""Artefacts are read with one clear line on bad input, and written whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from knowgate.guard import InputError, files
from knowgate.guard.files import (
    atomic_writer,
    new_folder,
    read_json,
    read_jsonl,
    read_text,
    require_new_folder,
    write_json,
    write_text,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_byte_order_mark_is_dropped(file: Path) -> None:
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    assert read_text(file) == '{"a": 1}\n'
    assert read_json(file) == {"a": 1}
    assert list(read_jsonl(file)) == [(1, {"a": 1})]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_line_separators_inside_a_string_do_not_end_the_line(file: Path, separator: str) -> None:
    text = json.dumps({"a": "b"}, ensure_ascii=False).replace("b", f"x{separator}y")
    if separator < " ":
        text = json.dumps({"a": f"x{separator}y"})
    file.write_text(text + '\n{"c": 1}\n', encoding="utf-8")
    assert list(read_jsonl(file)) == [(1, {"a": f"x{separator}y"}), (2, {"c": 1})]


@pytest.mark.parametrize(
    "line",
    ["{", "nonsense", "[1]", "1", "null", '"text"', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"],
)
def test_a_line_that_is_no_object_is_refused_with_its_number(file: Path, line: str) -> None:
    file.write_text('{"a": 1}\n\n' + line + "\n")
    with pytest.raises(InputError) as raised:
        list(read_jsonl(file))
    assert raised.value.where == f"{file}:3"
    assert "\n" not in str(raised.value)
    assert raised.value.hint


def test_text_that_is_not_utf8_is_refused_with_its_line(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n\xff\n")
    with pytest.raises(InputError, match="not UTF-8") as raised:
        read_text(file)
    assert raised.value.where == f"{file}:3"


readers: list[Callable[[Any], object]] = [read_text, read_json, lambda path: list(read_jsonl(path))]


@pytest.mark.parametrize("read", readers)
def test_a_path_that_leads_nowhere_is_refused(
    tmp_path: Path, read: Callable[[Any], object]
) -> None:
    (tmp_path / "plain").write_text("x")
    nowhere = [tmp_path, tmp_path / "none", tmp_path / "plain" / "x", "a\0b", "n" * 5000, ""]
    for path in nowhere:
        with pytest.raises(InputError):
            read(path)


def test_a_file_appears_whole_with_its_folders(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folders" / "file.json"
    write_json(target, {"ü": [1, 0.1]})
    assert target.read_bytes() == '{\n  "ü": [\n    1,\n    0.1\n  ]\n}\n'.encode()
    assert [p.name for p in target.parent.iterdir()] == ["file.json"]


def _write_and_fail(path: Path, error: type[BaseException]) -> None:
    with atomic_writer(path) as stream:
        stream.write("new")
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_while_writing_leaves_the_old_file_and_no_other(
    file: Path, error: type[BaseException]
) -> None:
    write_text(file, "old")
    with pytest.raises(error):
        _write_and_fail(file, error)
    assert file.read_text() == "old"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(
    file: Path, value: object
) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_json(file, {"a": value})
    assert list(file.parent.iterdir()) == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    for _ in ("a link to nothing", "a link to a file"):
        with pytest.raises(InputError, match=r"cannot be written \(is a link\)"):
            write_text(link, "text")
        assert link.is_symlink()
        assert not real.exists() or real.read_text() == "as it was"
        real.write_text("as it was")
    assert set(tmp_path.iterdir()) == {real, link}


def test_a_link_that_a_user_names_is_read_and_one_in_a_run_is_not(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "real").write_text("text")
    link.symlink_to("real")
    assert read_text(link) == "text"
    with pytest.raises(InputError, match="is a link"):
        read_text(link, links=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("links", [True, False])
def test_a_pipe_a_socket_and_a_device_are_not_read_and_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for path in ("pipe", "socket", "/dev/zero"):
            with pytest.raises(InputError, match="is no ordinary file"):
                read_text(path, links=links)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(InputError, match="cannot be written"):
        write_text(file, "text")


def test_what_the_shell_hands_over_open_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"a": 1}')
    os.close(writer)
    try:
        assert read_json(f"/dev/fd/{reader}") == {"a": 1}
    finally:
        os.close(reader)


def test_a_larger_file_is_rejected(file: Path) -> None:
    file.write_text("four")
    assert read_text(file, most_bytes=4) == "four"
    with pytest.raises(InputError, match="more than 3 bytes"):
        read_text(file, most_bytes=3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_not_replaced(file: Path) -> None:
    # A pipe of the test's own: no device of the machine is put at risk.
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(file, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(file.stat().st_mode)
    assert list(file.parent.iterdir()) == [file]


def test_what_an_open_descriptor_leads_to_is_continued_not_replaced(file: Path) -> None:
    with file.open("w", encoding="utf-8") as log:
        log.write("before\n")
        log.flush()
        write_text(f"/dev/fd/{log.fileno()}", "written\n")
        log.write("after\n")
    assert file.read_text(encoding="utf-8") == "before\nwritten\nafter\n"
    assert list(file.parent.iterdir()) == [file]


def test_a_new_file_has_the_usual_permissions_and_a_replaced_one_keeps_its_own(file: Path) -> None:
    plain = file.parent / "plain"
    plain.touch()
    write_text(file, "new")
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    file.chmod(0o600)
    write_text(file, "newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    for path in (tmp_path, tmp_path / "plain" / "x", tmp_path / ("n" * 300 + "/x"), "a\0b"):
        with pytest.raises(InputError, match="cannot be written"):
            write_text(path, "x")


def test_the_longest_name_that_the_disk_takes_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("名" * 85)
    write_text(target, "text")
    assert list(tmp_path.iterdir()) == [target]


def test_lone_surrogates_survive_a_round_trip_through_json(file: Path) -> None:
    value = {"a": "x\ud800y", "b": "😀"}
    write_json(file, value)
    assert read_json(file) == value


def test_an_empty_folder_is_filled_and_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.mkdir()
    inode = place.stat().st_ino
    with new_folder(place, last="tuning.json") as work:
        # Others beside it may not be writable.
        assert [path.name for path in tmp_path.iterdir()] == ["mount"]
        (work / "sufficiency.json").write_text("{}", encoding="utf-8")
        (work / "tuning.json").write_text("{}", encoding="utf-8")
    assert sorted(path.name for path in place.iterdir()) == ["sufficiency.json", "tuning.json"]
    assert place.stat().st_ino == inode


@pytest.mark.parametrize("there", [True, False])
def test_an_interrupted_folder_leaves_nothing(tmp_path: Path, there: bool) -> None:
    place = tmp_path / "out"
    if there:
        place.mkdir()

    def interrupted() -> None:
        with new_folder(place, last="tuning.json") as work:
            (work / "sufficiency.json").write_text("{}", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.rglob("*")] == (["out"] if there else [])


def test_a_new_folder_has_nothing_in_it_and_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    require_new_folder(tmp_path / "new" / "one")

    with pytest.raises(InputError, match="is not an empty folder"):
        require_new_folder(tmp_path)
    with pytest.raises(InputError, match="is a file, not a folder"):
        require_new_folder(tmp_path / "file" / "one")


@pytest.mark.parametrize("make", [atomic_writer, new_folder])
def test_a_signal_at_any_moment_leaves_the_whole_or_nothing(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A handler that raises, as that of SIGTERM does, after every bytecode in turn."""
    left: set[tuple[str, ...]] = set()
    for moment in itertools.count(1):
        place = tmp_path / str(moment)
        place.mkdir()
        finished = _interrupted_at(moment, lambda: _fill(make, place / "whole"))  # noqa: B023
        left.add(tuple(sorted(path.name for path in place.iterdir())))
        if finished:
            break

    assert left == {(), ("whole",)}


def _fill(make: Callable[[Path], Any], path: Path) -> None:
    with make(path) as place:
        if isinstance(place, Path):
            (place / "inside").write_text("text")


def _interrupted_at(moment: int, work: Callable[[], None]) -> bool:
    """Run `work` until that many of our own bytecodes are done; whether it came to its end."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in (files.__file__, contextlib.__file__):
            return None
        if not frame.f_trace_opcodes:
            frame.f_trace_opcodes = True
            sys.settrace(trace)  # from Python 3.12 on, what is traced is decided here
        if event == "opcode":
            count += 1
            if count == moment:
                raise SystemExit
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except SystemExit:
        return False
    finally:
        sys.settrace(before)
    return True
