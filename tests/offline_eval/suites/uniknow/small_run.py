"""A run of the suite on twenty-four questions of the microworld, with light parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgate.calibration.training.scenarios import ScenarioTrainingSettings
from knowgate.guard.contracts import RelevanceScorer
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run import Run
from knowgate.offline_eval.run.calls import RunOptions
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.parts import System
from knowgate.offline_eval.suites.uniknow._metrics import UniKnowRun
from knowgate.offline_eval.suites.uniknow._suite import UniKnowSuite
from knowgate.offline_eval.suites.uniknow.methods import UniKnowSettings
from knowgate.offline_eval.suites.uniknow.plan import UniKnowManifest
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords

METHODS = ("naive", "coiecd", "retrobust", "guard_naive", "guard_coiecd")
TRAINING = ScenarioTrainingSettings(epochs=1, device="cpu")


def small_run(
    out: Path,
    lm: Any,
    options: RunOptions | None = None,
    scorer: RelevanceScorer | None = None,
    **changes: Any,
) -> Path:
    settings = UniKnowSettings(
        **{"methods": METHODS, "limit": 24, "risk": 0.4, "delta": 0.4, **changes}
    )
    suite = UniKnowSuite(scorer or LexicalScorer(), BagOfWords(), TRAINING)
    return run_suite(suite, settings, out, [System("model", lm)], options).folder


def stored_run(folder: Path) -> UniKnowRun:
    return UniKnowRun(Run.read(folder, UniKnowManifest))
