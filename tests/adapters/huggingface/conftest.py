"""A tiny random Llama with a byte-level tokenizer, both made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM

WINDOW = 256


def build_tokenizer(**special: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1, **{piece: 2 + at for at, piece in enumerate(alphabet)}}
    # Merged pieces, so that some tokens are longer than a byte.
    vocabulary |= {"the": 258, "ing": 259, "Ġthe": 260, ".Ċ": 261}
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("in", "g"), ("Ġ", "the"), (".", "Ċ")]
    vocabulary |= {"th": 262, "in": 263}
    raw = Tokenizer(models.BPE(vocabulary, merges))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer_class: Any = PreTrainedTokenizerFast
    return tokenizer_class(
        tokenizer_object=raw, **{"bos_token": "<s>", "eos_token": "</s>", **special}
    )


def build_model(seed: int = 0, **settings: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=264,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        # Wide enough for clear winners among the tokens: a flat model would tie.
        initializer_range=0.25,
        bos_token_id=0,
        eos_token_id=1,
        **settings,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
        return model.eval()


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[..., Any]:
    return build_tokenizer


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    return build_model


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return build_tokenizer()


@pytest.fixture(scope="session")
def model() -> Any:
    return build_model()


@pytest.fixture(scope="session")
def lm(model: Any, tokenizer: Any) -> HuggingFaceLM:
    return HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=12, batch_size=16, stop=())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, model: Any, tokenizer: Any) -> Path:
    path = tmp_path_factory.mktemp("lm")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    return [f"{'word ' * (n % 9)}question {n}: what is {n * 37 % 101}?" for n in range(200)]


@pytest.fixture
def copy_of(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy of the model folder without some files."""

    def make(without: tuple[str, ...] = ()) -> Path:
        target = tmp_path / "copy"
        target.mkdir()
        for file in folder.iterdir():
            if file.name not in without:
                (target / file.name).write_bytes(file.read_bytes())
        return target

    return make


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Threads cost a tiny model more than they give, above all on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
