"""Models of a few kilobytes with random weights that read question and passage together."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from tools.attack.tiny_models import WORDS

# How Qwen3-Reranker is asked, as a chat template with the roles of sentence-transformers.
QWEN3_CHAT = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and"
    ' the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    'answer the query\n<Query>: {{ (messages | selectattr("role", "eq", "query") | first).content'
    ' }}\n<Document>: {{ (messages | selectattr("role", "eq", "document") | first).content }}'
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>{{ '\n\n' }}"
)
_BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
_QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def write_pair_model(folder: Path, architecture: str, **settings: Any) -> Path:
    """Write a model with random weights, and the tokenizer of its family.

    Args:
        folder: new.
        architecture: a class of transformers.
        settings: of its configuration, in place of those that make it small.
    """
    import torch

    library: Any = import_module("transformers")
    network = getattr(library, architecture)
    family = network.config_class.model_type
    tokenizer = _tokenizer(family)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 2048 if family.startswith("qwen") else 66,
        "pad_token_id": tokenizer.pad_token_id,
        # Weights so large that scores differ.
        "initializer_range": 0.5,
        **({"embedding_size": 16} if family == "electra" else {"head_dim": 8}),
        **({"type_vocab_size": 0, "relative_attention": True} if family == "deberta-v2" else {}),
        **settings,
    }
    if family == "modernbert":
        shape.update(initializer_cutoff_factor=3.0, cls_token_id=2, sep_token_id=3)
    torch.manual_seed(0)
    network(network.config_class(**shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(family: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    make = import_module("transformers").PreTrainedTokenizerFast
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    if family.startswith("qwen"):
        words = ["yes", "no", *letters]
        found = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.decoder = decoders.ByteLevel()
        return make(
            tokenizer_object=found,
            pad_token=_QWEN[0],
            eos_token=_QWEN[2],
            additional_special_tokens=_QWEN[1:],
            model_input_names=["input_ids", "attention_mask"],
            model_max_length=131072,
            chat_template=QWEN3_CHAT,
        )
    if "roberta" in family:
        words = [*_ROBERTA, *letters]
        found = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
        return make(
            tokenizer_object=found,
            cls_token="<s>",
            sep_token="</s>",
            model_input_names=["input_ids", "attention_mask"],
            model_max_length=64,
            **dict(zip(names, _ROBERTA, strict=True)),
        )
    words = [*_BERT, *WORDS]
    found = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    types = [] if family == "modernbert" else ["token_type_ids"]
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return make(
        tokenizer_object=found,
        model_input_names=["input_ids", *types, "attention_mask"],
        model_max_length=64,
        **dict(zip(names, _BERT, strict=True)),
    )
