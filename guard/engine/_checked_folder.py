"""What other packages ask of a model folder before and while they load it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._load_encoder import find_model
from ._loading import quiet_loading
from ._model_folder import configuration_sha256, require_no_code
from ._model_sizes import length_of, read_as, require_all_tensors, require_sound_model


class ModelFolder:
    """A folder that a library will load a model from.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def find(model: str | os.PathLike[str]) -> tuple[Path, bool]:
        """The folder of a model, and whether it reads question and passage together.

        Args:
            model: a folder, or a hub id, which is downloaded where it is not there yet.

        Raises:
            ModelFolderError: it is neither.
            InputError: its configuration is not JSON.
        """
        return find_model(model)

    def require_sound(self, weights: Sequence[Path]) -> None:
        """Reject a folder that names code, or whose files are damaged or do not fit each other.

        Args:
            weights: all safetensors files of the model.

        Raises:
            ModelFolderError: naming the file, and the setting.
            InputError: a configuration file is not JSON.
        """
        require_no_code(self.path)
        require_sound_model(self.path, weights)

    @contextmanager
    def reading(self, what: str, hint: str) -> Iterator[None]:
        """Load without progress bars; whatever a library raises becomes one error.

        Args:
            what: it cannot be, as a phrase.
            hint: for the error.

        Raises:
            ModelFolderError: something was raised.
        """
        with read_as(self.path, what, hint), quiet_loading():
            yield

    def require_all_tensors(self, report: dict[str, Any]) -> None:
        """Reject a model of which transformers drew tensors at random.

        Args:
            report: of `from_pretrained`, as `output_loading_info` gives it.

        Raises:
            ModelFolderError: tensors are missing.
        """
        require_all_tensors(report, self.path)

    def require_length(self, value: Any) -> None:
        """Reject a tokenizer whose longest text, in word pieces, is no positive number.

        Raises:
            ModelFolderError: so it is.
        """
        length_of(value, self.path)

    def configuration_sha256(self) -> str:
        """Hash whatever in the folder changes the model's numbers, but for the weights file."""
        return configuration_sha256(self.path)
