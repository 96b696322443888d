"""Names and hashes of the files of models, and where those that were downloaded lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel

from .errors import InputError, ModelFolderError
from .files import file_sha256, write_json
from .read_models import read_model

WEIGHTS = "model.safetensors"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
HEAD_WEIGHTS = "head.safetensors"
BUNDLED_SHA256 = MappingProxyType(
    {
        "adapter_config.json": ("9cdd9d2b17c1cae982070d1fa5d77d8e99a97d9eaa5f7d928059fe5328f83064"),
        "adapter_model.safetensors": (
            "e04832e0c7071e6eaa024a0a6d02951c264e42d94a13c46802e752b59d2938d0"
        ),
        "sufficiency.json": ("d3f2a989eeb019fbbaf2aacf9d7165d8c4df7d2babe97060d8894082e7277171"),
    }
)
CROSS_ENCODER_SHA256 = MappingProxyType(
    {
        "adapter_config.json": "7661afd022d7b92cc8881f3119d752b12b09e7eb050cb3c704157949e6249138",
        "adapter_model.safetensors": (
            "3aca1f37613ba3553f338a9bc02de58c60f906a1e598747756042ed87d836693"
        ),
        "head.safetensors": "35bdf341cf17d7a44fc7adf95ae2791a3f0f7d814a47c784d80ed4adc7a82edf",
        "mix.json": "bebb5842a50a23cffc4fd42087d4593dc5800258611c060604da39ebcb4ed897",
    }
)
# Of the bundled all-MiniLM-L6-v2: its weights, and whatever else decides its vectors.
EMBEDDED_SHA256 = "e05a666a45ee5d5847f46656a3372265b9a666c330cab327597979611cd9956e"
EMBEDDED_FILES = MappingProxyType(
    {
        "encoder.safetensors": EMBEDDED_SHA256,
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "encoder.onnx": "cb4041f4b825b8a229b1a942d79076520479937d83539f2726b62a8007127369",
        "encoder_int8.onnx": "0f882065a388cb091ec1662139ceafcd0b56a843dc9813db77ef1a4854507493",
    }
)
# Of the file that a package carries, of which the multilingual encoder is made.
MULTILINGUAL = "multilingual"
MULTILINGUAL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MULTILINGUAL_FILES = MappingProxyType(
    {
        "multilingual.onnx": "fd53a529d2f26adc874f53969b2f699d8ec92152d43735c7e1b525cff11c1e78",
        "multilingual.safetensors": (
            "6c81cedfc3d7106b4fbd31bee04ce91c11736813dd1820e059803a701b4e755a"
        ),
        "multilingual_int8.onnx": (
            "c3f9dea5cb99bc9e026ef002a31a9159e802b7651651bc609d22cd4bd56e61f5"
        ),
    }
)
MULTILINGUAL_MIX_SHA256 = "faefcca63b5d7fae81669e019ebdad574a85158604d8a22a24aacfe6a3a63d59"
# Of its word pieces in the order of their ids, which take a while to put in order.
EMBEDDED_VOCABULARY_SHA256 = "d9a30f8db2290f3be5d5dca6f4f8ae419d1d31dbddfd6d181d83a75328c0e1bf"
# The reranker that `knowgate models ms-marco` takes out of a package: its graph, as it lies there.
MS_MARCO = "ms-marco"
MS_MARCO_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
# Changes when what is made of that file does.
MS_MARCO_CONVERSION = 2
READER_FILES = MappingProxyType(
    {
        "reader.onnx": "7bbda4fe3e1adde70bc31305d9065ab3c45ff9bc1e7d5d333ccfcfa80311ba47",
        "reader_int8.onnx": "960e128cb0215803bd7f72774902127e8e6ed898817fce41e429cf2ae8b3fd8b",
    }
)
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
        raise ModelFolderError(
            f"is not on this machine ({folder})",
            where=name,
            hint=f"download it with `knowgate models {name}`",
        )
    return folder


def reranker_folder() -> Path:
    """The folder of the reranker that `knowgate models ms-marco` has downloaded.

    Raises:
        ModelFolderError: it has not.
    """
    return downloaded_model(MS_MARCO, MS_MARCO_SHA256, MS_MARCO_CONVERSION)


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
        try:
            found = read_model(folder / marker, cls, hint=hint)
        except InputError as error:
            raise ModelFolderError(error.what, where=str(folder / marker), hint=hint) from None
        if missing := [name for name in names if name not in found.files]:
            raise ModelFolderError(
                f"does not name {missing[0]}", where=str(folder / marker), hint=hint
            )
        stamps = tuple(_stamp(folder / name) for name in found.files)
        _check_converted(folder, tuple(found.files.items()), stamps, hint)
        return found


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache(maxsize=4)
def _check_converted(
    folder: Path, sha256: tuple[tuple[str, str], ...], stamps: tuple[int, ...], hint: str
) -> None:
    """Check the files once per process, and again when one changes."""
    require_files(folder, dict(sha256), hint)


def require_files(
    folder: Path, sha256: Mapping[str, str], hint: str = "reinstall knowgate"
) -> None:
    """Reject files other than the expected ones, by their names and sha256.

    Raises:
        ModelFolderError: a file is missing or has another sha256.
    """
    for name, expected in sha256.items():
        path = folder / name
        found = file_sha256(path) if path.is_file() else "none"
        if found != expected:
            raise ModelFolderError(
                f"the sha256 is {found[:12]}…, expected {expected[:12]}…",
                where=str(path),
                hint=hint,
            )
