"""Whether a folder is free for a run, holds this very run, or something else."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ...guard import InputError
from ._manifest import read_manifest

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
                mend="choose another --out, or remove the folder",
            )
    return True


def _require_free(root: Path, own: Collection[str]) -> None:
    try:
        present = [item.name for item in root.iterdir()] if root.exists() else []
    except OSError as error:
        raise InputError(
            f"cannot be used as a run folder ({error.strerror})",
            where=str(root),
            mend="choose another --out",
        ) from None
    strangers = sorted(name for name in present if name not in own and not name.endswith(".tmp"))
    if strangers:
        raise InputError(
            f"the folder is not empty and holds no run (found {strangers[0]!r})",
            where=str(root),
            mend="choose another --out",
        )


def _difference(name: str, found: Any, wanted: Any) -> str:
    """The name of what differs, one level deep where both sides are objects."""
    if name == "inputs":
        return "input files' content"
    if isinstance(found, dict) and isinstance(wanted, dict):
        inner = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
        return f"{name}.{inner[0]}"
    return name
