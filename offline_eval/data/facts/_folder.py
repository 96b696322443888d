"""The folder of a built knowledge base."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ....guard.errors import InputError
from ....guard.files import atomic_writer, write_json
from ...run import SCHEMA_VERSION, TableSpec, read_table, read_versioned, sole_writer
from ._artefacts import CallRow, Stage

HOLDS = "built_knowledge_base"
_HINT = "choose another --out"


class BuildFolder:
    """`documents.jsonl`, `sentences.jsonl`, `facts.jsonl`, `questions.jsonl`,
    `failures.jsonl`, `manifest.json`, and below `calls` what models have answered.

    Args:
        root: of the folder; nothing is made yet.

    Raises:
        InputError: there is something else, or a newer knowgate wrote it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._check()

    def _check(self) -> None:
        where = str(self.root)
        try:
            present = sorted(item.name for item in self.root.iterdir())
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise InputError("is a file, not a folder", where=where, hint=_HINT) from None
        except OSError as error:
            raise InputError(
                f"cannot be used ({error.strerror})", where=where, hint=_HINT
            ) from None
        manifest = self.root / "manifest.json"
        if manifest.exists():
            value = read_versioned(manifest, hint=_HINT)
            if value.get("holds") == HOLDS:
                return
            raise InputError("the folder holds something else", where=where, hint=_HINT)
        # What a build leaves that is killed before anything else.
        strangers = [name for name in present if not name.endswith((".tmp", ".lock"))]
        if strangers:
            raise InputError(
                f"the folder is not empty and holds no knowledge base (found {strangers[0]!r})",
                where=where,
                hint=_HINT,
            )

    @contextmanager
    def for_this_process_alone(self) -> Iterator[None]:
        """Make the folder if it is missing, and keep other builds out while this lasts.

        Raises:
            InputError: another build is under way, or the folder cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot be written ({error.strerror})", where=str(self.root), hint=_HINT
            ) from None
        with sole_writer(self.root / "manifest"):
            yield

    def write_manifest(self, value: Mapping[str, Any]) -> None:
        """Write `manifest.json`, whole or not at all."""
        head = {"schema_version": SCHEMA_VERSION, "holds": HOLDS}
        write_json(self.root / "manifest.json", head | dict(value))

    def write_rows(self, name: str, rows: Iterable[BaseModel]) -> None:
        """Write `<name>.jsonl`, whole or not at all."""
        with atomic_writer(self.root / f"{name}.jsonl") as stream:
            for row in rows:
                value = row.model_dump(mode="json")
                stream.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")

    def answered(self, stage: Stage) -> AnsweredCalls:
        """Read the finished calls of a stage.

        Raises:
            InputError: a row is damaged.
        """
        return AnsweredCalls(read_table(self.root, calls_of(stage)))


def calls_of(stage: Stage) -> TableSpec[CallRow]:
    """Return the table of a stage's calls."""
    hint = "remove the line; its call is then made again"
    return TableSpec(f"calls/{stage.value}", CallRow, "key", hint=hint)


class AnsweredCalls:
    """Finished calls by what they asked; of several rounds the last counts.

    Args:
        rows: in the order in which they finished.
    """

    def __init__(self, rows: Iterable[CallRow]) -> None:
        self.all = list(rows)
        self.by_key: dict[str, CallRow] = {}
        self._rounds: dict[str, int] = {}
        for row in self.all:
            base = row.key.partition("~")[0]
            self._rounds[base] = self._rounds.get(base, 0) + 1
            self.by_key[base] = row

    def key_to_ask(self, key: str, *, again_if_failed: bool) -> str | None:
        """What to store a request under; None if it is answered and not asked again."""
        row = self.by_key.get(key)
        if row is None:
            return key
        if again_if_failed and row.error is not None:
            return f"{key}~{self._rounds[key]}"
        return None
