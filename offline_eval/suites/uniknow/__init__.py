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
from ._reading import uniknow_signals
from ._rows import UniKnowSignal
from ._settings import UniKnowSettings
from ._stages import Parts
from ._suite import UniKnowSuite
from ._training_data import (
    TrainedMethod,
    TrainedVariant,
    preference_examples,
    training_examples,
)

__all__ = [
    "ContextKind",
    "Parts",
    "TrainedMethod",
    "TrainedVariant",
    "UniKnowSettings",
    "UniKnowSignal",
    "UniKnowSuite",
    "preference_examples",
    "read_dataset",
    "training_cases",
    "training_examples",
    "uniknow_signals",
]
