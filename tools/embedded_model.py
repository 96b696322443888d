"""Write the bundled encoder: all-MiniLM-L6-v2 in int8, and the graphs that compute it.

    python -m tools.embedded_model FOLDER

FOLDER holds sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) with `model.safetensors`. Every
word's vector becomes int8 with one scale, every matrix of a product int8 with one scale for 32
numbers of an output, rounded to nearest; all else stays float32.
Four graphs, without weights, are written beside: encoder and cross-encoder, each with products in
float32 and in int8. Prints the sha256 of every file, which stand in `guard/model_files.py`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import load_file, save_file

from knowgate.guard.engine.embedded import DATA, ENCODER_WEIGHTS, GROUP, SCALE, WORDS
from knowgate.guard.files import file_sha256

_EPSILON = 1e-12
# Of ONNX Runtime's own operators.
_OWN = "com.microsoft"
_OPSET, _IR = 20, 10
# Files that other libraries need beside the weights, in one file here.
_CONFIGURATION = (
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a BERT-like encoder: how many layers, heads and numbers a vector and an inner one have."""

    layers: int
    heads: int = 12
    width: int = 384
    inner: int = 1536


class Graph:
    """A graph that reads words and vectors from the file of weights beside it.

    The matrices of products are given when it is loaded.

    Args:
        weights: the file; None for a graph that is given all its weights.
        int8: whether products with weights are computed in integers.
        size: of the encoder.
    """

    name = "all-MiniLM-L6-v2"

    def __init__(self, weights: Path | None, *, int8: bool, size: Size = Size(6)) -> None:
        self._weights, self._int8, self._size = weights, int8, size
        self._begin = 0
        self._places: dict[str, Any] = {}
        if weights is not None:
            with weights.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                self._places = json.loads(file.read(length))
            self._begin = 8 + length
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def encoder(self) -> bytes:
        """Ids to token vectors and a text vector of unit length."""
        width = self._size.width
        self._layers(self._embedded(types=False), {self._size.layers - 1: "token_vectors"})
        self._text_vector("token_vectors")
        return self._with_vectors(width)

    def _text_vector(self, vectors: str) -> None:
        """The mean of a text's vectors, of unit length."""
        mask = self._do("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        counted = self._do("Unsqueeze", [mask, self._values("axis_2", [2])])
        kept = self._do("Mul", [vectors, counted])
        total = self._do("ReduceSum", [kept, self._values("axis_1", [1])], keepdims=0)
        length = self._do("ReduceL2", [total, self._values("axis_1", [1])])
        self._do("Div", [total, length], "text_vector")

    def _with_vectors(self, width: int) -> bytes:
        """The graph of an encoder whose token vectors have so many numbers."""
        return self._written(
            ["input_ids", "attention_mask"],
            {
                "token_vectors": ["rows", "length", width],
                "text_vector": ["rows", self._size.width],
            },
        )

    def cross_encoder(self) -> bytes:
        """Ids and token types of pairs to one logit each."""
        width = self._size.width
        self._layers(self._embedded(types=True), {self._size.layers - 1: "last"})
        first = self._do("Gather", ["last", self._values("place", 0)], axis=1)
        pooled = self._do("Tanh", [self._product(first, "pooler.dense", width, width)])
        self._do("Identity", [self._product(pooled, "classifier", width, 1)], "logits")
        return self._written(
            ["input_ids", "attention_mask", "token_type_ids"], {"logits": ["rows", 1]}
        )

    def _embedded(self, *, types: bool) -> str:
        ids, words = "input_ids", self._words()
        name = "embeddings.token_type_embeddings.weight"
        of_type = "token_type_ids" if types else self._values("first_type", 0)
        kinds = self._do("Gather", [self._stored(name), of_type])
        zero, length = self._values("start", [0]), self._do("Shape", [ids], start=1, end=2)
        places = self._stored("embeddings.position_embeddings.weight")
        places = self._do("Slice", [places, zero, length, zero])
        summed = self._do("Add", [self._do("Add", [words, kinds]), places])
        norm = [self._stored(f"embeddings.LayerNorm.{one}") for one in ("weight", "bias")]
        return self._do("LayerNormalization", [summed, *norm], epsilon=_EPSILON)

    def _words(self) -> str:
        words = self._do("Gather", [self._stored(WORDS), "input_ids"])
        scale = self._do("Gather", [self._stored(WORDS + SCALE), "input_ids"])
        return self._do("Mul", [self._do("Cast", [words], to=TensorProto.FLOAT), scale])

    def _layers(self, vectors: str, outputs: Mapping[int, str]) -> None:
        """All layers; what some of them give is called as `outputs` says."""
        layers, heads = self._size.layers, self._size.heads
        width, inner_width = self._size.width, self._size.inner
        mask = self._do("Cast", ["attention_mask"], to=TensorProto.INT32)
        for layer in range(layers):
            name = f"encoder.layer.{layer}"
            wide = self._product(vectors, f"{name}.attention.self.qkv", width, 3 * width)
            parts = [f"{name}.{part}" for part in ("query", "key", "value")]
            self._nodes.append(helper.make_node("Split", [wide], parts, axis=-1, num_outputs=3))
            seen = self._do("MultiHeadAttention", [*parts, "", mask], domain=_OWN, num_heads=heads)
            seen = self._product(seen, f"{name}.attention.output.dense", width, width)
            vectors = self._normed(seen, vectors, f"{name}.attention.output")
            inner = self._product(vectors, f"{name}.intermediate.dense", width, inner_width)
            inner = self._do("Gelu", [inner])
            inner = self._product(inner, f"{name}.output.dense", inner_width, width)
            vectors = self._normed(inner, vectors, f"{name}.output", outputs.get(layer, ""))

    def _normed(self, added: str, vectors: str, name: str, output: str = "") -> str:
        norm = [self._stored(f"{name}.LayerNorm.{one}") for one in ("weight", "bias")]
        inputs = [added, vectors, *norm]
        return self._do("SkipLayerNormalization", inputs, output, domain=_OWN, epsilon=_EPSILON)

    def _product(self, vectors: str, name: str, width: int, outputs: int) -> str:
        in_layers = name.startswith("encoder.")
        bias = f"{name}.bias"
        bias = self._stored(bias) if in_layers else self._given(bias, (outputs,))
        whole = in_layers and self._int8
        kind = TensorProto.INT8 if whole else TensorProto.FLOAT
        weight = self._given(f"{name}.weight", (width, outputs), kind)
        if not whole:
            return self._do("Add", [self._do("MatMul", [vectors, weight]), bias])
        scale = self._given(f"{name}.weight{SCALE}", (outputs,))
        inputs = [vectors, weight, scale, "", bias]
        return self._do("DynamicQuantizeMatMul", inputs, domain=_OWN)

    def _do(self, operator: str, inputs: list[str], output: str = "", **settings: Any) -> str:
        output = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], **settings))
        return output

    def _given(self, name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> str:
        """A constant that is given when the graph is loaded."""
        return self._outside(name, kind, shape, {"location": "given"})

    def _stored(self, name: str) -> str:
        """A constant that stands in the file of weights."""
        found = self._places[name]
        kind = {"I8": TensorProto.INT8, "F32": TensorProto.FLOAT}[found["dtype"]]
        begin, end = found["data_offsets"]
        where = {
            "location": ENCODER_WEIGHTS,
            "offset": str(self._begin + begin),
            "length": str(end - begin),
        }
        return self._outside(name, kind, found["shape"], where)

    def _outside(self, name: str, kind: int, shape: Sequence[int], where: Mapping[str, str]) -> str:
        found = TensorProto(name=name, data_type=kind, dims=shape)
        found.data_location = TensorProto.EXTERNAL
        for key, value in where.items():
            found.external_data.add(key=key, value=value)
        self._constants[name] = found
        return name

    def _values(self, name: str, values: Any) -> str:
        self._constants[name] = onnx.numpy_helper.from_array(np.asarray(values, np.int64), name)
        return name

    def _written(self, inputs: list[str], outputs: dict[str, list[Any]]) -> bytes:
        def value(name: str, kind: int, shape: list[Any]) -> Any:
            return helper.make_tensor_value_info(name, kind, shape)

        graph = helper.make_graph(
            self._nodes,
            self.name,
            [value(name, TensorProto.INT64, ["rows", "length"]) for name in inputs],
            [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_OWN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        written: bytes = model.SerializeToString(deterministic=True)
        return written


def quantised(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix as int8, and the scales of its last axis.

    Example:
        >>> whole, scale = quantised(np.array([[1.27, -0.4], [0.0, 0.0]], dtype=np.float32))
        >>> whole.tolist(), scale.round(4).tolist()
        ([[127, -40], [0, 0]], [[0.01], [1.0]])
    """
    scale = np.abs(matrix).max(axis=-1, keepdims=True) / np.float32(127)
    # As they are stored, so that rounding is to what is read.
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float16).astype(np.float32)
    return np.rint(matrix / scale).clip(-127, 127).astype(np.int8), scale


def stored(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """The weights as they are stored: words and products in int8, those of products transposed.

    Args:
        weights: by the names that transformers gives them.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, one in weights.items():
        if name.startswith(("pooler.", "embeddings.position_ids")):
            continue
        if ".self.key." in name or ".self.value." in name:  # beside the query
            continue
        given = one
        if ".query." in name:
            others = [weights[name.replace("query", part)] for part in ("key", "value")]
            given = np.concatenate([one, *others])
        own = name.replace(".query.", ".qkv.")
        if own == WORDS:
            found[own], found[own + SCALE] = quantised(given)
        elif own.startswith("encoder.") and given.ndim == 2:
            whole, scale = quantised(given.reshape(len(given), -1, GROUP))
            found[own] = whole.reshape(given.shape).T
            found[own + SCALE] = scale[:, :, 0].T.astype(np.float16)
        else:
            found[own] = given
    return {name: np.ascontiguousarray(one) for name, one in found.items()}


def main() -> None:
    """Write the files into the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the float32 model")
    folder: Path = parser.parse_args().folder
    weights = DATA / ENCODER_WEIGHTS
    save_file(
        stored(load_file(str(folder / "model.safetensors"))),
        str(weights),
        metadata={"model": "sentence-transformers/all-MiniLM-L6-v2", "licence": "Apache-2.0"},
    )
    files = {name: json.loads((folder / name).read_text("utf-8")) for name in _CONFIGURATION}
    text = json.dumps(files, indent=1, sort_keys=True) + "\n"
    (DATA / "configuration.json").write_text(text, encoding="utf-8")
    shutil.copyfile(folder / "tokenizer.json", DATA / "tokenizer.json")
    for int8, ending in ((False, ""), (True, "_int8")):
        for name in ("encoder", "cross_encoder"):
            graph = getattr(Graph(weights, int8=int8), name)()
            (DATA / f"{name}{ending}.onnx").write_bytes(graph)
    for path in sorted(DATA.iterdir()):
        if path.is_file():
            print(f"{path.name:24} {path.stat().st_size:>12,} {file_sha256(path)}")


if __name__ == "__main__":
    main()
