"""Model folders of a few kilobytes with random weights, to damage."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

WORDS = [
    "when",
    "is",
    "the",
    "library",
    "open",
    "from",
    "nine",
    "to",
    "six",
    "a",
    "dog",
    "can",
    "swim",
    "?",
    ".",
]
_VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "Library", "Dog"]
DIMENSIONS = 16


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, with the folders on the way to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def change_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON object in a file."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    write_json(path, {**found, **changes})


def tiny_encoder(folder: Path) -> Path:
    """Write a sentence-transformers folder: transformer, pooling, dense layer, normalisation."""
    import torch
    from safetensors.torch import save_file

    _tokenizer(folder)
    torch.manual_seed(0)
    _transformers().BertModel(_transformers().BertConfig(**_shape())).save_pretrained(folder)
    pooling = {"word_embedding_dimension": DIMENSIONS, "pooling_mode_mean_tokens": True}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    dense = {
        "in_features": DIMENSIONS,
        "out_features": DIMENSIONS,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    write_json(folder / "2_Dense" / "config.json", dense)
    weights = {
        "linear.weight": torch.randn(DIMENSIONS, DIMENSIONS),
        "linear.bias": torch.randn(DIMENSIONS),
    }
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    (folder / "3_Normalize").mkdir()
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": _type(kind)}
        for i, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})
    prompts = {"prompts": {"query": "", "document": ""}, "default_prompt_name": None}
    write_json(folder / "config_sentence_transformers.json", prompts)
    return folder


def tiny_entailment_model(folder: Path) -> Path:
    """Write a sequence classifier as `CrossEncoderEntailment` takes it."""
    return _classifier(folder, {0: "contradiction", 1: "entailment", 2: "neutral"})


def tiny_cross_encoder(folder: Path) -> Path:
    """Write a sequence classifier with one label, as `CrossEncoderScorer` takes it."""
    return _classifier(folder, {0: "relevance"})


def _classifier(folder: Path, labels: dict[int, str]) -> Path:
    import torch

    _tokenizer(folder)
    torch.manual_seed(0)
    numbers = {name: number for number, name in labels.items()}
    # Weights so large that logits differ.
    shape = {**_shape(), "initializer_range": 0.5}
    config = _transformers().BertConfig(**shape, id2label=labels, label2id=numbers)
    _transformers().BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def _type(kind: str) -> str:
    return f"sentence_transformers.models.{kind}"


def _transformers() -> Any:
    return import_module("transformers")


def _shape() -> dict[str, int]:
    return {
        "vocab_size": len(_VOCABULARY),
        "hidden_size": DIMENSIONS,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": DIMENSIONS,
        "max_position_embeddings": 64,
    }


def _tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    words = {word: i for i, word in enumerate(_VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    _transformers().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)


def tiny_language_model(folder: Path) -> Path:
    """Write a causal language model, as `HuggingFaceLM` takes it."""
    import torch

    _tokenizer(folder)
    torch.manual_seed(0)
    shape = {name: value for name, value in _shape().items() if name != "type_vocab_size"}
    config = _transformers().LlamaConfig(**shape, num_key_value_heads=2)
    _transformers().LlamaForCausalLM(config).save_pretrained(folder)
    return folder
