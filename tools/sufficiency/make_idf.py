"""Make the table of word-piece weights, `guard/relevance/data/word_piece_idf.safetensors`.

    python -m tools.sufficiency.make_idf --pack DIR --out FILE

Inverse document frequency over the distinct passages of the pack, training and
development part: log((N + 1) / (df + 1)), where df counts the passages whose first 256
word pieces hold the piece.

Source: Sparck Jones 1972.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from knowgate.guard.engine.embedded import DATA
from knowgate.guard.errors import optional_import

_MAX_PIECES = 256


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the table of word-piece weights.")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    library: Any = optional_import("tokenizers")
    tokenizer = library.Tokenizer.from_file(str(DATA / "tokenizer.json"))
    tokenizer.enable_truncation(_MAX_PIECES)
    tokenizer.no_padding()
    passages: dict[str, None] = {}
    for path in sorted(arguments.pack.glob("*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            passages |= dict.fromkeys(json.loads(line)["passage"] for line in stream)
    counts = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for encoding in tokenizer.encode_batch(list(passages)):
        counts[np.unique(encoding.ids)] += 1
    idf = np.log((len(passages) + 1) / (counts + 1)).astype(np.float16)
    by_id = sorted((i, piece) for piece, i in tokenizer.get_vocab().items())
    vocabulary = "\n".join(f"{i} {piece}" for i, piece in by_id).encode()
    metadata = {
        "formula": "ln((passages + 1) / (passages with the word piece + 1))",
        "passages": str(len(passages)),
        "vocabulary_sha256": hashlib.sha256(vocabulary).hexdigest(),
    }
    numpy_files: Any = optional_import("safetensors.numpy")
    numpy_files.save_file({"idf": idf}, str(arguments.out), metadata=metadata)
    print(f"{len(passages)} passages → {arguments.out}")


if __name__ == "__main__":
    main()
