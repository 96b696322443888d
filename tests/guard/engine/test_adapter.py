"""LoRA adapters: what is merged is what peft merges, and nothing else is taken for one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from knowgate.guard.engine.embedded import save_embedded
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import ModelFolderError

QUERY = "base_model.model.encoder.layer.0.attention.self.query"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled encoder as transformers reads it."""
    folder = tmp_path_factory.mktemp("models") / "embedded"
    save_embedded(folder)
    return folder


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy of the adapter, to damage."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def _change_config(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps(config), encoding="utf-8")


def _change_weights(folder: Path, changes: dict[str, torch.Tensor | None]) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = {**load_file(path), **changes}
    save_file({name: t for name, t in tensors.items() if t is not None}, path)


def _merged_by_peft(plain: Path, folder: Path) -> Any:
    # Imported here: it takes seconds, in every process that collects these tests.
    import peft

    model = AutoModel.from_pretrained(plain, dtype=torch.float32, add_pooling_layer=False).eval()
    return peft.PeftModel.from_pretrained(model, str(folder)).merge_and_unload()


def _refused(folder: Path, words: str) -> None:
    with pytest.raises(ModelFolderError) as error:
        TokenEncoder(adapter=folder, device="cpu")
    line = str(error.value)
    assert words in line
    assert " — " in line
    assert "\n" not in line


@pytest.mark.slow
def test_an_encoder_with_an_adapter_reads_texts_by_pefts_own_merged_weights(
    plain: Path, folder: Path, trained: TokenEncoder, base: TokenEncoder
) -> None:
    model = _merged_by_peft(plain, folder)
    [found] = trained.encode_first(["when does the library open?"])
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(found.ids).long()[None]).last_hidden_state[0]
    expected = torch.nn.functional.normalize(expected, dim=1)
    assert torch.allclose(torch.tensor(found.vectors), expected, rtol=0, atol=1e-5)
    # The adapter does something, or the comparison would say nothing.
    [other] = base.encode_first(["when does the library open?"])
    assert abs(found.vectors - other.vectors).max() > 0.01


@pytest.mark.parametrize(
    "changes",
    [
        {"peft_type": "IA3"},
        {"use_dora": True},
        {"use_rslora": True},
        {"lora_bias": True},
        {"modules_to_save": ["pooler"]},
        {"rank_pattern": {"query": 4}},
        {"bias": "all"},
        {"r": 0},
        {"r": "two"},
        {"lora_alpha": None},
        {"lora_alpha": float("nan")},
    ],
    ids=str,
)
def test_a_configuration_beyond_plain_lora_is_refused(copy: Path, changes: dict[str, Any]) -> None:
    _change_config(copy, **changes)
    _refused(copy, "does not describe a plain LoRA adapter")


def test_an_adapter_of_other_layers_is_refused_and_adds_nothing(copy: Path) -> None:
    foreign = QUERY.replace("layer.0", "layer.11")
    tensors = {f"{foreign}.lora_{p}.weight": torch.ones(s) for p, s in _shapes().items()}
    _change_weights(copy, dict(tensors))
    _refused(copy, "layer.11.attention.self.query' does not fit this model")


def _shapes() -> dict[str, tuple[int, int]]:
    return {"A": (2, 384), "B": (384, 2)}
