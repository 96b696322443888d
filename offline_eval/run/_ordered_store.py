"""A run folder: a manifest, and rows appended one by one so that a kill loses nothing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ...guard.errors import InputError
from ...guard.files import read_jsonl, write_json
from ._manifest import holds_run


class RunStore:
    """The rows of one run, in a fixed order, each written and synced once.

    Opening a folder that holds the same run continues it after its last whole
    row; a row cut off by a kill is dropped. A folder with another run, or with
    anything else in it, is refused. The store is locked while open.

    Args:
        folder: of the run; made if missing.
        manifest: what the run is: settings, hashes of inputs, versions. A run is
            the same one when all of it but `created_by` is equal.
        case_ids: all rows' ids in order.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(
        self, folder: str | os.PathLike[str], manifest: Mapping[str, Any], case_ids: Sequence[str]
    ) -> None:
        self._folder = Path(folder)
        self._manifest = dict(manifest)
        self._case_ids = list(case_ids)
        self._rows_path = self._folder / "rows.jsonl"
        self._manifest_path = self._folder / "manifest.json"
        self._stream: Any = None
        self.done = 0

    def __enter__(self) -> RunStore:
        self._make_folder()
        try:
            self._stream = self._rows_path.open("ab")
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._lock()
            # Under the lock: of two processes that start at once, one gives the manifest.
            if not holds_run(self._folder, self._manifest, own=[self._rows_path.name]):
                write_json(self._manifest_path, self._manifest)
            self.done = self._whole_rows()
        except BaseException:
            self._stream.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stream.close()
        except OSError:
            # Closing writes what a failed append left over: its own error says more.
            if error is None:
                raise

    def append(self, row: Mapping[str, Any]) -> None:
        """Write the next row and force it to disk.

        Raises:
            ValueError: it is not the row that comes next.
        """
        expected = self._case_ids[self.done]
        if row["case_id"] != expected:
            raise ValueError(f"row {row['case_id']!r} where {expected!r} comes next")
        line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._stream.write(line.encode("utf-8"))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise self._unwritable(error) from None
        self.done += 1

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # A kill before the manifest was written leaves these.
            empty = self._rows_path.is_file() and self._rows_path.stat().st_size == 0
        except OSError as error:
            raise InputError(
                f"cannot be used as a run folder ({error.strerror})",
                where=str(self._folder),
                hint="choose another --out",
            ) from None
        holds_run(self._folder, self._manifest, own=[self._rows_path.name] if empty else [])

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another process is writing this run",
                where=str(self._folder),
                hint="wait for it, or choose another folder",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(
            f"cannot be written ({error.strerror})",
            where=str(self._rows_path),
            hint="fix that and start again, it goes on where it stopped; or choose another --out",
        )

    def _whole_rows(self) -> int:
        content = self._rows_path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._stream.truncate(whole)
            self._stream.seek(0, os.SEEK_END)
        count = 0
        for number, row in read_jsonl(self._rows_path):
            if count >= len(self._case_ids) or row.get("case_id") != self._case_ids[count]:
                raise InputError(
                    "the row is not the one that belongs here",
                    where=f"{self._rows_path}:{number}",
                    hint="remove the run folder and start again",
                )
            count += 1
        return count


@contextlib.contextmanager
def open_run(
    folder: str | os.PathLike[str], manifest: Mapping[str, Any], case_ids: Sequence[str]
) -> Iterator[RunStore]:
    """A `RunStore` as a context manager; see there."""
    with RunStore(folder, manifest, case_ids) as store:
        yield store
