"""How fast passages are scored, beside other libraries with the same weights.

    python benchmarks/scoring.py --size full --models DIR [--markdown OUT.md]

Three tables, all engines in the same run, and every text a new one unless said otherwise:

- `pairs`: cross-encoders, which read question and passage together. Peers: `CrossEncoder.predict`
  of sentence-transformers in batches of 32 (its default) and in bfloat16 in batches of 8; ONNX
  Runtime with its default options on batches of up to 64 padded pairs, as FlashRank and fastembed
  run it. The encoder of the embedded model under a random head.
- `tokens`: late interaction. Peer: `SentenceTransformer.encode` for token vectors, then the best
  cosine per question token, as PyLate does it. The embedded model.
- `default`: the default scorer on five passages, new and cached, beside one encoding of the same
  texts by `SentenceTransformer.encode`.

Every engine has a process of its own and they take turns: per round each scores each case a few
times. Printed are p50 (the median over rounds), p99, pairs per second, CPU time (a busy machine
stretches wall time), speed relative to the first engine by wall and by CPU time, the share of the
machine's measured rate of float32 matrix products, peak memory, and how far the scores are from
those of the engine in brackets. `--models` keeps the models that are exported for it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from knowgate.guard.files import write_text

HERE = Path(__file__).parent
Pairs = list[tuple[str, str]]
Score = Callable[[Pairs], Any]
MIXED = "64 mixed"
# Products with weights: multiplications per word piece of all-MiniLM-L6-v2, times two.
FLOP_PER_PIECE = 2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536)
# Questions per case, passages per question, words of a passage.
SHAPES = {
    "1 × 5": (1, 5, (95, 106)),
    "1 × 5, cached": (1, 5, (95, 106)),
    "1 × 20": (1, 20, (95, 106)),
    MIXED: (64, 1, (15, 130)),
    "1,000 mixed": (1000, 1, (15, 130)),
}
# Table to cases.
CASES = {
    "pairs": ("1 × 5", "1 × 20", MIXED, "1,000 mixed"),
    "tokens": ("1 × 5", "1 × 20", MIXED),
    "default": ("1 × 5", "1 × 5, cached"),
}
# Size to rounds, and how often each case is scored in a round.
SIZES: dict[str, tuple[int, dict[str, int]]] = {
    "quick": (1, {"1 × 5": 2, "1 × 5, cached": 3}),
    "usual": (3, {"1 × 5": 4, "1 × 5, cached": 8, "1 × 20": 1, MIXED: 1}),
    "full": (3, {"1 × 5": 5, "1 × 5, cached": 20, "1 × 20": 2, MIXED: 1, "1,000 mixed": 1}),
}
ONCE = "1,000 mixed"


def texts(count: int, words: tuple[int, int], seed: int, *, asked: bool = False) -> list[str]:
    """Texts of random numbers of words, from sentences that are in the repository.

    Those that are asked have other sentences than those that are read: a passage that repeats
    the question is encoded again without it.
    """
    lines = (HERE / "ordinary_questions.jsonl").read_text(encoding="utf-8").splitlines()
    sentences = [passage for line in lines for passage in json.loads(line)["passages"]]
    sentences = sentences[asked::2]
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        several = " ".join(sentences[i] for i in draw.permutation(len(sentences))[:60]).split()
        found.append(" ".join(several[: int(draw.integers(*words))]))
    return found


def pairs_of(case: str, turn: int) -> Pairs:
    """Pairs of a case, other ones in every turn; passages that are cached stay the same."""
    questions, passages, words = SHAPES[case]
    seed = 1000 * list(SHAPES).index(case) + 2 * turn
    asked = texts(questions, (8, 14), seed, asked=True)
    read = texts(questions * passages, words, 1 if "cached" in case else seed + 1)
    return [(asked[at // passages], text) for at, text in enumerate(read)]


def embedded_folder(models: Path) -> Path:
    """The bundled encoder as sentence-transformers reads it."""
    from knowgate.guard.engine.embedded import save_embedded

    folder = models / "embedded"
    if not folder.is_dir():
        save_embedded(folder)
    return folder


def cross_encoder_folder(models: Path) -> Path:
    """The embedded model under a random head of one label."""
    import torch
    import transformers

    folder, source = models / "cross_encoder", embedded_folder(models)
    if not folder.is_dir():
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            source, num_labels=1
        )
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def export(models: Path) -> None:
    """Export the cross-encoder in both precisions, unless it is there."""
    from knowgate.guard.engine import CrossEncoderScorer
    from knowgate.guard.engine.onnx_export import export_encoder

    folder, pairs = cross_encoder_folder(models), pairs_of(MIXED, 99) + pairs_of(MIXED, 98)
    for dtype in ("float32", "int8"):
        out, unfinished = models / f"cross_encoder-{dtype}", models / "unfinished"
        if out.is_dir():
            continue
        shutil.rmtree(unfinished, ignore_errors=True)
        loaded = CrossEncoderScorer(folder, device="cpu").loaded
        # Not checked as `export_scorer` does it: a random head's scores hardly differ.
        export_encoder(loaded, unfinished, scorer="cross_encoder", dtype=dtype, pairs=pairs)
        unfinished.rename(out)


def predict(dtype: str, size: int) -> Callable[[Path], Score]:
    """`CrossEncoder.predict`, its logits."""

    def make(models: Path) -> Score:
        import sentence_transformers
        import torch

        judge = sentence_transformers.CrossEncoder(
            str(models / "cross_encoder"),
            device="cpu",
            model_kwargs={"dtype": getattr(torch, dtype)},
            activation_fn=torch.nn.Identity(),
        )
        return lambda pairs: judge.predict(pairs, batch_size=size, show_progress_bar=False)

    return make


def padded(models: Path) -> Score:
    """ONNX Runtime with its default options on batches of padded pairs."""
    import onnxruntime
    import tokenizers

    folder = models / "cross_encoder-float32"
    [graph] = folder.glob("*.onnx")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()

    def score(pairs: Pairs) -> Any:
        found = []
        for start in range(0, len(pairs), 64):
            rows = tokenizer.encode_batch(pairs[start : start + 64])
            given = {
                "input_ids": [row.ids for row in rows],
                "attention_mask": [row.attention_mask for row in rows],
                "token_type_ids": [row.type_ids for row in rows],
            }
            arrays = {name: np.asarray(value, dtype=np.int64) for name, value in given.items()}
            found.append(session.run(None, arrays)[0][:, 0])
        return np.concatenate(found)

    return score


def own_pairs(name: str, **options: Any) -> Callable[[Path], Score]:
    """Our cross-encoder."""

    def make(models: Path) -> Score:
        from knowgate.guard.engine import CrossEncoderScorer

        return CrossEncoderScorer(models / name, device="cpu", cache_bytes=0, **options).score_pairs

    return make


def max_sim(dtype: str, size: int) -> Callable[[Path], Score]:
    """Token vectors by sentence-transformers, and the best cosine per question token."""

    def make(models: Path) -> Score:
        import sentence_transformers
        import torch

        encoder = sentence_transformers.SentenceTransformer(
            str(embedded_folder(models)),
            device="cpu",
            model_kwargs={"dtype": getattr(torch, dtype)},
        )

        def vectors(given: Sequence[str]) -> list[Any]:
            found = encoder.encode(
                list(given),
                batch_size=size,
                output_value="token_embeddings",
                show_progress_bar=False,
            )
            return [torch.nn.functional.normalize(one, dim=1) for one in found]

        def score(pairs: Pairs) -> Any:
            questions = list(dict.fromkeys(question for question, _ in pairs))
            asked = dict(zip(questions, vectors(questions), strict=True))
            told = vectors([passage for _, passage in pairs])
            return [
                float((asked[question] @ one.T).max(dim=1).values.sum())
                for (question, _), one in zip(pairs, told, strict=True)
            ]

        return score

    return make


def own_scorer(name: str, *, joint: bool = False, **options: Any) -> Any:
    """One of our scorers; each pair by itself, or all passages of a question together."""

    def make(models: Path) -> Score:
        from knowgate.guard.signals.relevance import load_scorer

        scorer: Any = load_scorer(name, device="cpu", **options)
        return joined(scorer) if joint else scorer.score_pairs  # type: ignore[no-any-return]

    return make


def embeddings(models: Path) -> Score:
    """One encoding of each text by sentence-transformers, without any match."""
    import sentence_transformers

    encoder = sentence_transformers.SentenceTransformer(str(embedded_folder(models)), device="cpu")

    def score(pairs: Pairs) -> Any:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        return encoder.encode(texts, batch_size=32, show_progress_bar=False)[:, 0].tolist()

    return score


def joined(*scorers: Any) -> Score:
    """The joint score of a question's passages by each scorer; pairs one by one for many."""

    def score(pairs: Pairs) -> Any:
        if len({question for question, _ in pairs}) > 1:
            return scorers[0].score_pairs(pairs)
        passages = [passage for _, passage in pairs]
        return [one.score_set(pairs[0][0], passages).joint for one in scorers]

    return score


