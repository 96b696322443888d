"""LoRA adapters: served like the model in memory, part of the identity, refused when broken."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard.errors import ModelFolderError
from tests.adapters.huggingface.conftest import build_model

PROMPTS = ["Who runs it?", "the thing in the ring", "Where?\nthe"]
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
SETTINGS: dict[str, Any] = {"device": "cpu", "max_new_tokens": 12, "stop": ()}


def adapted(seed: int = 1, **settings: Any) -> Any:
    """The tiny model with an adapter that changes it."""
    import peft

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = peft.LoraConfig(
            r=4,
            lora_alpha=16,
            target_modules=settings.pop("target_modules", "all-linear"),
            # Drawn at random: a fresh adapter changes nothing.
            init_lora_weights=False,
            **settings,
        )
        return peft.get_peft_model(build_model(), config).eval()


@pytest.fixture(scope="module")
def grown() -> Any:
    return adapted()


@pytest.fixture(scope="module")
def adapter(grown: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    grown.save_pretrained(folder, save_embedding_layers=False)
    return folder


@pytest.fixture
def broken(adapter: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(adapter, tmp_path / "adapter"))


@pytest.fixture(scope="module")
def served(folder: Path, adapter: Path) -> HuggingFaceLM:
    return HuggingFaceLM(folder, adapter=adapter, **SETTINGS)


@pytest.fixture(scope="module")
def in_memory(grown: Any, tokenizer: Any) -> HuggingFaceLM:
    return HuggingFaceLM.from_objects(grown, tokenizer, max_new_tokens=12, stop=())


def change(folder: Path, **fields: Any) -> None:
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | fields), encoding="utf-8")


@pytest.mark.slow
def test_a_served_adapter_gives_the_tokens_of_the_one_in_memory(
    served: HuggingFaceLM, in_memory: HuggingFaceLM, lm: HuggingFaceLM
) -> None:
    def texts(one: HuggingFaceLM) -> list[str]:
        greedy = [row[0].text for row in one.generate(PROMPTS)]
        sampled = one.generate(PROMPTS, n=2, temperature=0.7, seed=3)
        return [*greedy, *(sample.text for row in sampled for sample in row)]

    assert texts(served) == texts(in_memory)
    assert texts(served) != texts(lm)


def test_every_other_way_of_asking_goes_through_the_adapter(
    served: HuggingFaceLM, in_memory: HuggingFaceLM, lm: HuggingFaceLM
) -> None:
    options = [" (A)", " the"]

    assert served.score_options(PROMPTS, options) == pytest.approx(
        in_memory.score_options(PROMPTS, options), abs=1e-3
    )
    assert served.generate_contrastive(PROMPTS, PROMPTS[::-1]) == in_memory.generate_contrastive(
        PROMPTS, PROMPTS[::-1]
    )
    assert served.hidden_states(PROMPTS, -1) == pytest.approx(
        in_memory.hidden_states(PROMPTS, -1), abs=1e-3
    )
    assert "".join(served.stream(PROMPTS[0])) == served.generate(PROMPTS[:1])[0][0].text
    assert served.score_options(PROMPTS, options) != pytest.approx(
        lm.score_options(PROMPTS, options), abs=1e-3
    )


def test_the_fingerprint_covers_the_adapters_bytes_and_the_name_says_both(
    served: HuggingFaceLM, folder: Path, adapter: Path, broken: Path
) -> None:
    plain = HuggingFaceLM(folder, **SETTINGS)
    same = HuggingFaceLM(folder, adapter=adapter, **SETTINGS)
    path = broken / "adapter_model.safetensors"
    save_file({name: 1.5 * tensor for name, tensor in load_file(path).items()}, path)
    other = HuggingFaceLM(folder, adapter=broken, **SETTINGS)

    assert same.fingerprint == served.fingerprint
    assert len({plain.fingerprint, served.fingerprint, other.fingerprint}) == 3
    assert served.weights_sha256 == plain.weights_sha256
    assert str(folder) in served.name
    assert str(adapter) in served.name


@pytest.mark.parametrize("kind", [{"use_rslora": True}, {"use_dora": True}])
def test_other_scalings_are_pefts_own(
    kind: dict[str, Any], folder: Path, tokenizer: Any, tmp_path: Path
) -> None:
    grown = adapted(**kind)
    grown.save_pretrained(tmp_path, save_embedding_layers=False)
    in_memory = HuggingFaceLM.from_objects(grown, tokenizer, max_new_tokens=12, stop=())

    served = HuggingFaceLM(folder, adapter=tmp_path, **SETTINGS)

    assert served.score_options(PROMPTS, [" the"]) == pytest.approx(
        in_memory.score_options(PROMPTS, [" the"]), abs=1e-3
    )


def _with_nan(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    next(iter(tensors.values()))[0, 0] = float("nan")
    save_file(tensors, path)


def _incomplete(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    del tensors[next(iter(tensors))]
    save_file(tensors, path)


def _of_other_weights(folder: Path) -> None:
    (folder / "training.json").write_text(
        json.dumps({"identity": {"base_sha256": "0" * 64}}), encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shutil.rmtree, "no such adapter folder"),
        (lambda folder: (folder / CONFIG).unlink(), "has no adapter_config.json"),
        (
            lambda folder: (folder / CONFIG).rename(folder / "config.json"),
            "holds a model, not an adapter",
        ),
        (lambda folder: (folder / WEIGHTS).unlink(), "has no weights"),
        (
            lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"),
            "only pickled weights",
        ),
        (lambda folder: os.truncate(folder / WEIGHTS, 500), "cannot be read as safetensors"),
        (lambda folder: (folder / CONFIG).write_text("{"), "broken JSON"),
        (_with_nan, "holds NaN or infinity"),
        (_incomplete, "weights and its configuration differ"),
        (_of_other_weights, "was trained on other weights"),
        (lambda folder: change(folder, peft_type="IA3"), "a plain LoRA adapter .peft_type"),
        (lambda folder: change(folder, r=8), "does not fit this model"),
        (lambda folder: change(folder, modules_to_save=["norm"]), "a plain LoRA adapter"),
        (
            lambda folder: change(folder, megatron_config={"a": 1}, megatron_core="os"),
            "a plain LoRA adapter .megatron_config",
        ),
    ],
)
def test_a_bad_adapter_is_refused_in_one_line(
    spoil: Callable[[Path], None], said: str, folder: Path, broken: Path
) -> None:
    spoil(broken)

    with pytest.raises(ModelFolderError, match=said) as caught:
        HuggingFaceLM(folder, adapter=broken, **SETTINGS)

    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_an_adapter_of_an_output_layer_shared_with_the_embeddings_is_refused(
    folder: Path, tokenizer: Any, tmp_path: Path
) -> None:
    build_model(tie_word_embeddings=True).save_pretrained(tmp_path / "tied")
    tokenizer.save_pretrained(tmp_path / "tied")
    grown = adapted(target_modules=["q_proj", "lm_head"])
    grown.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)

    HuggingFaceLM(folder, adapter=tmp_path / "adapter", **SETTINGS)
    with pytest.raises(ModelFolderError, match="shares with its embeddings"):
        HuggingFaceLM(tmp_path / "tied", adapter=tmp_path / "adapter", **SETTINGS)
