"""Write the graphs of the downloaded reranker, without its weights.

    python -m tools.reader_model

Prints the sha256 of both files, which stand in `guard/model_files.py`. Which weights they take
is told by `guard/engine/embedded.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx import TensorProto

from knowgate.guard.engine.embedded import DATA, WORDS
from knowgate.guard.files import file_sha256
from tools.embedded_model import Size
from tools.multilingual_model import GivenGraph

MINILM_L12 = Size(12)
VOCABULARY, PLACES = 30_522, 512


class ReaderGraph(GivenGraph):
    """A cross-encoder that is given all its weights, words in float32.

    Args:
        int8: whether products with weights are computed in integers.
        size: of the encoder.
        vocabulary: how many word pieces there are.
        places: word pieces that a pair may have.
    """

    name = "ms-marco-MiniLM-L-12-v2"

    def __init__(
        self,
        *,
        int8: bool,
        size: Size = MINILM_L12,
        vocabulary: int = VOCABULARY,
        places: int = PLACES,
    ) -> None:
        super().__init__(int8=int8, size=size, vocabulary=vocabulary, places=places)

    def _words(self) -> str:
        shape = (self._vocabulary, self._size.width)
        return self._do("Gather", [self._given(WORDS, shape, TensorProto.FLOAT), "input_ids"])


def main() -> None:
    """Write the graphs into a folder."""
    parser = argparse.ArgumentParser(description="Write the graphs of the downloaded reranker.")
    parser.add_argument("--out", type=Path, default=DATA, help="by default the package's own")
    folder = parser.parse_args().out
    for int8, ending in ((False, ""), (True, "_int8")):
        path = folder / f"reader{ending}.onnx"
        path.write_bytes(ReaderGraph(int8=int8).cross_encoder())
        print(f"{path.name:24} {path.stat().st_size:>12,} {file_sha256(path)}")


if __name__ == "__main__":
    main()
