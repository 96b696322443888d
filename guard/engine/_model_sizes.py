"""Checks that the files of a model are whole and fit each other, before anything large is made.

Libraries believe the configuration: a number in it decides how many layers are built and how
much memory is taken, and whatever goes wrong is raised as they please.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import KnowgateError, ModelFolderError, optional_import
from ..files import read_json
from ._model_folder import settings_of

# Fields that say how many modules there are: each has tensors of its own.
_COUNTS = re.compile(r"(n|(num_)?(hidden|encoder|decoder)|num)_(layers?|blocks?)|depth")
# Fields whose number is a dimension of some tensor.
_WIDTHS = frozenset({"d_model", "hidden_size", "n_embd", "vocab_size"})
_LARGEST = 1 << 31
_HINT = "get the folder again: it is damaged, or its files are of different models"


def require_sound_model(folder: Path, weights: Sequence[Path]) -> None:
    """Reject weights that are cut off, and a configuration that asks for more than they hold.

    Args:
        folder: with the configuration, `config.json`.
        weights: all safetensors files of the model.

    Raises:
        ModelFolderError: naming the file, and the field.
        InputError: the configuration is not JSON.
    """
    shapes = [shape for path in weights for shape in _shapes(path)]
    widths = {width for shape in shapes for width in shape}
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise _unfit(path, "is not a JSON object")
    packed = bool(config.get("quantization_config"))
    for name, value in settings_of(config):
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        limit = len(shapes) if _COUNTS.fullmatch(name) else _LARGEST
        missing = name in _WIDTHS and not packed and value not in widths
        if value > limit or missing or (value < 1 and name.endswith("heads")):
            raise _unfit(path, f"{name} is {value}, which the weights do not have")


def require_sound_part(folder: Path, weights: Path) -> None:
    """Reject the configuration of a layer whose sizes its own weights do not have.

    Raises:
        ModelFolderError: naming the file, and the field.
        InputError: the configuration is not JSON.
    """
    widths = {width for shape in _shapes(weights) for width in shape}
    path = folder / "config.json"
    for name, value in settings_of(read_json(path)):
        if isinstance(value, int) and not isinstance(value, bool) and value not in widths:
            raise _unfit(path, f"{name} is {value}, which the weights do not have")


def length_of(value: Any, folder: Path) -> int:
    """Return how many word pieces a model reads, as its folder says it.

    Raises:
        ModelFolderError: that is no positive number.
    """
    try:
        length = int(value)
    except (TypeError, ValueError, OverflowError):
        length = 0
    if length < 1:
        raise _unfit(folder, "the most word pieces that it reads are no positive number")
    return length


@contextlib.contextmanager
def read_as(folder: Path, what: str, hint: str) -> Iterator[None]:
    """Turn whatever a library raises of the files of a model into one error.

    Errors of knowgate, a device without memory, and a missing package pass as they are.

    Args:
        folder: of the model.
        what: it cannot be, as a phrase.
        hint: for the error.

    Raises:
        ModelFolderError: something was raised.
    """
    torch: Any = optional_import("torch")
    try:
        yield
    except (KnowgateError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        detail = f"{what} ({type(error).__name__})"
        raise ModelFolderError(detail, where=str(folder), hint=hint) from error


def require_all_tensors(report: dict[str, Any], folder: Path) -> None:
    """Reject a model of which transformers drew tensors at random.

    Args:
        report: of `from_pretrained`, as `output_loading_info` gives it.
        folder: of the model.

    Raises:
        ModelFolderError: tensors are missing.
    """
    if missing := sorted(report["missing_keys"]):
        raise ModelFolderError(
            f"the weights lack {len(missing)} tensors, e.g. {missing[0]}",
            where=str(folder),
            hint="check that config.json and the weights belong together",
        )


def _shapes(path: Path) -> list[tuple[int, ...]]:
    library: Any = optional_import("safetensors")
    try:
        with library.safe_open(str(path), framework="np") as tensors:
            found = [tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        raise _unfit(path, f"cannot be read as safetensors ({type(error).__name__})") from None
    if not found:
        raise _unfit(path, "holds no tensor")
    return found


def _unfit(path: Path, what: str) -> ModelFolderError:
    return ModelFolderError(what, where=str(path), hint=_HINT)
