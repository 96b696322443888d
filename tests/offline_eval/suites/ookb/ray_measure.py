"""A run of measured signals, for `ray_run.py`."""

from __future__ import annotations

from pathlib import Path

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


def measured(folder: Path, pool: RayPool | None = None) -> Path:
    """A run of measured signals."""
    folder.mkdir()
    return run_suite(
        MEASURE,
        MeasureSettings(questions=write_toy_questions(folder / "q.jsonl", QUESTIONS), top_k=5),
        folder / "run",
        [Instruments(LexicalScorer(), ToyEncoder())],
        RunOptions(pool=pool),
    ).folder


def on_ray(folder: Path) -> None:
    """Measure on the cluster that is connected."""
    size = PoolSize(workers=1, in_flight=4, cpus_per_worker=_SMALL)
    measured(folder / "measured", RayPool(size))
