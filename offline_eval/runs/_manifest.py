"""Reading manifests: any artefact of a run whose schema is known here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ...guard import InputError
from ...guard.files import read_json

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
            mend="make one with `knowgate eval ookb` or `knowgate eval uniknow`",
        )
    return read_versioned(path, mend="remove the run folder and start again")


def read_versioned(path: str | os.PathLike[str], *, mend: str) -> dict[str, Any]:
    """A JSON object of a run folder whose `schema_version` is known here.

    Args:
        path: of the file.
        mend: what to do about a broken one.

    Raises:
        InputError: the file cannot be read, is no such object, holds NaN or infinity,
            or was written by a newer knowgate.
    """
    where = os.fspath(path)
    value = read_json(path)
    version = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(
            "field 'schema_version' is missing or not a positive number", where=where, mend=mend
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"run schema {version} is newer than {SCHEMA_VERSION}, the newest known here",
            where=where,
            mend="upgrade knowgate",
        )
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise InputError("a number is NaN or infinite", where=where, mend=mend) from None
    except RecursionError:
        raise InputError("nested too deeply", where=where, mend=mend) from None
    found: dict[str, Any] = value
    return found
