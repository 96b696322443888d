"""How fast passages are scored, beside sentence-transformers with the same weights.

    python benchmarks/scoring.py [--exported DIR ...] [--rounds 3] [--size full]

Nothing is cached, so every passage is a new one. All engines read the same pairs in the same
run: per round each has a process of its own, one after the other. Peers:

- `SentenceTransformer.encode`, float32 and bfloat16, batches of 32 (its default) and of 8;
- `CrossEncoder.predict` with the same encoder under a random head, likewise: it reads
  question and passage together, and gives one number where token vectors are kept here.

Ours are the bi-encoder of the embedded model in torch, and folders of
`knowgate export-onnx bi_encoder --out DIR [--int8] --calibration-data FILE`. Printed: medians
over rounds of p50, p99 and pairs per second; CPU time, since a busy machine stretches wall
time; speed relative to the first peer; the share of the machine's measured matrix product
rate; peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PEER = "SentenceTransformer.encode float32, 32"
PEERS = {
    PEER: ("encode", "float32", 32),
    "SentenceTransformer.encode float32, 8": ("encode", "float32", 8),
    "SentenceTransformer.encode bfloat16, 8": ("encode", "bfloat16", 8),
    "CrossEncoder.predict float32, 32": ("predict", "float32", 32),
    "CrossEncoder.predict bfloat16, 8": ("predict", "bfloat16", 8),
}
OURS = {"knowgate torch float32": "float32", "knowgate torch bfloat16": "bfloat16"}
Pairs = Sequence[tuple[str, str]]
# Products with weights: multiplications per word piece of all-MiniLM-L6-v2, times two.
FLOP_PER_PIECE = 2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536)


def texts(count: int, words: tuple[int, int], seed: int) -> list[str]:
    """Texts of random numbers of words, from sentences that are in the repository."""
    lines = (HERE / "ordinary_questions.jsonl").read_text(encoding="utf-8").splitlines()
    sentences = [passage for line in lines for passage in json.loads(line)["passages"]]
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        several = " ".join(draw.permutation(sentences)[:60]).split()
        found.append(" ".join(several[: int(draw.integers(*words))]))
    return found


def cases(size: str) -> dict[str, tuple[Pairs, int]]:
    """Pairs by name, and how often they are scored; `quick`, `usual` or `full`."""

    def one(passages: int, seed: int) -> Pairs:
        [question] = texts(1, (8, 14), seed)
        return [(question, passage) for passage in texts(passages, (95, 106), seed + 1)]

    mixed = list(zip(texts(64, (8, 14), 5), texts(64, (15, 130), 6), strict=True))
    if size == "quick":
        return {"1 × 5": (one(5, 1), 3), "64 mixed": (mixed, 1)}
    found = {"1 × 5": (one(5, 1), 15), "1 × 20": (one(20, 3), 7), "64 mixed": (mixed, 5)}
    if size == "full":
        many = list(zip(texts(1000, (8, 14), 7), texts(1000, (15, 130), 8), strict=True))
        found["1,000"] = (many, 1)
    return found


def peer(name: str) -> Callable[[Pairs], Any]:
    """A peer's way to score pairs."""
    import sentence_transformers
    import torch
    import transformers

    from knowgate.guard.engine import embedded_model_path

    kind, dtype, size = PEERS[name]
    folder, options = str(embedded_model_path()), {"dtype": getattr(torch, dtype)}
    if kind == "encode":
        encoder = sentence_transformers.SentenceTransformer(
            folder, device="cpu", model_kwargs=options
        )

        def encode(pairs: Pairs) -> Any:
            questions = list(dict.fromkeys(question for question, _ in pairs))
            given = questions + [passage for _, passage in pairs]
            return encoder.encode(given, batch_size=size, show_progress_bar=False)

        return encode
    with tempfile.TemporaryDirectory() as place:
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=1
        )
        model.save_pretrained(place)
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(place)
        judge = sentence_transformers.CrossEncoder(place, device="cpu", model_kwargs=options)
    return lambda pairs: judge.predict(list(pairs), batch_size=size, show_progress_bar=False)


