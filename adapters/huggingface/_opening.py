"""A model folder, with an adapter where one is given, as what `HuggingFaceLM` is built of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._device import choose_device, choose_dtype
from ._identity import ModelIdentity
from ._loading import check_folder, check_sha256, find_folder, load_model
from ._lora import check_adapter, merge_adapter


def open_model(
    path_or_name: str | Path,
    device: str,
    dtype: str,
    sha256: str | None,
    adapter: str | Path | None,
    *,
    local_files_only: bool,
) -> tuple[Any, Any, ModelIdentity]:
    """Model, tokenizer and identity; all is checked before anything is loaded.

    The arguments and what is raised are those of `HuggingFaceLM`.
    """
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, chosen_device)
    folder = find_folder(path_or_name, local_files_only=local_files_only)
    files = check_folder(folder)
    checked = None if adapter is None else check_adapter(Path(adapter))
    found = check_sha256(files, sha256) if sha256 is not None else None
    model, tokenizer = load_model(folder, chosen_device, chosen_dtype)
    identity = ModelIdentity(model, tokenizer, files, found, adapter=checked)
    if checked is not None:
        model = merge_adapter(model, checked, identity.weights_sha256)
    return model, tokenizer, identity
