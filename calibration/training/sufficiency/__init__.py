"""Train a sufficiency scorer: questions, batches, objective, adapter, mix.

`tune_relevance` adapts the fused scorer to one's own knowledge base and says whether it
helped. The bundled scorer is made by `python -m tools.sufficiency.train`
and `… .fit_mix`.
"""

from __future__ import annotations

from ._batches import TopicBatches
from ._cases import (
    SetCase,
    TrainingQuestion,
    by_topic,
    feature_probe,
    mix_examples,
    read_pairs,
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
    "TopicBatches",
    "TrainableEncoder",
    "TrainingQuestion",
    "TrainingSettings",
    "TuningReport",
    "TuningSettings",
    "by_topic",
    "feature_probe",
    "fit_match_model",
    "mix_examples",
    "read_pairs",
    "retrieval_cases",
    "train_adapter",
    "tune_relevance",
]