ENGINES: dict[str, dict[str, Callable[[Path], Score]]] = {
    "pairs": {
        "CrossEncoder.predict float32, 32": predict("float32", 32),
        "CrossEncoder.predict bfloat16, 8": predict("bfloat16", 8),
        "ONNX Runtime, padded batch": padded,
        "knowgate torch float32": own_pairs("cross_encoder"),
        "knowgate torch bfloat16": own_pairs("cross_encoder", dtype="bfloat16"),
        "knowgate onnx float32": own_pairs("cross_encoder-float32"),
        "knowgate onnx int8": own_pairs("cross_encoder-int8"),
    },
    "tokens": {
        "SentenceTransformer.encode float32, 32": max_sim("float32", 32),
        "SentenceTransformer.encode bfloat16, 8": max_sim("bfloat16", 8),
        "knowgate float32": own_scorer("late_interaction", cache_bytes=0),
        "knowgate int8": own_scorer("late_interaction", cache_bytes=0, dtype="int8"),
    },
    "default": {
        "SentenceTransformer.encode float32, 32": embeddings,
        "knowgate float32": own_scorer("sufficiency", joint=True),
        "knowgate int8": own_scorer("sufficiency", joint=True, dtype="int8"),
    },
}
# Whose scores the others of a table are compared with, and who is not: another score.
EXACT = {
    "pairs": "CrossEncoder.predict float32, 32",
    "tokens": "knowgate float32",
    "default": "knowgate float32",
}
OTHER = ("SentenceTransformer",)


