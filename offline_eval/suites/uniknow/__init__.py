"""The UniKnow suite: what a model does with context and memory in each knowledge scenario.

    data set ─► knowledge (sampled closed-book answers) ─► contexts ─► cases
             ─► methods: prompted, contrastive, trained, and guards over them ─► rows

Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
Parametric and External Knowledge".
"""

from __future__ import annotations

from ._cases import ContextKind
from ._plan import training_cases
from ._questions import read_dataset
from ._reading import left_out_of, uniknow_signals
from ._report import uniknow_report
from ._rows import UniKnowSignal
from ._run import GUARD_SCORER, Parts, run_uniknow
from ._settings import UniKnowSettings
from ._training_data import (
    TrainedMethod,
    TrainedVariant,
    preference_examples,
    training_examples,
)

__all__ = [
    "GUARD_SCORER",
    "ContextKind",
    "Parts",
    "TrainedMethod",
    "TrainedVariant",
    "UniKnowSettings",
    "UniKnowSignal",
    "left_out_of",
    "preference_examples",
    "read_dataset",
    "run_uniknow",
    "training_cases",
    "training_examples",
    "uniknow_report",
    "uniknow_signals",
]
