"""How long concurrent callers wait for a decision, beside the scorer alone and beside a peer.

    python benchmarks/serving.py [--size quick] [--rounds 3] [--device cpu] [--model FOLDER]

Each caller asks one question after the other, every time with other passages. Ways, all in one
process and with the same weights:

- `CrossEncoder.predict` of sentence-transformers behind a lock, which is how one model is
  commonly shared (it is the peer);
- `CrossEncoderScorer.score` on as many threads as there are callers;
- `Guard.adecide` on one event loop;
- `GuardedRAG.ainvoke` on one event loop, with a retriever and models that answer at once.

Rounds take turns. Printed are medians over rounds of the p50 and p99 of one call, of questions
per second, and throughput relative to the peer. Without `--model` (a folder of a sequence
classifier with one label) the weights are those of all-MiniLM-L6-v2 under a random head.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Guard, GuardOptions, Policy
from knowgate.guard.engine import CrossEncoderScorer
from knowgate.guard.engine.embedded import save_embedded

HERE = Path(__file__).parent
PEER = "CrossEncoder.predict behind a lock"
Question = tuple[str, list[str]]
Ask = Callable[[Question], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is asked.

    Attributes:
        callers: numbers of callers at once.
        questions: of all callers together, at least one for each.
        passages: of each question.
        words: of each passage, least and most.
    """

    callers: tuple[int, ...]
    questions: int
    passages: int
    words: tuple[int, int]


SIZES = {
    "quick": Size((1, 8, 64), 16, 2, (5, 12)),
    "usual": Size((1, 8, 64), 64, 5, (95, 106)),
    "full": Size((1, 8, 64), 256, 10, (95, 106)),
}


def questions(size: Size) -> Iterator[Question]:
    """Questions without end, each with passages of its own."""
    lines = (HERE / "ordinary_questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    sentences = [passage for row in rows for passage in row["passages"]]
    draw = np.random.default_rng(0)
    for number in itertools.count():
        passages = []
        for _ in range(size.passages):
            words = " ".join(draw.permutation(sentences)[:60]).split()
            passages.append(" ".join(words[: int(draw.integers(*size.words))]))
        yield f"{rows[number % len(rows)]['question']} ({number})", passages


def classifier(folder: Path) -> Path:
    """Write the embedded encoder under a random head."""
    import torch
    import transformers

    torch.manual_seed(0)
    source = folder.with_name("embedded")
    save_embedded(source)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def peer(model: Path, device: str) -> Callable[[Question], Any]:
    """Scores of sentence-transformers, one call at a time."""
    from sentence_transformers import CrossEncoder

    judge = CrossEncoder(str(model), device=None if device == "auto" else device)
    lock = threading.Lock()

    def score(asked: Question) -> Any:
        question, passages = asked
        with lock:
            return judge.predict([(question, one) for one in passages], show_progress_bar=False)

    return score


def ways(model: Path, device: str, threads: ThreadPoolExecutor) -> dict[str, Ask]:
    """What a caller awaits, by name."""
    score_of_peer, scorer = peer(model, device), CrossEncoderScorer(model, device=device)
    # Late decisions are to be measured, not cut off.
    options = GuardOptions(deadlines={"relevance": 3600.0})
    guard = Guard(
        Policy.for_scorer(scorer, threshold=0.5), scorer=scorer, options=options, metrics=False
    )
    retrieved: dict[str, list[str]] = {}
    chain = GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(lambda question: list(map(Document, retrieved.pop(question)))),
        with_context=RunnableLambda(lambda _: "From nine."),
        closed_book=RunnableLambda(lambda _: "At nine."),
    )

    def on_threads(call: Callable[[Question], Any]) -> Ask:
        return lambda asked: asyncio.get_running_loop().run_in_executor(threads, call, asked)

    async def decide(asked: Question) -> None:
        decision = await guard.adecide(*asked)
        if decision.failed_signals:
            raise SystemExit(f"the scorer failed: {decision.reason}")

    async def invoke(asked: Question) -> None:
        retrieved[asked[0]] = asked[1]
        answer = await chain.ainvoke(asked[0])
        if answer.decision.failed_signals:
            raise SystemExit(f"the scorer failed: {answer.decision.reason}")

    return {
        PEER: on_threads(score_of_peer),
        "CrossEncoderScorer.score": on_threads(lambda asked: scorer.score(*asked)),
        "Guard.adecide": decide,
        "GuardedRAG.ainvoke": invoke,
    }


async def measure(ask: Ask, callers: int, asked: Sequence[Question]) -> dict[str, float]:
    """Let callers ask all questions, and time each call and the whole."""
    taken: list[float] = []
    left = iter(asked)

    async def caller() -> None:
        for one in left:
            began = time.perf_counter()
            await ask(one)
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    whole = time.perf_counter() - began
    p50, p99 = np.percentile(taken, [50, 99])
    return {"p50": float(p50), "p99": float(p99), "rate": len(asked) / whole}


async def run(size: Size, rounds: int, model: Path, device: str) -> list[str]:
    """Measure every way with every number of callers; rows of a Markdown table."""
    draw, lines = questions(size), []
    with ThreadPoolExecutor(max(size.callers)) as threads:
        asks = ways(model, device, threads)
        for ask in asks.values():
            await ask(next(draw))
        for callers in size.callers:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in asks}
            for _ in range(rounds):
                asked = list(itertools.islice(draw, max(callers, size.questions)))
                for name, ask in asks.items():
                    found[name].append(await measure(ask, callers, asked))
            lines += table(callers, found)
    return lines


def table(callers: int, found: dict[str, list[dict[str, float]]]) -> list[str]:
    """A row per way: medians over rounds, the ratio within each round."""
    lines = []
    for name, rounds in found.items():
        p50, p99, rate = (
            statistics.median(one[key] for one in rounds) for key in ("p50", "p99", "rate")
        )
        ratio = statistics.median(
            one["rate"] / other["rate"] for one, other in zip(rounds, found[PEER], strict=True)
        )
        lines.append(
            f"| {callers} | {name} | {p50 * 1e3:.1f} | {p99 * 1e3:.1f} | {rate:.1f} | {ratio:.2f} |"
        )
    return lines


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    parser.add_argument("--model", type=Path, help="folder of a sequence classifier, one label")
    given = parser.parse_args()
    size = SIZES[given.size]
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or classifier(Path(folder))
        lines = asyncio.run(run(size, given.rounds, model, given.device))
    libraries = ", ".join(f"{one} {version(one)}" for one in ("torch", "sentence-transformers"))
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, device {given.device}, load "
        f"{os.getloadavg()[0]:.1f}; {libraries}; {size.passages} passages of {size.words[0]} to "
        f"{size.words[1] - 1} words\n"
    )
    print("| callers | way | p50, ms | p99, ms | questions/s | of the peer's |")
    print("|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
