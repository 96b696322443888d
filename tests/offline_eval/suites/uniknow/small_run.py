"""A run of the suite on twenty-four questions of the microworld, with light parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgate.calibration.training.scenarios.settings import ScenarioTrainingSettings
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run import Run
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.parts import RunOptions, System
from knowgate.offline_eval.suites.uniknow._suite import Parts, UniKnowSettings, UniKnowSuite
from knowgate.offline_eval.suites.uniknow.plan import UniKnowManifest, UniKnowRun
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords

METHODS = ("naive", "coiecd", "retrobust", "guard_naive", "guard_coiecd")
PARTS = Parts(
    scorer=LexicalScorer(),
    encoder=BagOfWords(),
    training=ScenarioTrainingSettings(epochs=1, device="cpu"),
)


def small_run(
    out: Path, lm: Any, options: RunOptions | None = None, parts: Parts = PARTS, **changes: Any
) -> Path:
    settings = UniKnowSettings(
        **{"methods": METHODS, "limit": 24, "risk": 0.4, "delta": 0.4, **changes}
    )
    return run_suite(UniKnowSuite(parts), settings, out, [System("model", lm)], options).folder


def stored_run(folder: Path) -> UniKnowRun:
    return UniKnowRun(Run.read(folder, UniKnowManifest))