def ours(name: str) -> Callable[[Pairs], Any]:
    """Score pairs by the bi-encoder in torch, or by the one in an exported folder."""
    from knowgate.guard.engine import BiEncoderScorer, exported_as

    found = None if name in OURS else exported_as(name)
    options: dict[str, Any] = {"device": "cpu", "cache_bytes": 0}
    if name in OURS:
        return BiEncoderScorer(dtype=OURS[name], **options).score_pairs  # type: ignore[arg-type]
    if found is None or found[0] != "bi_encoder":
        raise SystemExit(f"{name}: not a folder of `knowgate export-onnx bi_encoder`")
    return BiEncoderScorer(name, backend="onnx", dtype=found[1], **options).score_pairs  # type: ignore[arg-type]


def measure(name: str, size: str) -> dict[str, Any]:
    """Time one engine in this process."""
    score = peer(name) if name in PEERS else ours(name)
    found: dict[str, Any] = {}
    for case, (pairs, repeats) in cases(size).items():
        score(pairs)
        walls, cpus = [], []
        for _ in range(repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            score(pairs)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        found[case] = {
            "p50": float(np.median(walls)),
            "p99": float(np.quantile(walls, 0.99)),
            "cpu": float(np.median(cpus)),
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cases": found, "megabytes": peak / (1 if sys.platform != "darwin" else 1024) / 1024}


def gemm_rate() -> float:
    """The machine's rate of float32 matrix products, in operations per second."""
    import torch

    left, right = torch.randn(1024, 384), torch.randn(384, 1536)
    best = 0.0
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(5):
            left @ right
        best = max(best, 5 * 2 * 1024 * 384 * 1536 / (time.perf_counter() - start))
    return best


def pieces(pairs: Pairs) -> int:
    """Word pieces that are encoded for these pairs, each question once."""
    from knowgate.guard.engine import TokenEncoder

    encoder = TokenEncoder(device="cpu")
    unique = [*{question for question, _ in pairs}, *(passage for _, passage in pairs)]
    return sum(len(encoder.pieces(text)) + 2 for text in unique)


def table(rounds: list[dict[str, Any]], names: list[str], size: str) -> str:
    """The medians over rounds, in Markdown."""
    lines: list[str] = []
    rate = gemm_rate()
    for case, (pairs, _) in cases(size).items():
        work = pieces(pairs) * FLOP_PER_PIECE
        lines += [
            f"\n{case} pairs\n",
            "| engine | p50, ms | p99, ms | pairs/s | CPU, ms | speed | CPU speed | of the "
            "product rate | peak MB |",
            "|---|---|---|---|---|---|---|---|---|",
        ]

        def of(name: str, key: str, case: str = case) -> float:
            return statistics.median(one[name]["cases"][case][key] for one in rounds)

        for name in names:
            memory = statistics.median(one[name]["megabytes"] for one in rounds)
            p50, cpu = of(name, "p50"), of(name, "cpu")
            lines.append(
                f"| {Path(name).name if os.path.isdir(name) else name} | {p50 * 1e3:.1f} | "
                f"{of(name, 'p99') * 1e3:.1f} | {len(pairs) / p50:.0f} | {cpu * 1e3:.1f} | "
                f"{of(PEER, 'p50') / p50:.2f} | {of(PEER, 'cpu') / cpu:.2f} | "
                f"{work / p50 / rate:.2f} | {memory:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run every engine, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exported", nargs="*", default=[], help="exported bi-encoders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", choices=("quick", "usual", "full"), default="usual")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine is not None:
        print(json.dumps(measure(given.engine, given.size)))
        return
    names = [*PEERS, *OURS, *given.exported]
    rounds: list[dict[str, Any]] = []
    for _ in range(given.rounds):
        found = {}
        for name in names:
            command = [sys.executable, __file__, "--engine", name, "--size", given.size]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name] = json.loads(done.stdout.splitlines()[-1])
        rounds.append(found)
    libraries = ", ".join(f"{one} {version(one)}" for one in ("torch", "sentence-transformers"))
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; {libraries}"
    )
    print(table(rounds, names, given.size))


if __name__ == "__main__":
    main()
