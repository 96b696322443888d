"""The microworld's language model: where it lies, with its weights checked."""

from __future__ import annotations

from pathlib import Path

from ...guard.errors import ModelFolderError
from ...guard.files import file_sha256

MODEL_FOLDER = Path(__file__).parent / "model"
SHA256_FILE = "model.safetensors.sha256"
WEIGHTS_FILE = "model.safetensors"
_NEEDED = (WEIGHTS_FILE, SHA256_FILE, "config.json", "tokenizer.json", "tokenizer_config.json")
_HINT = "install knowgate again, or run python -m tools.microworld.train"


def microworld_model_path(folder: Path = MODEL_FOLDER) -> Path:
    """Return the folder of the microworld's language model, for `from_pretrained`.

    Args:
        folder: the bundled one by default.

    Raises:
        ModelFolderError: a file is missing, or the weights' sha256 is not the recorded one.
    """
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise ModelFolderError(f"{name} is missing", where=str(folder), hint=_HINT)
    recorded = (folder / SHA256_FILE).read_text(encoding="utf-8").split()
    if not recorded or file_sha256(folder / WEIGHTS_FILE) != recorded[0]:
        raise ModelFolderError(
            f"the sha256 of {WEIGHTS_FILE} is not the recorded one", where=str(folder), hint=_HINT
        )
    return folder
