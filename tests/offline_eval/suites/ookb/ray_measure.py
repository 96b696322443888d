"""A run of measured signals with a killed worker, for `ray_run.py`."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowgate.adapters.ray.pool import PoolSize
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run.calls import RayPool
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from knowgate.offline_eval.suites.parts import RunOptions
from tests.offline_eval.suites.ookb.toy import ToyEncoder, write_toy_questions

QUESTIONS = 30
_SMALL = 0.05  # CPUs


class DeadlyScorer(LexicalScorer):
    """Kills the first process that scores a certain question, unless that happened already.

    Args:
        folder: holds the note that it happened; without one, nothing is killed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self._folder = folder

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """As the lexical scorer does."""
        if self._folder is not None and "garden2" in question:
            try:
                (self._folder / f"killed-{os.getpid()}").touch()
                (self._folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().score(question, passages)


def measured(folder: Path, pool: RayPool | None = None) -> Path:
    """A run of measured signals, on Ray with a worker that is killed."""
    folder.mkdir()
    scorer = DeadlyScorer(None if pool is None else folder)
    return run_suite(
        MEASURE,
        MeasureSettings(questions=write_toy_questions(folder / "q.jsonl", QUESTIONS), top_k=5),
        folder / "run",
        [Instruments(scorer, ToyEncoder())],
        RunOptions(pool=pool),
    ).folder


def on_ray(folder: Path) -> None:
    """Measure on the cluster that is connected, on which nobody takes the killed one's place."""
    size = PoolSize(workers=2, in_flight=4, max_restarts=0, cpus_per_worker=_SMALL)
    measured(folder / "measured", RayPool(size))