@dataclass
class Engine:
    """An engine in a process of its own, and what was measured of it."""

    name: str
    process: Any
    connection: Any
    walls: dict[str, list[list[float]]] = field(default_factory=dict)
    cpus: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def started(cls, table: str, name: str, models: Path) -> Engine:
        """Start the process, which loads the model."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(table, name, models, theirs), daemon=True)
        process.start()
        return cls(name, process, ours)

    def ask(self, *request: Any) -> Any:
        """Send a request and wait for its reply."""
        self.connection.send(request)
        return self.connection.recv()

    def measure(self, case: str, turns: range) -> None:
        """Score a case in each of these turns."""
        walls, cpus = self.ask(case, turns)
        self.walls.setdefault(case, []).append(walls)
        self.cpus.setdefault(case, []).extend(cpus)

    def p50(self, case: str) -> float:
        """Seconds, the median over rounds of medians."""
        return statistics.median(statistics.median(one) for one in self.walls[case])

    def p99(self, case: str) -> float:
        """Seconds, over all rounds."""
        return float(np.quantile([wall for one in self.walls[case] for wall in one], 0.99))

    def cpu(self, case: str) -> float:
        """Seconds of CPU time, the median."""
        return statistics.median(self.cpus[case])


def serve(table: str, name: str, models: Path, connection: Any) -> None:
    """Answer the requests of `Engine`, in its process."""
    score = ENGINES[table][name](models)
    seen: set[str] = set()
    for request in iter(connection.recv, None):
        if request == ("scores",):
            connection.send([float(one) for one in score(pairs_of(MIXED, 50))])
        elif request == ("memory",):
            connection.send(peak_memory())
        else:
            case, turns = request
            if case not in seen:
                score(pairs_of("1 × 5" if case == ONCE else case, 400))
                seen.add(case)
            connection.send(timed(score, case, turns))


def peak_memory() -> float:
    """Megabytes of this process; not of the one that started it, whose peak Linux hands on."""
    status = Path("/proc/self/status")
    if status.is_file():
        [line] = [one for one in status.read_text().splitlines() if one.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(score: Score, case: str, turns: Sequence[int]) -> tuple[list[float], list[float]]:
    """Seconds of wall time and of CPU time per turn."""
    walls, cpus = [], []
    for turn in turns:
        pairs = pairs_of(case, turn)
        wall, cpu = time.perf_counter(), time.process_time()
        score(pairs)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return walls, cpus


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


def work(table: str, case: str) -> float:
    """Operations of the products with weights for one turn of a case."""
    from knowgate.guard.engine.encoder import TokenEncoder

    encoder, pairs = TokenEncoder(device="cpu", cache_bytes=0), pairs_of(case, 0)
    sizes = {text: len(encoder.pieces(text)) for pair in pairs for text in pair}
    if table == "pairs":
        pieces = sum(sizes[question] + sizes[passage] + 3 for question, passage in pairs)
    elif "cached" in case:
        pieces = sizes[pairs[0][0]] + 2
    else:
        pieces = sum(size + 2 for size in sizes.values())
    return float(pieces * FLOP_PER_PIECE)


def agreement(engine: Engine, exact: Sequence[float]) -> str:
    """The largest difference of a score, and the rank correlation."""
    from scipy.stats import spearmanr

    if engine.name.startswith(OTHER):
        return "–"
    scores = engine.ask("scores")
    difference = float(np.abs(np.subtract(scores, exact)).max())
    return f"{difference:.0e}, {spearmanr(scores, exact).statistic:.5f}"


def rows(table: str, engines: Sequence[Engine], cases: Sequence[str]) -> Iterator[str]:
    """The lines of a table, in Markdown."""
    first, rate = engines[0], gemm_rate()
    [exact] = [one.ask("scores") for one in engines if one.name == EXACT[table]]
    memory = {one.name: one.ask("memory") for one in engines}
    agreed = {one.name: agreement(one, exact) for one in engines}
    for case in cases:
        flop, pairs = work(table, case), SHAPES[case][0] * SHAPES[case][1]
        yield f"\n**{table}**: {case}\n"
        yield (
            "| engine | p50, ms | p99, ms | pairs/s | CPU, ms | speed | CPU speed | of the product "
            f"rate | peak MB | scores ({EXACT[table]}) |"
        )
        yield "|---|---|---|---|---|---|---|---|---|---|"
        for one in engines:
            p50, cpu = one.p50(case), one.cpu(case)
            yield (
                f"| {one.name} | {p50 * 1e3:.1f} | {one.p99(case) * 1e3:.1f} | {pairs / p50:.0f} | "
                f"{cpu * 1e3:.1f} | {first.p50(case) / p50:.2f} | {first.cpu(case) / cpu:.2f} | "
                f"{flop / p50 / rate:.2f} | {memory[one.name]:.0f} | {agreed[one.name]} |"
            )


def measured(table: str, models: Path, size: str) -> list[str]:
    """The lines of one table: engines take turns."""
    rounds, repeats = SIZES[size]
    cases = [case for case in CASES[table] if case in repeats]
    engines = [Engine.started(table, name, models) for name in ENGINES[table]]
    try:
        for number in range(rounds):
            for case in cases:
                if case == ONCE and number:
                    continue
                turns = range(number * repeats[case], (number + 1) * repeats[case])
                for engine in engines:
                    engine.measure(case, turns)
        return list(rows(table, engines, cases))
    finally:
        for engine in engines:
            engine.connection.send(None)
            engine.process.join(10)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="usual")
    parser.add_argument("--tables", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--models", type=Path, help="where exported models are kept")
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    given = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with tempfile.TemporaryDirectory() as place:
        models = given.models or Path(place)
        models.mkdir(parents=True, exist_ok=True)
        export(models)
        names = ("torch", "sentence-transformers", "onnxruntime")
        libraries = ", ".join(f"{one} {version(one)}" for one in names)
        lines = [
            f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; "
            f"{libraries}"
        ]
        print(lines[0], flush=True)
        for table in given.tables:
            found = measured(table, models, given.size)
            print("\n".join(found), flush=True)
            lines += found
    if given.markdown is not None:
        write_text(given.markdown, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
