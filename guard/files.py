"""Read and write files: a one-line error on bad input, never a half-written file.

Used by all packages, so that errors about files read alike. Links and special files:

- Only regular files are read; a pipe, a socket or a device is an error and is never waited for.
  The exception is what the shell hands over open: `/dev/stdin` and `/dev/fd/N`.
- A file that a user names, or one of a model, may be a link to a regular file. Files that knowgate
  looks for in a folder of runs may not (`links=False`).
- Nothing is written through a link.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from .errors import NO_JSON, InputError

AnyPath = str | os.PathLike[str]
_STANDARD_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_LINK = OSError(errno.ELOOP, "is a link")


def open_regular(path: AnyPath, flags: int = os.O_RDONLY, *, links: bool = False) -> int:
    """Open a regular file and return its descriptor, which the caller closes.

    Args:
        path: of the file.
        flags: as of `os.open`; a file that is made gets the usual permissions.
        links: whether the path may be a link to a regular file, or what the shell hands over open.

    Raises:
        OSError: as `os.open`; or it is a link, a folder, a pipe, a socket or a device.
    """
    if links and _inherited_descriptor(path) is not None:
        return os.open(path, flags | os.O_CLOEXEC)
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise _named(_LINK, path) from None
        if error.errno == errno.ENXIO:
            # A socket, or a pipe that nobody reads.
            raise _named(_NOT_REGULAR, path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise _named(_FOLDER if stat.S_ISDIR(mode) else _NOT_REGULAR, path)


_NOT_REGULAR = OSError(errno.EINVAL, "is no ordinary file")
_FOLDER = OSError(errno.EISDIR, "is a folder")


def _named(error: OSError, path: AnyPath) -> OSError:
    return OSError(error.errno, error.strerror, os.fsdecode(path))


def read_bytes(path: AnyPath, *, links: bool = True, most_bytes: int | None = None) -> bytes:
    """Read a regular file.

    Args:
        path: of the file.
        links: as for `open_regular`.
        most_bytes: reject a larger file; None reads any.

    Raises:
        OSError: as `open_regular`, or it is too large (`EFBIG`).
    """
    with os.fdopen(open_regular(path, links=links), "rb") as stream:
        if most_bytes is None:
            return stream.read()
        # Of what the shell hands over, nobody knows the size before it is read.
        if os.fstat(stream.fileno()).st_size <= most_bytes:
            content = stream.read(most_bytes + 1)
            if len(content) <= most_bytes:
                return content
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes", os.fsdecode(path))


def read_text(path: AnyPath, *, most_bytes: int | None = None, links: bool = True) -> str:
    """Read the UTF-8 text of a file, without a byte order mark.

    Args:
        path: of the file.
        most_bytes: reject a larger file without reading it; None reads any.
        links: as for `open_regular`.

    Raises:
        InputError: the file is missing, a folder, no regular file, unreadable, too large or not
            UTF-8.
    """
    where, content = os.fspath(path), b""
    try:
        content = read_bytes(path, links=links, most_bytes=most_bytes)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what, where, hint = "not UTF-8 text", f"{where}:{line}", "save the file as UTF-8"
    except OSError as error:
        unreadable = f"cannot be read ({error.strerror})", "check the permissions"
        what, hint = _FAULTS.get(error.errno or 0, unreadable)
        what = what or unreadable[0]
    except ValueError:
        # A NUL in the path.
        what, where, hint = "no such path", repr(where), "check the path"
    raise InputError(what, where=where, hint=hint)


# What an error of the system means, where it means more than itself, and what to do.
_FAULTS = {
    errno.ENOENT: ("no such file", "check the path"),
    errno.EISDIR: ("is a folder, not a file", "name a file inside it"),
    errno.EFBIG: ("", "check the path"),
    errno.EINVAL: ("", "name an ordinary file"),
    errno.ELOOP: ("", "put the file itself there"),
}


def read_json(
    path: AnyPath,
    *,
    unique: bool = False,
    most_bytes: int | None = None,
    links: bool = True,
) -> Any:
    """Read a JSON file.

    Args:
        path: of the file.
        unique: reject objects in which a key stands twice; otherwise the last one counts.
        most_bytes: reject a larger file without reading it; None reads any.
        links: as for `open_regular`.

    Raises:
        InputError: as `read_text`, or the content is not JSON (with the line).
    """
    text = read_text(path, most_bytes=most_bytes, links=links)
    where, hint = os.fspath(path), "fix the file or write it again"
    if not text.strip():
        raise InputError("the file is empty", where=where, hint="expected JSON")
    try:
        return json.loads(text, object_pairs_hook=partial(_unique, where, hint) if unique else None)
    except json.JSONDecodeError as error:
        what, where = f"broken JSON ({error.msg}, column {error.colno})", f"{where}:{error.lineno}"
    except RecursionError:
        what, hint = "JSON is nested too deeply", "flatten the file"
    except ValueError:
        # Python does not read integers of thousands of digits.
        what, hint = "a number has too many digits", "fix the file"
    raise InputError(what, where=where, hint=hint)


def read_toml(path: AnyPath) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: of the file.

    Raises:
        InputError: as `read_text`, or the content is not TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except NO_JSON as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        what, where = f"broken TOML ({detail})", os.fspath(path)
        raise InputError(what, where=where, hint="fix the file") from None


def _unique(where: str, hint: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            what = f"the key {key[:60]!r} stands twice in one object"
            raise InputError(what, where=where, hint=hint)
        found[key] = value
    return found


def read_jsonl(path: AnyPath, *, links: bool = True) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers (from 1) and objects of a JSON-lines file; blank lines are skipped.

    Args:
        path: of the file.
        links: as for `open_regular`.

    Raises:
        InputError: as `read_text`, or a line is not a JSON object.
    """
    where = os.fspath(path)
    # Not splitlines(): U+2028 and friends are legal inside JSON strings.
    for number, line in enumerate(read_text(path, links=links).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            fault = f"expected a JSON object, found {type(value).__name__}"
        except NO_JSON as error:
            fallback = "nested too deeply" if isinstance(error, RecursionError) else "a long number"
            value, fault = None, f"broken JSON ({getattr(error, 'msg', fallback)})"
        if not isinstance(value, dict):
            hint = "each line must be one JSON object"
            raise InputError(fault, where=f"{where}:{number}", hint=hint)
        yield number, value


def unwritable(path: AnyPath, error: Exception) -> InputError:
    """Return what is raised where a place cannot be written, for what a library said of it."""
    what = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return InputError(what, where=os.fsdecode(path), hint="choose another place")


@contextlib.contextmanager
def atomic_writer(path: AnyPath) -> Iterator[IO[str]]:
    """A UTF-8 text file that appears under `path` whole, or not at all.

    A file that is replaced keeps its permissions; a device, a pipe that somebody reads,
    or whatever `/dev/stdout` leads to is written to as it is. Lone surrogates, which
    UTF-8 cannot hold, are written as `\\udXXX`: inside a JSON
    string that reads back as it was.

    Raises:
        InputError: the folder cannot be made or written to, or the path is a link.
    """
    written: Path | None = None
    try:
        try:
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Replacing /dev/null by a file would be a bad surprise.
            inherited, mode = _inherited_descriptor(path), _mode(target)
            if inherited is not None:
                descriptor = os.dup(inherited)
            elif stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
                raise _named(_FOLDER if stat.S_ISDIR(mode) else _LINK, path)
            elif not stat.S_ISREG(mode):
                descriptor = _special(path)
            else:
                # The name is known before the file is there: a signal may come in between.
                written = target.parent / f".knowgate-{uuid4().hex}.tmp"
                # Not mkstemp: its files are private, where an artefact gets the usual permissions.
                descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from None
        with os.fdopen(
            descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as stream:
            yield stream
            stream.flush()
            if written is not None:
                os.fsync(stream.fileno())
        if written is not None:
            with contextlib.suppress(FileNotFoundError):
                written.chmod(stat.S_IMODE(target.stat().st_mode))
            written.replace(target)
    except BaseException:
        if written is not None:
            with contextlib.suppress(OSError):
                written.unlink()
        raise


def _special(path: AnyPath) -> int:
    """Open a device or a pipe for writing, without waiting for somebody to read it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "is a pipe or socket that nobody reads") from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _mode(path: Path) -> int:
    """The mode of what is there, links not followed; where nothing is, that of a file."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return stat.S_IFREG


def _inherited_descriptor(path: AnyPath) -> int | None:
    """The open descriptor that `/dev/stdout` and the like stand for.

    Opened anew, a log that standard output is redirected to would be overwritten.
    """
    name = os.fsdecode(path)
    if name in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[name]
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", name)
    return int(found.group(1)) if found else None


def write_text(path: AnyPath, text: str) -> None:
    """Write `text` atomically."""
    with atomic_writer(path) as stream:
        stream.write(text)


def write_json(path: AnyPath, value: Any) -> None:
    """Write `value` atomically as indented JSON; NaN and infinity are rejected."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def require_new_folder(folder: AnyPath) -> None:
    """Check that a new folder can be made, before anything that takes long.

    Raises:
        InputError: there is a file, a folder that is not empty, or no right to write.
    """
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        fault = "exists and is not an empty folder"
        raise InputError(fault, where=str(path), hint="name a new folder")
    there = path.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "cannot be written to" if there.is_dir() else "is a file, not a folder"
        raise InputError(what, where=str(there), hint="choose another place")


@contextlib.contextmanager
def new_folder(folder: AnyPath, *, last: str = "") -> Iterator[Path]:
    """Yield a folder to write in whose files are in `folder` in the end; none after an error.

    An empty folder that is there already is filled and not replaced: it may be a mount.

    Args:
        folder: new or empty.
        last: name of the file that says that the folder is complete; it is moved last.

    Raises:
        InputError: the folder cannot be made or written.
    """
    place = Path(folder).resolve()
    require_new_folder(place)
    there = place.exists()
    room = place if there else place.parent
    # The name is known before the folder is there: a signal may come in between.
    work = room / f".knowgate.{uuid4().hex}"
    try:
        try:
            room.mkdir(parents=True, exist_ok=True)
            work.mkdir(mode=0o700)
        except OSError as error:
            raise unwritable(place, error) from None
        yield work
        if there:
            for path in sorted(work.iterdir(), key=lambda one: (one.name == last, one.name)):
                path.rename(place / path.name)
        else:
            work.chmod(0o755)
            work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def file_sha256(path: AnyPath) -> str:
    """Hexadecimal sha256 of a file's bytes."""
    with os.fdopen(open_regular(path, links=True), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def text_sha256(text: str) -> str:
    """Hexadecimal sha256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def json_sha256(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Hexadecimal sha256 of a value as JSON, with sorted keys; `default` writes what JSON lacks."""
    return text_sha256(json.dumps(value, sort_keys=True, default=default))


@lru_cache
def table_beside(module: str, name: str) -> dict[str, Any]:
    """Read a TOML file that lies beside a module, or below its folder; not to be changed.

    Args:
        module: its `__file__`.
        name: of the file.
    """
    return tomllib.loads(Path(module).parent.joinpath(name).read_text("utf-8"))
