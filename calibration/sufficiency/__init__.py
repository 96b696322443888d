"""Training a sufficiency scorer: questions, batches, objective, adapter, mix.

`tune_relevance` adapts the fused scorer to one's own knowledge base and says whether it
helped. The bundled scorer is made by `python -m knowgate.calibration.sufficiency.train`
and `… .fit_mix`.
"""

from __future__ import annotations

from ._cases import SetCase, retrieval_cases
from ._mix import MixExample, fit_match_model
from ._questions import TrainingQuestion, read_pairs
from ._tuning import MIN_QUESTIONS, TuningReport, TuningSettings, tune_relevance

__all__ = [
    "MIN_QUESTIONS",
    "MixExample",
    "SetCase",
    "TrainingQuestion",
    "TuningReport",
    "TuningSettings",
    "fit_match_model",
    "read_pairs",
    "retrieval_cases",
    "tune_relevance",
]
