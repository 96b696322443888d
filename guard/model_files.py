"""Names and hashes of the files of models, and where those that were downloaded lie."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .errors import InputError, ModelFolderError
from .files import file_sha256, new_folder, table_beside, write_json
from .read_models import Model, read_model

WEIGHTS = "model.safetensors"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
HEAD_WEIGHTS = "head.safetensors"
_SHA256: dict[str, dict[str, Any]] = table_beside(__file__, "model_files.toml")
BUNDLED_SHA256, CROSS_ENCODER_SHA256 = _SHA256["sufficiency"], _SHA256["cross_encoder"]
EMBEDDED_FILES, MULTILINGUAL_FILES = _SHA256["embedded"], _SHA256["multilingual"]
READER_FILES = _SHA256["reader"]
EMBEDDED_SHA256 = EMBEDDED_FILES["encoder.safetensors"]
EMBEDDED_VOCABULARY_SHA256: str = _SHA256["single"]["embedded_vocabulary"]
MULTILINGUAL_MIX_SHA256 = _SHA256["single"]["multilingual_mix"]
# Models that `knowgate models` takes out of packages.
PACKAGES: dict[str, dict[str, Any]] = _SHA256["packages"]
MS_MARCO = "ms-marco"
MULTILINGUAL = "multilingual"
MS_MARCO_SHA256: str = PACKAGES[MS_MARCO]["sha256"]
MULTILINGUAL_SHA256: str = PACKAGES[MULTILINGUAL]["sha256"]
# Written last into the folder of a model, so that its presence says that the model is whole.
SOURCE_FILE = "knowgate_source.json"


def cached_model(sha256: str, conversion: int = 1) -> Path:
    """Where the model that was made of a file lies, whether it is there or not.

    The cache is `$KNOWGATE_CACHE`, else `knowgate` in the user's cache folder.

    Args:
        sha256: of the file.
        conversion: changes when what is made of a file does.
    """
    if given := os.environ.get("KNOWGATE_CACHE"):
        cache = Path(given)
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "knowgate"
    return cache / "models" / f"{sha256[:16]}-{conversion}"


def downloaded_model(name: str, sha256: str, conversion: int = 1) -> Path:
    """The folder of a model that `knowgate models NAME` has downloaded.

    Raises:
        ModelFolderError: it has not.
    """
    folder = cached_model(sha256, conversion)
    if not (folder / SOURCE_FILE).is_file():
        what = f"is not on this machine ({folder})"
        raise ModelFolderError(what, where=name, hint=f"download it with `knowgate models {name}`")
    return folder


def make_folder_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Make a folder of the cache and return it, all or nothing; another process may be quicker.

    Args:
        folder: is made.
        write: writes its files, `SOURCE_FILE` among them, into the folder that it is given.
    """
    try:
        with new_folder(folder, last=SOURCE_FILE) as work:
            write(work)
    except (InputError, OSError):
        if not (folder / SOURCE_FILE).is_file():
            raise
    return folder


def reranker_folder() -> Path:
    """The folder of the reranker that `knowgate models ms-marco` has downloaded.

    Raises:
        ModelFolderError: it has not.
    """
    return downloaded_model(MS_MARCO, MS_MARCO_SHA256, PACKAGES[MS_MARCO]["conversion"])


def read_model_part(path: Path, model: type[Model], hint: str) -> Model:
    """Read a JSON file that says what lies in a model's folder.

    Raises:
        ModelFolderError: the file cannot be read, or is not such a model; with the hint.
    """
    try:
        return read_model(path, model)
    except InputError as error:
        raise ModelFolderError(error.what, where=str(path), hint=hint) from None


class Converted(BaseModel):
    """What a folder of a converted model was made of, kept in it.

    Attributes:
        sha256: of the file that it was made of.
        files: sha256 of the files in the folder, by their names.
    """

    sha256: str
    files: dict[str, str]

    @classmethod
    def write(cls, folder: Path, marker: str, sha256: str, names: Iterable[str]) -> None:
        """Write it into a folder that has these files."""
        files = {name: file_sha256(folder / name) for name in names}
        write_json(folder / marker, cls(sha256=sha256, files=files).model_dump())

    @classmethod
    def read(cls, folder: Path, marker: str, command: str, names: Iterable[str]) -> Converted:
        """Read it, and check the files, among which those `names` must be.

        Raises:
            ModelFolderError: a file is missing, damaged or not the expected one.
        """
        hint = f"delete the folder, then download it with `{command}`"
        found = read_model_part(folder / marker, cls, hint)
        if missing := [name for name in names if name not in found.files]:
            what = f"does not name {missing[0]}"
            raise ModelFolderError(what, where=str(folder / marker), hint=hint)
        require_files(folder, found.files, hint)
        return found


def adapter_sha256(folder: Path) -> str:
    """Identify an adapter by its configuration, in which its scale stands, and its weights."""
    files = map(file_sha256, (folder / ADAPTER_CONFIG, folder / ADAPTER_WEIGHTS))
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


@lru_cache(maxsize=64)
def _sha256_of(path: Path, changed: int, size: int) -> str:
    """Read each file once per process, and again when it changes."""
    return file_sha256(path)


def require_files(
    folder: Path,
    sha256: Mapping[str, str],
    hint: str = "reinstall knowgate",
) -> None:
    """Reject files other than the expected ones, by their names and sha256.

    Raises:
        ModelFolderError: a file is missing or has another sha256.
    """
    for name, expected in sha256.items():
        path = folder / name
        found = "none"
        if path.is_file():
            found = _sha256_of(path, path.stat().st_mtime_ns, path.stat().st_size)
        if found != expected:
            what = f"the sha256 is {found[:12]}…, expected {expected[:12]}…"
            raise ModelFolderError(what, where=str(path), hint=hint)
