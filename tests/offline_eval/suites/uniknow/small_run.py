"""A run of the suite on forty questions of the microworld, with light parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgate.calibration.training.scenarios import ScenarioTrainingSettings
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.suites.uniknow import Parts, UniKnowSettings, run_uniknow
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords

METHODS = ("naive", "coiecd", "retrobust", "guard_naive", "guard_coiecd")


def small_run(out: Path, lm: Any, knowledge: Path | None = None, **changes: Any) -> Path:
    settings = UniKnowSettings(
        **{
            "methods": METHODS,
            "limit": 40,
            "risk": 0.4,
            "delta": 0.4,
            "training": ScenarioTrainingSettings(epochs=1, device="cpu"),
            **changes,
        }
    )
    return run_uniknow(
        lm,
        "microworld",
        out,
        settings=settings,
        parts=Parts(scorer=LexicalScorer(), encoder=BagOfWords()),
        knowledge=knowledge,
    )
