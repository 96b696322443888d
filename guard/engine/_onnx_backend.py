"""Models in ONNX Runtime, on the CPU or on CUDA: the bundled ones, and exported ones."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from ..errors import (
    DeviceError,
    InputError,
    MissingDependencyError,
    ModelFolderError,
    optional_import,
)
from ..files import read_bytes
from ..model_files import read_model_part, require_files
from ..process import cpu_count, keep_exit_code
from ._tokenizing import TOKENIZER_FILE, Marks, uncut_tokenizer
from .backends import GRAPH_SHA256, MANIFEST_FILE, TOKEN_TYPE_IDS, LoadedEncoder, Runtime

GRAPH_FILE = "model.onnx"
_CUDA = "CUDAExecutionProvider"
_CPU = "CPUExecutionProvider"
_CUDA_DEVICE_FILE = Path("/dev/nvidiactl")
_GPU_INSTALL = "pip uninstall onnxruntime && pip install onnxruntime-gpu"
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What an exported encoder is, kept beside its graph.

    Attributes:
        schema_version: of this file.
        scorer: the kind of scorer that it was exported for.
        dtype: numeric precision of the graph.
        max_length: word pieces per text, special ones included.
        cls_token_id, sep_token_id, unk_token_id: special word pieces.
        graph_sha256, tokenizer_sha256: of the files beside it.
        weights_sha256: of the weights that the graph was made of.
        settings: what else changed the vectors of the torch model.
        versions: of the libraries that wrote it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    scorer: str
    dtype: Literal["float32", "float16", "int8"]
    max_length: int = Field(gt=2)
    cls_token_id: int = Field(ge=0)
    sep_token_id: int = Field(ge=0)
    unk_token_id: int | None = Field(ge=0)
    graph_sha256: _Sha256
    tokenizer_sha256: _Sha256
    weights_sha256: _Sha256
    settings: dict[str, str | int | FiniteFloat | bool | None] = {}
    versions: dict[str, str] = {}

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of an exported encoder.

        Raises:
            ModelFolderError: there is none, or it is damaged or of another version.
        """
        hint = "write the folder with `export_scorer(SCORER, DIR, pairs)`"
        return read_model_part(folder / MANIFEST_FILE, cls, hint)


