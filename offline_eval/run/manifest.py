"""Manifests: what a run was made from and with; two runs are the same if theirs are equal."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, field_validator

from ..._version import CREATED_BY
from ...guard.errors import NO_JSON, InputError
from ...guard.files import AnyPath, file_sha256, json_sha256, read_json
from ...guard.read_models import check_model
from ...guard.text import clean_text

# The scores of a probe are compared with a tolerance, by the suite that measured them.
_NOT_COMPARED = frozenset({"chained", "created_by", "probed_scorer"})
_FIRST_COMPARED = ("suite", "settings", "inputs")
START_AGAIN = "remove the run folder and start again"


class Stored(BaseModel):
    """Base of rows and manifests: frozen; unknown fields are ignored.

    A later version may add fields without a new schema.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def checked(cls, value: Any, *, where: str, hint: str, clean: bool = False) -> Self:
        """Check a JSON value.

        Args:
            value: as read from JSON.
            where: file and line.
            hint: what to do about a broken one.
            clean: replace lone surrogates and NUL in its texts.

        Raises:
            InputError: a field is missing or wrong; names the first.
        """
        try:
            value = cleaned(value) if clean else value
        except RecursionError:
            raise InputError("nested too deeply", where=where, hint=hint) from None
        return check_model(cls, value, where=where, hint=hint)


class InputFile(Stored):
    """A file that a run was made from."""

    name: str
    sha256: str

    @classmethod
    def of(cls, path: AnyPath) -> InputFile:
        """Hash a file.

        Raises:
            InputError: the file cannot be read.
        """
        return cls(name=Path(path).name, sha256=file_sha256(path))


