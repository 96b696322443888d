"""Make the bundled sufficiency adapter.

    python -m tools.sufficiency.train --pack DIR --out DIR

DIR of `--pack` holds `train-*.jsonl.xz` of the sufficiency pack (see the model card in
`docs/reference/scorers.md` for its sources and licences). Two CPU cores take about
half an hour. `--cache FILE` keeps the passages' embeddings between runs.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration.training.cases import TopicBatches
from knowgate.calibration.training.encoder import (
    MAX_PASSAGE_PIECES,
    TrainableEncoder,
    mean_embeddings,
)
from knowgate.calibration.training.sufficiency import train_on
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import optional_import
from knowgate.guard.signals.relevance.late_interaction import word_piece_idf
from tools.sufficiency.pairs import read_pairs

# Yes/no passages are told apart by topic alone, and policy labels are loose; answers
# written as answers, as in a knowledge base of questions, are few and what matters most.
SOURCE_WEIGHTS = {
    "boolq": 0.4,
    "covid_faq": 2.0,
    "medquad": 1.5,
    "policyqa": 0.7,
    "squad11_dev": 0.7,
    "fairytaleqa": 0.7,
}
SEED = 0
_TEXTS_AT_ONCE = 32
_REPORT_EVERY = 50


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the bundled sufficiency adapter.")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    questions = read_pairs(sorted(arguments.pack.glob("train-*.jsonl.xz")))
    encoder = TrainableEncoder(rank=arguments.rank, alpha=2 * arguments.rank, seed=SEED)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        return _cached(encoder, texts, arguments.cache)

    print(f"{len(questions)} questions, {sum(p.numel() for p in encoder.parameters())} weights")
    started, losses = time.monotonic(), []

    def report(step: int, loss: float) -> bool:
        losses.append(loss)
        if step % _REPORT_EVERY == 0:
            recent = sum(losses[-_REPORT_EVERY:]) / _REPORT_EVERY
            seconds = (time.monotonic() - started) / step
            print(f"{step}: loss {recent:.3f}, {seconds:.2f} s a step", flush=True)
        return False

    idf = word_piece_idf(TokenEncoder(cache_bytes=0))
    assert idf is not None  # the embedded model's own table
    batches = TopicBatches(questions, embed, seed=SEED, source_weights=SOURCE_WEIGHTS)
    train_on(encoder, batches, idf, steps=arguments.steps, on_step=report)
    arguments.out.mkdir(parents=True, exist_ok=True)
    encoder.save(arguments.out)


def embeddings(encoder: TrainableEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit-length mean embeddings of shape (len(texts), dimensions), for neighbours."""
    torch: Any = optional_import("torch")
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    rows = []
    with torch.no_grad():
        for start in range(0, len(order), _TEXTS_AT_ONCE):
            chosen = [texts[i] for i in order[start : start + _TEXTS_AT_ONCE]]
            rows.append(mean_embeddings(encoder.encode(chosen, MAX_PASSAGE_PIECES)))
    found: NDArray[np.float32] = torch.cat(rows).numpy()[np.argsort(order)]
    return found


def _cached(
    encoder: TrainableEncoder, texts: Sequence[str], cache: Path | None
) -> NDArray[np.float32]:
    library: Any = optional_import("safetensors.numpy")
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    if cache is not None and cache.is_file():
        kept = library.load_file(cache)
        if key in kept:
            found: NDArray[np.float32] = kept[key].astype(np.float32)
            return found
    found = embeddings(encoder, texts)
    if cache is not None:
        library.save_file({key: found.astype(np.float16)}, cache)
    return found


if __name__ == "__main__":
    main()
