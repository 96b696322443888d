"""What computes a scorer: torch or ONNX Runtime, on which device, in which precision."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import FingerprintMismatchError, InputError, KnowgateError, Policy
from knowgate.guard.engine import BiEncoderScorer, _onnx_backend
from knowgate.guard.engine.backends import in_threads, run_rows
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import DeviceError
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.signals.relevance import load_scorer
from tools.attack.tiny_models import tiny_encoder

# A bi-encoder of random weights, exported in float32: of `tiny_encoder`, whose numbers it gives.
EXPORTED = Path(__file__).parent / "data" / "exported"
TEXTS = ["when is the library open ?", "from nine to six .", "a dog can swim", "", "is open " * 9]


@pytest.fixture(scope="module")
def exported() -> BiEncoderScorer:
    return BiEncoderScorer(EXPORTED, device="cpu", cache_bytes=0)


class Numbers:
    """Gives back its ids, and what it was asked."""

    name, dtype, workers = "numbers", "float32", 1

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.shapes: list[tuple[int, ...]] = []

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        self.shapes.append(ids.shape)
        return [(ids * mask)[:, :, None].astype(np.float32), mask.sum(1, keepdims=True)]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_rows_come_back_in_order_and_cut_to_their_length(device: str) -> None:
    rows = [[7] * n for n in (3, 1, 5, 2)]
    backend = Numbers(device)
    found = run_rows(backend, rows)
    assert [one[0][:, 0].tolist() for one in found] == rows
    assert [one[1].tolist() for one in found] == [[3], [1], [5], [2]]
    # On a CPU no row is padded; on a GPU rows run together, padded.
    alone = [(1, 5), (1, 3), (1, 2), (1, 1)]
    assert backend.shapes == (alone if device == "cpu" else [(4, 5)])


def test_several_threads_share_the_rows_and_each_runs_once() -> None:
    seen: list[int] = []

    def see(part: list[int]) -> None:
        time.sleep(0.001)
        seen.extend(part)

    in_threads(see, [[i] for i in range(9)], 3)
    assert sorted(seen) == list(range(9))


def test_busy_threads_are_not_waited_for() -> None:
    free = threading.Event()

    def wait(_: list[int]) -> None:
        free.wait(5)

    blocked = threading.Thread(target=in_threads, args=(wait, [[i] for i in range(20)], 99))
    blocked.start()
    seen: list[int] = []
    in_threads(seen.extend, [[1], [2], [3]], 2)
    free.set()
    blocked.join()
    assert sorted(seen) == [1, 2, 3]


def test_the_first_error_is_raised_after_all_threads_have_stopped() -> None:
    running: list[int] = []

    def fail(part: list[int]) -> None:
        running.append(1)
        time.sleep(0.005)
        running.pop()
        raise ValueError(part)

    with pytest.raises(ValueError, match=r"\[\d\]"):
        in_threads(fail, [[i] for i in range(5)], 2)
    assert running == []


def test_torch_computes_in_bfloat16_and_not_in_int8(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    full, half = (
        BiEncoderScorer(folder, device="cpu", dtype=dtype) for dtype in ("float32", "bfloat16")
    )
    one, other = full.embed(TEXTS[:1])[0], half.embed(TEXTS[:1])[0]
    assert not np.array_equal(one, other)
    assert float(one @ other) > 0.999
    with pytest.raises(InputError, match=r"does not compute this model in int8 .*export_scorer"):
        BiEncoderScorer(folder, device="cpu", dtype="int8")


def test_an_exported_encoder_gives_the_numbers_of_torch(
    exported: BiEncoderScorer, tmp_path: Path
) -> None:
    torch_one = BiEncoderScorer(tiny_encoder(tmp_path / "encoder"), device="cpu", cache_bytes=0)
    assert exported.embed(TEXTS) == pytest.approx(torch_one.embed(TEXTS), abs=1e-5)
    mine, theirs = exported.fingerprint, torch_one.fingerprint
    assert (mine.backend, mine.dtype) == ("onnxruntime", "float32")
    assert mine.tokenizer_sha256 == theirs.tokenizer_sha256
    assert "graph_sha256" in mine.settings
    policy = Policy.for_scorer(torch_one, threshold=0.5, calibrator=IdentityCalibrator())
    with pytest.raises(FingerprintMismatchError, match="backend: 'torch' against 'onnxruntime'"):
        policy.require_scorer(mine)


def test_exported_scores_do_not_depend_on_neighbours(exported: BiEncoderScorer) -> None:
    together = exported.embed(TEXTS)
    assert np.array_equal(together, np.stack([exported.embed([text])[0] for text in TEXTS]))


def test_an_exported_folder_is_loaded_by_its_path(exported: BiEncoderScorer) -> None:
    assert load_scorer(str(EXPORTED)).fingerprint == exported.fingerprint
    assert load_scorer(f"{EXPORTED},device=cpu").fingerprint == exported.fingerprint
    with pytest.raises(InputError, match="computes in float32, not int8"):
        load_scorer(str(EXPORTED), dtype="int8")


def test_an_exported_encoder_gives_token_vectors_too(exported: BiEncoderScorer) -> None:
    encoder = TokenEncoder(EXPORTED, device="cpu")
    [window] = encoder.encode_first(TEXTS[:1])
    assert window.vectors.shape == (len(window.ids), 16)
    assert np.array_equal(window.embedding, exported.embed(TEXTS[:1])[0])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.onnx", "lost"),
        ("model.onnx", "changed"),
        ("tokenizer.json", "lost"),
        ("tokenizer.json", "changed"),
        ("exported.json", "changed"),
    ],
)
def test_a_damaged_exported_folder_is_rejected_in_one_line(
    tmp_path: Path, name: str, change: str
) -> None:
    folder = shutil.copytree(EXPORTED, tmp_path / "copy")
    if change == "lost":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"{" + (folder / name).read_bytes())
    with pytest.raises(InputError) as error:
        BiEncoderScorer(folder, device="cpu")
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def _installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def version(name: str) -> str:
        if name not in names:
            raise importlib.metadata.PackageNotFoundError(name)
        return name

    monkeypatch.setattr(importlib.metadata, "version", version)


def _runtime(*providers: str) -> Any:
    """An ONNX Runtime that has these providers, and loads none but the CPU's."""
    session = SimpleNamespace(
        get_providers=lambda: ["CPUExecutionProvider"],
        get_inputs=list,
        get_outputs=list,
        disable_fallback=lambda: None,
    )
    options = SimpleNamespace(add_session_config_entry=lambda *_: None)
    return SimpleNamespace(
        get_available_providers=lambda: [*providers, "CPUExecutionProvider"],
        SessionOptions=lambda: options,
        InferenceSession=lambda *_, **__: session,
    )


def _open(device: str) -> _onnx_backend.OnnxBackend:
    return _onnx_backend.OnnxBackend(b"", device, "float32")


@pytest.mark.parametrize(
    ("providers", "device", "message"),
    [
        ((), "cuda", r"no CUDA provider and would run on the CPU: .*onnxruntime-gpu"),
        (("CUDAExecutionProvider",), "cuda:1", "could not load its CUDA provider and would run"),
        (("CUDAExecutionProvider",), "tpu", "'tpu' cannot be used by ONNX Runtime"),
        (("CUDAExecutionProvider",), "cuda:x", "'cuda:x' cannot be used by ONNX Runtime"),
    ],
)
def test_a_cuda_request_never_runs_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, providers: tuple[str, ...], device: str, message: str
) -> None:
    _installed(monkeypatch, "onnxruntime")
    monkeypatch.setitem(sys.modules, "onnxruntime", _runtime(*providers))
    with pytest.raises(DeviceError, match=message) as error:
        _open(device)
    assert isinstance(error.value, KnowgateError)
