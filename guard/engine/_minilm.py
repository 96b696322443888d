"""BERT in plain torch: the embedded all-MiniLM-L6-v2, and cross-encoders.

It computes what the libraries compute with the same weights, step by step, so that fingerprints
and numbers are the same. Importing transformers and sentence-transformers takes several seconds,
which a guard would spend before its first decision; their classes also take longer per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..errors import optional_import
from ..files import read_json
from ._tokenizing import Marks


class PlainBert:
    """The layers of BERT.

    Args:
        weights: by the names that transformers gives them, on one device.
        config: of the model.
        device: where the weights are.
    """

    def __init__(self, weights: Mapping[str, Any], config: Mapping[str, Any], device: Any) -> None:
        self._torch: Any = optional_import("torch")
        self._weights, self.device = dict(weights), device
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self._dense_dtype = self._torch.float32
        # Set while the model is exported: a graph for texts of any length needs the mask.
        self.always_masks = False
        self.attend: Any = self._torch.nn.functional.scaled_dot_product_attention

    def parameters(self) -> Iterable[Any]:
        """The weights, as modules of torch give them."""
        return self._weights.values()

    def reduce_precision(self, dtype: str) -> None:
        """Multiply by the large matrices in `dtype`; sums and norms between stay float32."""
        self._dense_dtype = getattr(self._torch, dtype)
        for name, tensor in self._weights.items():
            if name.startswith("encoder.") and "LayerNorm" not in name:
                self._weights[name] = tensor.to(self._dense_dtype)

    def _hidden(self, ids: Any, mask: Any, types: Any = None) -> Any:
        embedding = self._torch.nn.functional.embedding
        vectors = embedding(ids, self._weights["embeddings.word_embeddings.weight"])
        kinds = self._weights["embeddings.token_type_embeddings.weight"]
        vectors = vectors + (kinds[0] if types is None else embedding(types, kinds))
        positions = self._weights["embeddings.position_embeddings.weight"]
        vectors = self._normed("embeddings", vectors + positions[: ids.shape[1]])
        # Texts of one length need no mask, which is the faster way through attention.
        padded = self.always_masks or not bool(mask.all())
        seen = mask.bool()[:, None, None, :] if padded else None
        for layer in range(self._layers):
            vectors = self._layer(f"encoder.layer.{layer}", vectors, seen)
        return vectors

    def _layer(self, name: str, vectors: Any, seen: Any) -> Any:
        functional = self._torch.nn.functional
        count, length, width = vectors.shape
        lowered = vectors.to(self._dense_dtype)
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", lowered)
            .view(count, length, self._heads, width // self._heads)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        scale = 1.0 / math.sqrt(width // self._heads)
        attended = self.attend(query, key, value, attn_mask=seen, scale=scale)
        attended = attended.transpose(1, 2).contiguous().reshape(count, length, width)
        output = self._linear(f"{name}.attention.output.dense", attended)
        vectors = self._normed(f"{name}.attention.output", output + vectors)
        inner = functional.gelu(self._linear(f"{name}.intermediate.dense", vectors))
        return self._normed(f"{name}.output", self._linear(f"{name}.output.dense", inner) + vectors)

    def _linear(self, name: str, vectors: Any) -> Any:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return self._torch.nn.functional.linear(vectors.to(weight.dtype), weight, bias)

    def _normed(self, name: str, vectors: Any) -> Any:
        weight = self._weights[f"{name}.LayerNorm.weight"]
        bias = self._weights[f"{name}.LayerNorm.bias"]
        return self._torch.nn.functional.layer_norm(
            vectors, weight.shape, weight, bias, self._epsilon
        )


class MiniLM(PlainBert):
    """A BERT encoder with mean pooling, as the embedded model's folder describes it.

    Args:
        folder: with `model.safetensors`, `config.json` and `tokenizer.json`.
        device: torch's name of one; None picks an accelerator where there is one.

    Raises:
        RuntimeError: the device cannot be used.
    """

    def __init__(self, folder: Path, device: str | None) -> None:
        torch: Any = optional_import("torch")
        load: Any = optional_import("safetensors.torch").load_file
        where = torch.device(device or _best_device(torch))
        found = load(str(folder / "model.safetensors"))
        weights = {name: tensor.to(where) for name, tensor in found.items()}
        super().__init__(weights, read_json(folder / "config.json"), where)
        self.max_seq_length = int(read_json(folder / "sentence_bert_config.json")["max_seq_length"])
        self.tokenizer = Marks.read(folder)

    def get_submodule(self, name: str) -> Any:
        """The part called `name`, with its `weight`.

        Raises:
            AttributeError: there is none.
        """
        if f"{name}.weight" not in self._weights:
            raise AttributeError(name)
        return SimpleNamespace(weight=self._weights[f"{name}.weight"])

    def __call__(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Token vectors and sentence embeddings of unit length.

        Args:
            features: `input_ids` and `attention_mask` of shape (texts, length).
        """
        mask = features["attention_mask"]
        vectors = self._hidden(features["input_ids"], mask)
        counted = mask.unsqueeze(-1).expand(vectors.size()).to(vectors.dtype)
        pooled = (vectors * counted).sum(1) / counted.sum(1).clamp(min=1e-9)
        embeddings = self._torch.nn.functional.normalize(pooled, p=2, dim=1)
        return {"token_embeddings": vectors, "sentence_embedding": embeddings}


class BertClassifier(PlainBert):
    """A BERT sequence classifier, with the weights of one of transformers.

    Args:
        model: a `BertForSequenceClassification` whose activation is the exact GELU.
    """

    def __init__(self, model: Any) -> None:
        weights = {name.removeprefix("bert."): one for name, one in model.state_dict().items()}
        super().__init__(weights, model.config.to_dict(), model.device)
        self.config = model.config

    @staticmethod
    def computes(model: Any) -> bool:
        """Whether it gives the numbers of a model of transformers."""
        kind, config = type(model).__name__, model.config
        return kind == "BertForSequenceClassification" and config.hidden_act == "gelu"

    def __call__(
        self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None
    ) -> SimpleNamespace:
        """The logits of rows of ids."""
        first = self._hidden(input_ids, attention_mask, token_type_ids)[:, 0]
        pooled = self._linear("pooler.dense", first).tanh()
        return SimpleNamespace(logits=self._linear("classifier", pooled))


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
