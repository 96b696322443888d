"""Train a sufficiency scorer: questions, batches, objective, adapter, mix.

`tune_relevance` adapts the fused scorer to one's own knowledge base and says whether it
helped. The other names are what `tools/sufficiency` makes the bundled scorer with.
"""

from __future__ import annotations

from ._cases import (
    SetCase,
    TrainingQuestion,
    mix_examples,
    retrieval_cases,
)
from ._encoder import TrainableEncoder
from ._mix import MixExample, fit_match_model
from ._tuning import (
    MIN_QUESTIONS,
    TrainingSettings,
    TuningReport,
    TuningSettings,
    train_adapter,
    tune_relevance,
)

__all__ = [
    "MIN_QUESTIONS",
    "MixExample",
    "SetCase",
    "TrainableEncoder",
    "TrainingQuestion",
    "TrainingSettings",
    "TuningReport",
    "TuningSettings",
    "fit_match_model",
    "mix_examples",
    "retrieval_cases",
    "train_adapter",
    "tune_relevance",
]
