"""Reading manifests: any artefact of a run whose schema is known here."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...guard.errors import InputError
from ...guard.files import read_json

_Model = TypeVar("_Model", bound=BaseModel)


def checked_model(kind: type[_Model], value: Any, *, where: str, hint: str) -> _Model:
    """The checked value.

    Args:
        kind: what it is to be.
        value: as read from JSON.
        where: file and line.
        hint: what to do about a broken one.

    Raises:
        InputError: a field is missing or wrong; names the first.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        what = f"field '{name}': {fault['msg']}" if name else str(fault["msg"])
        raise InputError(what, where=where, hint=hint) from None


SCHEMA_VERSION = 1


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a run folder.

    Raises:
        InputError: no run there, or one written by a newer knowgate.
    """
    path = Path(folder) / "manifest.json"
    if not path.is_file():
        root = path.parent
        if root.exists() and not root.is_dir():
            what = "is a file, not a run folder"
        else:
            missing = "manifest.json is missing" if root.exists() else "there is no such folder"
            what = f"no run in this folder ({missing})"
        raise InputError(
            what,
            where=os.fspath(folder),
            hint="make one with `knowgate eval ookb` or `knowgate eval uniknow`",
        )
    return read_versioned(path, hint="remove the run folder and start again")


def read_versioned(path: str | os.PathLike[str], *, hint: str) -> dict[str, Any]:
    """A JSON object of a run folder whose `schema_version` is known here.

    Args:
        path: of the file.
        hint: what to do about a broken one.

    Raises:
        InputError: the file cannot be read, is no such object, holds NaN or infinity,
            or was written by a newer knowgate.
    """
    where = os.fspath(path)
    value = read_json(path)
    version = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(
            "field 'schema_version' is missing or not a positive number", where=where, hint=hint
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"run schema {version} is newer than {SCHEMA_VERSION}, the newest known here",
            where=where,
            hint="upgrade knowgate",
        )
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise InputError("a number is NaN or infinite", where=where, hint=hint) from None
    except RecursionError:
        raise InputError("nested too deeply", where=where, hint=hint) from None
    found: dict[str, Any] = value
    return found


_NOT_COMPARED = frozenset({"created_by"})


def holds_run(
    folder: str | os.PathLike[str], manifest: Mapping[str, Any], *, own: Collection[str] = ()
) -> bool:
    """True if the folder holds the run of this manifest, False if it is free for it.

    A run is the same one when all of its manifest but `created_by` is equal.

    Args:
        folder: may be missing.
        manifest: of the run that is to be made or gone on with.
        own: names that such a run writes before its manifest: a kill leaves them.

    Raises:
        InputError: it holds another run, or anything else; or cannot be read.
    """
    root = Path(folder)
    if not (root / "manifest.json").exists():
        _require_free(root, own)
        return False
    found = read_manifest(root)
    for name in sorted((found.keys() | manifest.keys()) - _NOT_COMPARED):
        if found.get(name) != manifest.get(name):
            raise InputError(
                "the folder holds another run "
                f"(its {_difference(name, found.get(name), manifest.get(name))} differs)",
                where=str(root),
                hint="choose another --out, or remove the folder",
            )
    return True


def _require_free(root: Path, own: Collection[str]) -> None:
    try:
        present = [item.name for item in root.iterdir()] if root.exists() else []
    except OSError as error:
        raise InputError(
            f"cannot be used as a run folder ({error.strerror})",
            where=str(root),
            hint="choose another --out",
        ) from None
    strangers = sorted(name for name in present if name not in own and not name.endswith(".tmp"))
    if strangers:
        raise InputError(
            f"the folder is not empty and holds no run (found {strangers[0]!r})",
            where=str(root),
            hint="choose another --out",
        )


def _difference(name: str, found: Any, wanted: Any) -> str:
    """The name of what differs, one level deep where both sides are objects."""
    if name == "inputs":
        return "input files' content"
    if isinstance(found, dict) and isinstance(wanted, dict):
        inner = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
        return f"{name}.{inner[0]}"
    return name