class Manifest(Stored):
    """`manifest.json` of a run; suites add fields of their own in a subclass.

    Attributes:
        SCHEMA_VERSION: of run folders and other files, as this version writes them.
        schema_version: of the run folder.
        suite: name of the suite that made the run.
        created_by: program and version that began the run; not compared.
        settings: whatever decides the rows, as JSON.
        inputs: files that the run was made from.
        chained: whether each row has a digest that binds it to those before it and to the
            manifest (`first_digest`); runs of before 0.3 have none. Not compared.
    """

    # Fields that a subclass does not name are kept: they are compared, too.
    model_config = ConfigDict(frozen=True, extra="allow")
    SCHEMA_VERSION: ClassVar[int] = 1
    # Whether rows are bound to each other and to the manifest, which then never changes.
    binds_rows: ClassVar[bool] = True
    # What messages call the content of a folder.
    kind: ClassVar[str] = "run"
    # A model of those settings that readers use; others may be there as well.
    settings_read: ClassVar[type[Stored] | None] = None

    schema_version: int = SCHEMA_VERSION
    suite: str = ""
    created_by: str = ""
    settings: Any = {}
    inputs: tuple[InputFile, ...] = ()
    chained: bool = False

    @field_validator("settings")
    @classmethod
    def _settings_can_be_read(cls, value: Any) -> Any:
        if not isinstance(value, dict | BaseModel):
            raise ValueError("must be an object")
        if cls.settings_read is not None:
            cls.settings_read.model_validate(value)
        return value

    @classmethod
    def new(cls, **fields: Any) -> Self:
        """Make the manifest of a run that begins now: schema version and program are set."""
        chained = {"chained": True} if cls.binds_rows else {}
        return cls(
            schema_version=cls.SCHEMA_VERSION,
            created_by=CREATED_BY,
            **{**chained, **fields},
        )

    @classmethod
    def read(cls, folder: AnyPath) -> Self:
        """Read and check the manifest of a run folder.

        Raises:
            InputError: there is no run, the manifest is broken, or a newer knowgate wrote it.
        """
        where = str(Path(folder) / "manifest.json")
        return cls.checked(cls.read_raw(folder), where=where, hint=START_AGAIN, clean=True)

    @classmethod
    def read_raw(cls, folder: AnyPath) -> dict[str, Any]:
        """Read the manifest of a run folder, unchecked but for its schema version.

        Raises:
            InputError: no run there, or one written by a newer knowgate.
        """
        path = Path(folder) / "manifest.json"
        if not path.is_file():
            hint = "make one with `knowgate measure` or `knowgate eval …`"
            what = "no run in this folder (there is no manifest.json)"
            raise InputError(what, where=os.fspath(folder), hint=hint)
        return cls.read_versioned(path, hint=START_AGAIN)

    @classmethod
    def first_digest(cls, folder: Path, table: str) -> str | None:
        """Return what the first row of a table is bound to: the manifest and the table's name.

        None outside of a run, and in one whose rows are not bound.

        Raises:
            InputError: as `read_versioned`.
        """
        path = folder / "manifest.json"
        if not path.is_file():
            return None
        value = cls.read_versioned(path, hint=START_AGAIN)
        if value.get("chained") is not True:
            return None
        return json_sha256([table, value])[:16]

    @classmethod
    def read_versioned(cls, path: AnyPath, *, hint: str) -> dict[str, Any]:
        """Read a JSON object whose `schema_version` is known here.

        Args:
            path: of the file.
            hint: what to do about a broken one.

        Raises:
            InputError: the file cannot be read, is not such an object, holds NaN or infinity,
                or was written by a newer knowgate.
        """
        where = os.fspath(path)
        value = read_json(path, links=False)
        version = value.get("schema_version") if isinstance(value, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            what = "field 'schema_version' is missing or not a positive number"
            raise InputError(what, where=where, hint=hint)
        if version > cls.SCHEMA_VERSION:
            raise InputError(
                f"run schema {version} is newer than {cls.SCHEMA_VERSION}, the newest known here",
                where=where,
                hint="upgrade knowgate",
            )
        try:
            json.dumps(value, allow_nan=False)
        except NO_JSON as error:
            deep = isinstance(error, RecursionError)
            what = "nested too deeply" if deep else "a number is NaN or infinite"
            raise InputError(what, where=where, hint=hint) from None
        return dict(value)

    def is_in(
        self, folder: AnyPath, *, own: Collection[str] = (), compare: Collection[str] | None = None
    ) -> bool:
        """Return True if the folder holds the run of this manifest, False if it is free for it.

        Args:
            folder: may be missing.
            own: names that such a run writes before its manifest: a kill leaves them.
            compare: fields of the manifest that must be equal; None for all but `created_by`.

        Raises:
            InputError: it holds another run, or anything else; or cannot be read.
        """
        root, wanted = Path(folder), self.to_json()
        if not (root / "manifest.json").exists():
            _require_free(root, own, self.kind)
            return False
        found = self.read_raw(root)
        # Those first that explain most.
        others = sorted((found.keys() | wanted.keys()) - _NOT_COMPARED - set(_FIRST_COMPARED))
        for name in [*_FIRST_COMPARED, *others] if compare is None else compare:
            if found.get(name) != wanted.get(name):
                differs = _difference(name, found.get(name), wanted.get(name))
                what = f"the folder holds another {self.kind} (its {differs} differs)"
                hint = "choose another --out, or remove the folder"
                raise InputError(what, where=str(root), hint=hint)
        return True

    def to_json(self) -> dict[str, Any]:
        """Return the fields that were given, as JSON."""
        return self.model_dump(mode="json", include=self.model_fields_set)


def _require_free(root: Path, own: Collection[str], kind: str) -> None:
    try:
        # A table without a row may be left by a kill, and holds nothing.
        present = [
            item.name
            for item in (root.iterdir() if root.exists() else ())
            if item.suffix != ".jsonl" or item.stat().st_size
        ]
    except OSError as error:
        raise unusable(root, error) from None
    left = (".tmp", ".lock")
    strangers = sorted(name for name in present if name not in own and not name.endswith(left))
    if strangers:
        raise InputError(
            f"the folder is not empty and holds no {kind} (found {strangers[0]!r})",
            where=str(root),
            hint="choose another --out",
        )


def unusable(root: Path, error: OSError) -> InputError:
    """The error for a folder that cannot be made, read or written."""
    what = f"cannot be used as a run folder ({error.strerror})"
    return InputError(what, where=str(root), hint="choose another --out")


def _difference(name: str, found: Any, wanted: Any) -> str:
    """Name what differs, one level deep where both sides are objects."""
    if name == "inputs":
        return "input files' content"
    if isinstance(found, dict) and isinstance(wanted, dict):
        inner = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
        return f"{name}.{inner[0]}"
    return name


def cleaned(value: Any) -> Any:
    """Return a JSON value with lone surrogates replaced in all of its texts.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): cleaned(item) for key, item in value.items()}
    return value
