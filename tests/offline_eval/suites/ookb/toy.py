"""A small knowledge base, an encoder without a model, and a run over them in a process."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import Fingerprint, RelevanceScorer
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.data.embedding import Encoder
from knowgate.offline_eval.run.calls import Progress, RunOptions
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments

_THINGS = ["library", "harbour", "museum", "market", "ferry", "bakery", "garden", "theatre"]


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit-length counts of hashed words: enough for a retriever that never changes its mind."""
    rows = np.zeros((len(texts), 64), dtype=np.float32)
    for i, text in enumerate(texts):
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            rows[i, zlib.crc32(word.encode("utf-8", "replace")) % 64] += 1
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-9), dtype=np.float32)


@dataclass(frozen=True)
class ToyEncoder:
    """Embeds by a function, under a name of its own."""

    embed: Callable[[Sequence[str]], NDArray[np.float32]] = embed
    kind: str = "hashed_words"

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind=self.kind)


def write_toy_questions(path: Path, count: int = 20) -> Path:
    """`count` questions, at most 200, as JSON lines."""
    lines = []
    for i in range(count):
        thing = f"{_THINGS[i % len(_THINGS)]}{i // len(_THINGS) or ''}"
        record = {
            "id": f"{i}-ü",
            "question": f"When does the {thing} open?",
            "answer": f"The {thing} opens at {7 + i % 5} — every day, “always”.",
        }
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def run_toy(
    questions: Path,
    out: Path,
    *,
    top_k: int = 3,
    hang_at: int | None = None,
    pause: float = 0.0,
    encoder: Encoder | None = None,
    scorer: RelevanceScorer | None = None,
) -> Path:
    """Run the suite with a lexical scorer; rest `pause` seconds per row, hang at `hang_at` rows."""

    def progress(state: Progress) -> None:
        time.sleep(3600 if state.done == hang_at else pause)

    return run_suite(
        MEASURE,
        MeasureSettings(questions=questions, top_k=top_k),
        out,
        [Instruments(scorer or LexicalScorer(), ToyEncoder() if encoder is None else encoder)],
        RunOptions(on_progress=progress),
    ).folder
