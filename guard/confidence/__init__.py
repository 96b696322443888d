"""Parametric confidence: would the language model be right without any context?

Add an estimator by matching the `ConfidenceEstimator` protocol.
"""

from __future__ import annotations

from ._sampled_consistency import SampledConsistency
from ._stopping import CurtailedSampling

__all__ = ["CurtailedSampling", "SampledConsistency"]
