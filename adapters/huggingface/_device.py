"""Which device and which precision a model runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...guard import DeviceError

if TYPE_CHECKING:
    import torch

_DTYPES = ("bfloat16", "float16", "float32", "float64")


def choose_device(asked: str) -> torch.device:
    """The device behind `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

    `auto` is the first CUDA device when there is one, otherwise the CPU.

    Raises:
        DeviceError: the device is not there, or the name is none.
    """
    import torch

    if asked == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise DeviceError(
            f"{asked!r} names no device — use 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"
        ) from error
    if device.type == "cuda":
        return _cuda_device(device.index or 0)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError("device 'mps' is not there — use device='cpu' or 'auto'")
    if device.type not in {"cpu", "mps"}:
        raise DeviceError(f"device {asked!r} is not supported — use 'auto', 'cpu', 'cuda' or 'mps'")
    return device


def _cuda_device(index: int) -> torch.device:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index < count:
        return torch.device("cuda", index)
    if torch.version.cuda is None and torch.version.hip is None:
        found = "the installed torch is built without CUDA"
    else:
        found = f"{count} CUDA device{'' if count == 1 else 's'} visible"
    raise DeviceError(f"device 'cuda:{index}' is not there ({found}) — use device='cpu' or 'auto'")


def choose_dtype(asked: str, device: torch.device) -> torch.dtype | str:
    """The precision to load in, or `"auto"` for the one the weights are stored in.

    `auto` is float32 on the CPU, where 16-bit arithmetic is slow or inexact, and
    the stored precision elsewhere.

    Raises:
        DeviceError: an unknown name, or a precision that the device lacks.
    """
    import torch

    if asked == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    if asked not in _DTYPES:
        raise DeviceError(f"dtype {asked!r} is not known — use 'auto' or one of {_DTYPES}")
    if asked == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise DeviceError(f"{device} has no bfloat16 — use dtype='float16' or 'float32'")
    if asked == "float64" and device.type == "mps":
        raise DeviceError("mps has no float64 — use dtype='float32'")
    dtype: torch.dtype = getattr(torch, asked)
    return dtype
