"""The folder of a finished adapter: written at once, recognised when asked for again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ...guard import InputError
from ...guard._optional_imports import optional_import
from ...guard.files import file_sha256, read_json, write_json

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
# Says that the folder is complete, so it comes last.
TRAINING_FILE = "training.json"
SCHEMA = 1


def check_place(folder: Path) -> None:
    """Refuse a place where no new folder can be.

    Raises:
        InputError: a file, a folder that holds something, or no right to write there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "exists and is not an empty folder", where=str(folder), mend="name a new folder"
        )
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "cannot be written to" if there.is_dir() else "is a file, not a folder"
        raise InputError(what, where=str(there), mend="choose another place")


def finished_training(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `training.json` says when the folder holds the adapter of just this training.

    Args:
        folder: where the adapter would be written.
        identity: what makes a training this one; compared with the file's `identity`.

    Returns:
        The file's content; None when there is no such file, another training or other weights.
    """
    if not (folder / TRAINING_FILE).is_file() or not (folder / WEIGHTS_FILE).is_file():
        return None
    found = read_json(folder / TRAINING_FILE)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    same = found.get("identity") == json.loads(json.dumps(identity))
    whole = found.get("adapter_sha256") == file_sha256(folder / WEIGHTS_FILE)
    return found if same and whole else None


def write_adapter(model: Any, folder: Path) -> str:
    """Write peft's two files into an existing folder; returns the sha256 of the weights."""
    # Not "auto", which asks the hub whether the vocabulary is another.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = read_json(folder / CONFIG_FILE)
    # A path of this machine says nothing elsewhere.
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    write_json(folder / CONFIG_FILE, config)
    library = optional_import("safetensors.torch")
    weights = folder / WEIGHTS_FILE
    tensors = {name: t.contiguous() for name, t in library.load_file(weights).items()}
    # Written anew: what the library writes nobody but the owner may read.
    weights.unlink()
    weights.write_bytes(library.save(tensors, metadata={"format": "pt"}))
    return file_sha256(weights)


@contextlib.contextmanager
def filled_at_once(place: Path) -> Iterator[Path]:
    """A folder to write in, whose files are at `place` in the end; none are after an error.

    An empty folder that is there already is filled and not replaced: it may be a mount.

    Raises:
        InputError: the place cannot be written to.
    """
    there = place.exists()
    room = place if there else place.parent
    try:
        room.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(prefix=".training.", dir=room))
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", where=str(place), mend="choose another place"
        ) from None
    try:
        yield work
        if there:
            for path in sorted(work.iterdir(), key=lambda one: one.name == TRAINING_FILE):
                path.rename(place / path.name)
        else:
            work.chmod(0o755)
            work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
