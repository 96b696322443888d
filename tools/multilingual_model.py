"""Write the graphs of the multilingual encoder, without its weights.

    python -m tools.multilingual_model

Prints the sha256 of both files, which stand in `guard/model_files.py`. Which weights they take
is told by `guard/engine/multilingual.py`, which converts them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from knowgate.guard.engine._onnx_backend import OnnxBackend
from knowgate.guard.engine._tokenizing import Marks, piece_ids
from knowgate.guard.engine.backends import run_rows
from knowgate.guard.engine.embedded import DATA, GROUP, SCALE, WORDS
from knowgate.guard.engine.multilingual import (
    E5_MARKS,
    PIECE_SCORES,
    PREFIX,
    PROJECTION,
    encoder_weights,
)
from knowgate.guard.files import file_sha256
from tools.embedded_model import Graph, Size

E5_SMALL = Size(12)
VOCABULARY, PLACES, PROJECTED = 250_037, 512, 192


class GivenGraph(Graph):
    """A graph that is given all its weights, words in groups of 32 numbers with a scale each.

    Its token vectors are those of the last layer but one, which meet those of another language
    more often, projected to fewer numbers.

    Args:
        int8: whether products with weights are computed in integers.
        size: of the encoder.
        vocabulary: how many word pieces there are.
        places: word pieces that a text may have.
        projected: numbers of a token vector.
    """

    name = "multilingual-e5-small"

    def __init__(
        self,
        *,
        int8: bool,
        size: Size = E5_SMALL,
        vocabulary: int = VOCABULARY,
        places: int = PLACES,
        projected: int = PROJECTED,
    ) -> None:
        super().__init__(None, int8=int8, size=size)
        self._vocabulary, self._projected = vocabulary, projected
        self._rows = {
            "embeddings.position_embeddings.weight": (places,),
            "embeddings.token_type_embeddings.weight": (2,),
        }

    def encoder(self) -> bytes:
        """Ids to token vectors and a text vector of unit length."""
        layers, width = self._size.layers, self._size.width
        self._layers(self._embedded(types=False), {layers - 2: "matched", layers - 1: "last"})
        found = self._product("matched", PROJECTION, width, self._projected)
        self._do("Identity", [found], "token_vectors")
        self._text_vector("last")
        return self._with_vectors(self._projected)

    def _words(self) -> str:
        groups = self._size.width // GROUP
        words = self._given(WORDS, (self._vocabulary, groups, GROUP), TensorProto.INT8)
        scale = self._given(WORDS + SCALE, (self._vocabulary, groups, 1), TensorProto.FLOAT16)
        ids = "input_ids"
        found = [
            self._do("Cast", [self._do("Gather", [one, ids])], to=TensorProto.FLOAT)
            for one in (words, scale)
        ]
        whole = self._values("whole", [0, 0, self._size.width])
        return self._do("Reshape", [self._do("Mul", found), whole])

    def _stored(self, name: str) -> str:
        qkv, inner = name.endswith("qkv.bias"), name.endswith("intermediate.dense.bias")
        width = self._size.width
        width = 3 * width if qkv else self._size.inner if inner else width
        return self._given(name, (*self._rows.get(name, ()), width))


def matched_vectors(folder: Path, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    """The token vectors of texts before they are projected, to fit a projection on."""
    width = E5_SMALL.width
    weights = encoder_weights(folder)
    del weights[PIECE_SCORES]
    weights[f"{PROJECTION}.weight"] = np.eye(width, dtype=np.float32)
    weights[f"{PROJECTION}.bias"] = np.zeros(width, dtype=np.float32)
    graph = GivenGraph(int8=False, projected=width).encoder()
    backend = OnnxBackend(graph, "cpu", "float32", weights)
    marks = Marks.read(folder, E5_MARKS)
    prefix = piece_ids(marks.backend_tokenizer, PREFIX)
    before = [marks.cls_token_id, *prefix]
    rows = [
        [*before, *piece_ids(marks.backend_tokenizer, text)[: PLACES // 2], marks.sep_token_id]
        for text in texts
    ]
    return [vectors[len(before) : -1] for vectors, _ in run_rows(backend, rows)]


def main() -> None:
    """Write the graphs into a folder."""
    parser = argparse.ArgumentParser(description="Write the graphs of the multilingual encoder.")
    parser.add_argument("--out", type=Path, default=DATA, help="by default the package's own")
    folder = parser.parse_args().out
    for int8, ending in ((False, ""), (True, "_int8")):
        graph: Any = GivenGraph(int8=int8).encoder()
        path = folder / f"multilingual{ending}.onnx"
        path.write_bytes(graph)
        print(f"{path.name:24} {path.stat().st_size:>12,} {file_sha256(path)}")


if __name__ == "__main__":
    main()
