"""BERT in plain torch: the embedded all-MiniLM-L6-v2, and cross-encoders.

It computes what the libraries compute with the same weights, step by step, so that fingerprints
and numbers are the same. Importing transformers and sentence-transformers takes several seconds,
which a guard would spend before its first decision; their classes also take longer per row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..deadlines import check_deadline
from ..errors import optional_import
from ..files import read_json
from ._tokenizing import Marks
from .backends import Ids


class PlainBert(ABC):
    """The layers of BERT.

    Args:
        weights: by the names that transformers gives them, on one device.
        config: of the model.
        device: where the weights are.
    """

    def __init__(self, weights: Mapping[str, Any], config: Mapping[str, Any], device: Any) -> None:
        self._torch: Any = optional_import("torch")
        # Laid out so that a float32 product reads them in the order in which they lie.
        self._weights = {
            name: tensor.t().contiguous().t() if _is_dense(name) and tensor.ndim == 2 else tensor
            for name, tensor in weights.items()
        }
        self.device = device
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self._dense_dtype = self._torch.float32
        # Set while the model is exported: a graph for texts of any length needs the mask.
        self.always_masks = False
        self.attend: Any = self._torch.nn.functional.scaled_dot_product_attention

    @property
    def weights(self) -> Mapping[str, Any]:
        """The weights by name."""
        return self._weights

    def parameters(self) -> Iterable[Any]:
        """The weights, as modules of torch give them."""
        return self._weights.values()

    def reduce_precision(self, dtype: str) -> None:
        """Multiply by the large matrices in `dtype`; sums and norms between stay float32."""
        self._dense_dtype = getattr(self._torch, dtype)
        for name, tensor in self._weights.items():
            if _is_dense(name):
                self._weights[name] = tensor.to(self._dense_dtype).contiguous()

    def packed(self, rows: Sequence[Ids], types: Sequence[Ids] | None = None) -> list[Any]:
        """What the model gives for each of several rows of any lengths, computed together.

        The rows follow each other in one long row, without padding; in attention each sees
        itself alone. A product lays out its weights once for all of them.

        Args:
            rows: word-piece ids, special ones included.
            types: token types of each row, for models that take them.

        Raises:
            DeadlineExceededError: nobody waits for the result any more.
        """
        torch, lengths = self._torch, [len(row) for row in rows]
        flat, kinds = (
            None if one is None else torch.from_numpy(np.concatenate(one).astype(np.int64))
            for one in (rows, types)
        )
        places = torch.cat([torch.arange(length) for length in lengths])

        def attended(*parts: Any) -> Any:
            # Once per layer: all of them may take several times as long as one row alone.
            check_deadline()
            found = zip(*(part.split(lengths) for part in parts), strict=True)
            return torch.cat([self._attended(*(one[None] for one in row))[0] for row in found])

        vectors = self._through_layers(self._embedded(flat, places, kinds), attended)
        return [
            self._finished(one[None], torch.ones(1, len(one), dtype=torch.long))
            for one in vectors.split(lengths)
        ]

    @abstractmethod
    def _finished(self, vectors: Any, mask: Any) -> Any:
        """What the model gives, from its last vectors, of shape (rows, length, dimensions)."""

    def _hidden(self, ids: Any, mask: Any, types: Any = None) -> Any:
        # Texts of one length need no mask, which is the faster way through attention.
        padded = self.always_masks or not bool(mask.all())
        seen = mask.bool()[:, None, None, :] if padded else None
        vectors = self._embedded(ids, slice(ids.shape[1]), types)
        return self._through_layers(vectors, partial(self._attended, seen=seen))

    def _embedded(self, ids: Any, places: Any, types: Any) -> Any:
        embedding = self._torch.nn.functional.embedding
        vectors = embedding(ids, self._weights["embeddings.word_embeddings.weight"])
        kinds = self._weights["embeddings.token_type_embeddings.weight"]
        vectors = vectors + (kinds[0] if types is None else embedding(types, kinds))
        positions = self._weights["embeddings.position_embeddings.weight"]
        return self._normed("embeddings", vectors + positions[places])

    def _through_layers(self, vectors: Any, attended: Callable[..., Any]) -> Any:
        for layer in range(self._layers):
            vectors = self._layer(f"encoder.layer.{layer}", vectors, attended)
        return vectors

    def _attended(self, query: Any, key: Any, value: Any, seen: Any = None) -> Any:
        count, length, width = query.shape
        query, key, value = (
            one.view(count, length, self._heads, width // self._heads).transpose(1, 2)
            for one in (query, key, value)
        )
        scale = 1.0 / math.sqrt(width // self._heads)
        attended = self.attend(query, key, value, attn_mask=seen, scale=scale)
        return attended.transpose(1, 2).contiguous().reshape(count, length, width)

    def _layer(self, name: str, vectors: Any, attended: Callable[..., Any]) -> Any:
        functional = self._torch.nn.functional
        lowered = vectors.to(self._dense_dtype)
        parts = (
            self._linear(f"{name}.attention.self.{part}", lowered)
            for part in ("query", "key", "value")
        )
        output = self._linear(f"{name}.attention.output.dense", attended(*parts))
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
        self.config: Mapping[str, Any] = read_json(folder / "config.json")
        super().__init__(weights, self.config, where)
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
        return self._finished(self._hidden(features["input_ids"], mask), mask)

    def _finished(self, vectors: Any, mask: Any) -> dict[str, Any]:
        counted = mask.unsqueeze(-1).expand(vectors.size()).to(vectors.dtype)
        pooled = (vectors * counted).sum(1) / counted.sum(1).clamp(min=1e-9)
        embeddings = self._torch.nn.functional.normalize(pooled, p=2, dim=1)
        return {"token_embeddings": vectors, "sentence_embedding": embeddings}


class BertClassifier(PlainBert):
    """A BERT sequence classifier with one or more logits.

    Args:
        weights: by the names that transformers gives them, without `bert.`.
        config: of the model.
        device: where the weights are.
        labels: names of the logits.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        config: Mapping[str, Any],
        device: Any,
        labels: Mapping[int, str],
    ) -> None:
        super().__init__(weights, config, device)
        self.config = SimpleNamespace(architectures=None, id2label=dict(labels))

    @classmethod
    def of(cls, model: Any) -> BertClassifier:
        """Compute what a `BertForSequenceClassification` does; see `computes`."""
        weights = {name.removeprefix("bert."): one for name, one in model.state_dict().items()}
        found = cls(weights, model.config.to_dict(), model.device, {})
        found.config = model.config
        return found

    @classmethod
    def on_top_of(cls, encoder: MiniLM, head: Mapping[str, Any]) -> BertClassifier:
        """Take the layers of an encoder, and of `head` the pooler and the classifier of one logit.

        Raises:
            ValueError: the head has other weights.
        """
        width = encoder.config["hidden_size"]
        shapes = {
            "pooler.dense.weight": (width, width),
            "pooler.dense.bias": (width,),
            "classifier.weight": (1, width),
            "classifier.bias": (1,),
        }
        if {name: tuple(one.shape) for name, one in head.items()} != shapes:
            raise ValueError(sorted(head))
        own = {name: one.float().to(encoder.device) for name, one in head.items()}
        weights = {**encoder.weights, **own}
        return cls(weights, encoder.config, encoder.device, {0: "sufficient"})

    @staticmethod
    def computes(model: Any) -> bool:
        """Whether it gives the numbers of a model of transformers."""
        kind, config = type(model).__name__, model.config
        return kind == "BertForSequenceClassification" and config.hidden_act == "gelu"

    def __call__(
        self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None
    ) -> SimpleNamespace:
        """The logits of rows of ids."""
        vectors = self._hidden(input_ids, attention_mask, token_type_ids)
        return self._finished(vectors, attention_mask)

    def _finished(self, vectors: Any, mask: Any) -> SimpleNamespace:
        pooled = self._linear("pooler.dense", vectors[:, 0]).tanh()
        return SimpleNamespace(logits=self._linear("classifier", pooled))


def _is_dense(name: str) -> bool:
    """Whether a weight is one of the large matrices or their biases."""
    return name.startswith("encoder.") and "LayerNorm" not in name


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
