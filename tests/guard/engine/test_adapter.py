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

from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.engine.loading import embedded_model_path, merge_adapter
from knowgate.guard.errors import ModelFolderError

IDS = torch.tensor([[101, 2043, 2515, 1996, 3075, 2330, 1029, 102], [101] + [2054] * 6 + [102]])
QUERY = "base_model.model.encoder.layer.0.attention.self.query"


def _model() -> Any:
    return AutoModel.from_pretrained(
        embedded_model_path(), dtype=torch.float32, add_pooling_layer=False
    ).eval()


def _hidden(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=IDS).last_hidden_state
    return found


@pytest.fixture(scope="module")
def base_model() -> Any:
    """Never changed: refused adapters must leave it as it was."""
    return _model()


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


def _merged_by_peft(folder: Path) -> Any:
    # Imported here: it takes seconds, in every process that collects these tests.
    import peft

    return peft.PeftModel.from_pretrained(_model(), str(folder)).merge_and_unload()


def _refused(model: Any, folder: Path, words: str) -> None:
    before = {name: p.clone() for name, p in model.named_parameters()}
    with pytest.raises(ModelFolderError) as error:
        merge_adapter(model, folder)
    line = str(error.value)
    assert words in line
    assert " — " in line
    assert "\n" not in line
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.slow
def test_merging_gives_the_hidden_states_of_pefts_own_merged_model(
    folder: Path, base_model: Any
) -> None:
    ours = _model()
    merge_adapter(ours, folder)
    theirs = _merged_by_peft(folder)

    assert torch.allclose(_hidden(ours), _hidden(theirs), rtol=0, atol=1e-5)
    # The adapter does something, or the comparison would say nothing.
    assert (_hidden(ours) - _hidden(base_model)).abs().max() > 0.01


@pytest.mark.slow
def test_an_encoder_with_an_adapter_reads_texts_by_the_merged_weights(
    folder: Path, trained: TokenEncoder
) -> None:
    model = _merged_by_peft(folder)
    [found] = trained.encode_first(["when does the library open?"])
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(found.ids).long()[None]).last_hidden_state[0]
    expected = torch.nn.functional.normalize(expected, dim=1)
    assert torch.allclose(torch.tensor(found.vectors), expected, rtol=0, atol=1e-5)


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
def test_a_configuration_beyond_plain_lora_is_refused(
    base_model: Any, copy: Path, changes: dict[str, Any]
) -> None:
    _change_config(copy, **changes)
    _refused(base_model, copy, "does not describe a plain LoRA adapter")


@pytest.mark.parametrize("content", ["[]", "null", "{}"])
def test_a_configuration_of_another_shape_is_refused(
    base_model: Any, copy: Path, content: str
) -> None:
    (copy / "adapter_config.json").write_text(content, encoding="utf-8")
    _refused(base_model, copy, "does not describe a plain LoRA adapter")


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_cut_off_weights_file_is_refused(base_model: Any, copy: Path, size: int) -> None:
    path = copy / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    _refused(base_model, copy, "cannot be read as safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({f"{QUERY}.lora_B.weight": None}, "not those of a plain LoRA adapter"),
        ({f"{QUERY}.lora_B.bias": torch.ones(384)}, "not those of a plain LoRA adapter"),
        ({"classifier.weight": torch.ones(2, 384)}, "not those of a plain LoRA adapter"),
        ({f"{QUERY}.lora_A.weight": torch.ones(2, 768)}, "does not fit this model"),
        ({f"{QUERY}.lora_A.weight": torch.ones(384)}, "does not fit this model"),
        ({f"{QUERY}.lora_A.weight": torch.ones(3, 384)}, "does not fit this model"),
        ({f"{QUERY}.lora_A.weight": torch.full((2, 384), torch.nan)}, "NaN or infinity"),
    ],
    ids=["half", "bias", "head", "width", "vector", "rank", "nan"],
)
def test_weights_that_are_not_an_adapters_or_do_not_fit_are_refused(
    base_model: Any, copy: Path, changes: dict[str, torch.Tensor | None], words: str
) -> None:
    _change_weights(copy, changes)
    _refused(base_model, copy, words)


def test_an_adapter_of_other_layers_is_refused_and_adds_nothing(
    base_model: Any, copy: Path
) -> None:
    foreign = QUERY.replace("layer.0", "layer.11")
    tensors = {f"{foreign}.lora_{p}.weight": torch.ones(s) for p, s in _shapes().items()}
    _change_weights(copy, dict(tensors))
    _refused(base_model, copy, "layer.11.attention.self.query' does not fit this model")


def _shapes() -> dict[str, tuple[int, int]]:
    return {"A": (2, 384), "B": (384, 2)}