class OnnxBackend:
    """Runs an exported graph in ONNX Runtime; see `Backend`.

    Attributes:
        inputs: names of the arrays that the graph takes.

    Args:
        graph: the content of the file; or the file, for one that reads others beside it.
        device: `auto`, `cpu`, `cuda`, `cuda:N`.
        dtype: as fingerprints record it.
        weights: those that the graph itself lacks, by name.

    Raises:
        DeviceError: CUDA was asked for, but the graph would run on the CPU.
        MissingDependencyError: onnxruntime is not installed, or both its builds are.
        ModelFolderError: the graph cannot be read.
    """

    name = "onnxruntime"

    def __init__(
        self,
        graph: bytes | Path,
        device: str,
        dtype: str,
        weights: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        keep_exit_code()
        self._ort = _onnxruntime()
        self.device, self.dtype = _device(self._ort, device), dtype
        options = self._ort.SessionOptions()
        # Rows run side by side on threads of the caller; threads inside of one row that spin
        # while they wait would take the CPUs from them.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        # Plans of memory for each length of a text gain no time and are kept.
        options.enable_mem_pattern = False
        # The runtime copies them when the session is made, so that they need not be kept.
        values = {
            name: self._ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            for name, array in (weights or {}).items()
        }
        if values:
            options.add_external_initializers(list(values), list(values.values()))
        on_cpu = self.device == "cpu"
        self.workers = cpu_count() if on_cpu else 1
        # On a GPU one batch after the other: callers wait for their turn.
        self._turn: Any = contextlib.nullcontext() if on_cpu else threading.Lock()
        providers: list[Any] = [_CPU]
        if not on_cpu:
            # The libraries that torch or the nvidia packages brought, if there are any.
            getattr(self._ort, "preload_dlls", lambda: None)()
            providers.insert(0, (_CUDA, {"device_id": int(self.device.partition(":")[2] or 0)}))
        try:
            self._session: Any = self._ort.InferenceSession(graph, options, providers=providers)
        except Exception as error:  # noqa: BLE001 - the library has error classes of its own
            what = f"ONNX Runtime cannot load the graph on {self.device} ({type(error).__name__})"
            raise ModelFolderError(what, hint="export it again with `export_scorer`") from None
        if self.device != "cpu" and self._session.get_providers()[0] != _CUDA:
            raise DeviceError(
                f"device {device!r} was asked for, but ONNX Runtime could not load its CUDA "
                "provider and would run on the CPU: check the driver, and that the versions of "
                "CUDA and cuDNN are those that this onnxruntime-gpu was built for"
            )
        # What fails on a GPU fails: it is not made again on the CPU.
        self._session.disable_fallback()
        self.inputs = [one.name for one in self._session.get_inputs()]

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the graph once."""
        given = {name: inputs[name] for name in self.inputs}
        with self._turn:
            found = self._session.run(None, given)
        return [np.asarray(one, dtype=np.float32) for one in found]


def load_onnx(folder: Path, runtime: Runtime) -> LoadedEncoder:
    """Load an encoder that `export_scorer` wrote.

    Raises:
        InputError: it has another dtype.
        ModelFolderError: it is missing, damaged or not what its manifest says.
        DeviceError: the device is not there.
        MissingDependencyError: onnxruntime is not installed, or both its builds are.
    """
    manifest = Manifest.load(folder)
    if runtime.dtype not in (None, manifest.dtype):
        what = f"the exported model computes in {manifest.dtype}, not {runtime.dtype}"
        hint = f"ask for dtype={manifest.dtype!r}, or export it again"
        raise InputError(what, where=str(folder), hint=hint)
    path = folder / GRAPH_FILE
    if not path.is_file():
        raise ModelFolderError(f"no {GRAPH_FILE}", where=str(folder), hint="export it again")
    # The same bytes are hashed and loaded; files beside it are out of the graph's reach.
    graph = read_bytes(path)
    found = hashlib.sha256(graph).hexdigest()
    if found != manifest.graph_sha256:
        what = f"the sha256 is {found[:12]}…, expected {manifest.graph_sha256[:12]}…"
        raise ModelFolderError(what, where=str(path), hint="export it again with `export_scorer`")
    require_files(folder, {TOKENIZER_FILE: manifest.tokenizer_sha256}, "export it again")
    backend = OnnxBackend(graph, runtime.device, manifest.dtype)
    tokenizer = uncut_tokenizer((folder / TOKENIZER_FILE).read_text("utf-8"))
    return LoadedEncoder(
        backend,
        Marks(tokenizer, manifest.cls_token_id, manifest.sep_token_id, manifest.unk_token_id),
        folder,
        manifest.max_length,
        manifest.weights_sha256,
        manifest.tokenizer_sha256,
        {**manifest.settings, GRAPH_SHA256: found},
        takes_types=TOKEN_TYPE_IDS in backend.inputs,
    )


def _onnxruntime() -> Any:
    """The library.

    Raises:
        MissingDependencyError: it is not installed, or both builds are, which overwrite each
            other's files.
    """
    installed = [name for name in ("onnxruntime", "onnxruntime-gpu") if installed_version(name)]
    if len(installed) == 2:
        raise MissingDependencyError(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other: "
            "`pip uninstall onnxruntime onnxruntime-gpu`, then `pip install onnxruntime`, or "
            "`pip install onnxruntime-gpu` for CUDA"
        )
    return optional_import("onnxruntime")


def installed_version(distribution: str) -> str:
    """The version of an installed distribution; empty where there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _device(ort: Any, device: str) -> str:
    has_cuda = _CUDA in ort.get_available_providers()
    if device == "auto":
        return "cuda:0" if has_cuda and _CUDA_DEVICE_FILE.exists() else "cpu"
    kind, _, number = device.partition(":")
    if device != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise DeviceError(f"device {device!r} cannot be used by ONNX Runtime: cpu, cuda or cuda:N")
    if kind == "cuda" and not has_cuda:
        raise DeviceError(
            f"device {device!r} was asked for, but the installed onnxruntime has no CUDA "
            f"provider and would run on the CPU: `{_GPU_INSTALL}`"
        )
    return f"cuda:{number or 0}" if kind == "cuda" else "cpu"
