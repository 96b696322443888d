"""Model folders, devices and identity: what is refused, and with which words."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from knowgate.adapters.huggingface import HuggingFaceLM, LoadOptions
from knowgate.adapters.huggingface._loading import choose_dtype
from knowgate.guard.engine.model_folder import model_folder
from knowgate.guard.errors import ModelFolderError

Copy = Callable[..., Path]


def test_a_saved_model_answers_as_the_one_in_memory(lm: HuggingFaceLM, folder: Path) -> None:
    loaded = HuggingFaceLM(folder, device="cpu", max_new_tokens=12, stop=())

    assert loaded.generate(["saved"]) == lm.generate(["saved"])
    assert loaded.device == "cpu"
    assert loaded.dtype == "float32"
    assert loaded.context_window == 256


def test_a_wrong_sha256_is_refused(folder: Path) -> None:
    with pytest.raises(ModelFolderError, match="not the expected 0000"):
        HuggingFaceLM(folder, loading=LoadOptions(sha256="0" * 64))


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("model.safetensors",), "has no weights"),
        (("config.json",), "has no config.json"),
        (("tokenizer.json",), "has no tokenizer"),
    ],
)
def test_an_incomplete_folder_is_refused_in_one_line(
    copy_of: Copy, missing: tuple[str, ...], said: str
) -> None:
    broken = copy_of(without=missing)

    with pytest.raises(ModelFolderError, match=said) as caught:
        HuggingFaceLM(broken)

    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_pickled_weights_are_never_loaded(copy_of: Copy) -> None:
    broken = copy_of(without=("model.safetensors",))
    (broken / "pytorch_model.bin").write_bytes(b"pickle")

    with pytest.raises(ModelFolderError, match="only pickled weights"):
        HuggingFaceLM(broken)


def test_weights_with_a_missing_tensor_are_refused_not_filled_at_random(copy_of: Copy) -> None:
    broken = copy_of()
    tensors = load_file(broken / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    before = torch.get_rng_state()

    with pytest.raises(ModelFolderError, match=r"lack 1 tensors, e.g. model.norm.weight"):
        HuggingFaceLM(broken)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_whose_code_would_have_to_run_is_refused(copy_of: Copy) -> None:
    broken = copy_of()
    (broken / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoModelForCausalLM": "evil.Model"}})
    )
    (broken / "evil.py").write_text("raise SystemExit('ran')")

    with pytest.raises(ModelFolderError, match="names code to load"):
        HuggingFaceLM(broken)


def test_an_adapter_folder_is_told_from_a_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")

    with pytest.raises(ModelFolderError, match="holds an adapter"):
        HuggingFaceLM(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_answers_as_the_cpu_does(folder: Path, prompts: list[str]) -> None:
    cpu = HuggingFaceLM(folder, device="cpu", max_new_tokens=8, stop=())
    cuda = HuggingFaceLM(folder, device="cuda", dtype="float32", max_new_tokens=8, stop=())

    same = [
        a == b
        for [a], [b] in zip(
            ([x.text for x in row] for row in cpu.generate(prompts[:50])),
            ([x.text for x in row] for row in cuda.generate(prompts[:50])),
            strict=True,
        )
    ]

    assert sum(same) >= 48


def test_loading_leaves_the_random_state_alone(folder: Path) -> None:
    before = torch.get_rng_state(), random.getstate()

    HuggingFaceLM(folder)

    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_the_fingerprint_follows_weights_and_settings(
    folder: Path, model: Any, tokenizer: Any
) -> None:
    one = HuggingFaceLM(folder)
    one.generate(["a call changes nothing"])

    assert HuggingFaceLM(folder).fingerprint == one.fingerprint
    assert HuggingFaceLM(folder, stop=("x",)).fingerprint != one.fingerprint
    assert HuggingFaceLM(folder, dtype="bfloat16").fingerprint != one.fingerprint
    in_memory = HuggingFaceLM.from_objects(model, tokenizer)
    assert in_memory.fingerprint == HuggingFaceLM.from_objects(model, tokenizer).fingerprint


def test_cuda_computes_in_bfloat16_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert choose_dtype("auto", cuda) is torch.bfloat16
    assert choose_dtype("float32", cuda) is torch.float32
    assert choose_dtype("auto", torch.device("cpu")) is torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert choose_dtype("auto", cuda) == "auto"


def test_layers_can_be_spread_over_devices(folder: Path) -> None:
    pytest.importorskip("accelerate")
    spread = HuggingFaceLM(folder, loading=LoadOptions(device_map="cpu"))
    plain = HuggingFaceLM(folder, device="cpu")
    assert spread.generate(["the library", "x"]) == plain.generate(["the library", "x"])
    assert spread.fingerprint == plain.fingerprint


def test_the_fingerprint_follows_the_configuration(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    same = HuggingFaceLM(other).fingerprint
    assert same == HuggingFaceLM(folder).fingerprint
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config["rms_norm_eps"] = 1e-3
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert HuggingFaceLM(other).fingerprint != same
    config["rms_norm_eps"], config["transformers_version"] = 1e-6, "0"
    (other / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    assert HuggingFaceLM(other).fingerprint == same


def test_a_hub_name_may_lack_its_owner_and_a_file_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(name: str, **_: Any) -> str:
        return f"downloaded/{name}"

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.safetensors").touch()

    assert model_folder("gpt2", bare=True) == Path("downloaded/gpt2")
    for path in ("./gpt2", "model.safetensors"):
        with pytest.raises(ModelFolderError, match="neither a model folder nor a hub id"):
            model_folder(path, bare=True)
