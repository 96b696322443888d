"""Export a relevance scorer to ONNX, and check its scores against those of torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import RelevanceScorer
from ...engine import BiEncoderScorer, CrossEncoderScorer
from ...engine.backends import LoadedEncoder
from ...engine.onnx_export import export_encoder
from ...errors import InputError, ModelFolderError, optional_import
from .late_interaction import LateInteractionScorer
from .registry import load_scorer

# float32: the largest difference of a score, as a share of the scores' spread where that is
# above 1. Others: the least rank correlation with the scores of torch.
MOST_DIFFERENCE = 1e-5
LEAST_CORRELATION = 0.99
# Fewer pairs say nothing of a rank correlation.
LEAST_PAIRS = 50


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How far an exported scorer is from torch, on pairs that gave no scales.

    Attributes:
        kind: of the scorer.
        dtype: of the exported graphs.
        pairs: questions with a passage that were compared.
        difference: the largest difference of a score.
        correlation: Spearman's rank correlation of the scores; None where all are equal.
        bytes: of the graphs.
    """

    kind: str
    dtype: str
    pairs: int
    difference: float
    correlation: float | None
    bytes: int

    def misses(self) -> str:
        """Which bound the export misses; empty where it keeps it."""
        if self.dtype == "float32":
            if not self.difference <= MOST_DIFFERENCE:
                return f"scores differ by up to {self.difference:.1e}, more than {MOST_DIFFERENCE}"
        elif self.correlation is None or not self.correlation >= LEAST_CORRELATION:
            shown = "not defined" if self.correlation is None else f"{self.correlation:.4f}"
            return f"the rank correlation with torch is {shown}, less than {LEAST_CORRELATION}"
        return ""


def export_scorer(
    name: str,
    folder: str | os.PathLike[str],
    pairs: Sequence[tuple[str, str]],
    *,
    dtype: str = "float32",
) -> ExportReport:
    """Write a scorer of a Hugging Face model as an ONNX graph, for `load_scorer(folder)`.

    For int8 half of the pairs give the scales, and the scores of the others are compared.

    Args:
        name: of a scorer, or its folder, as for `load_scorer`.
        folder: new or empty; left half-written after an error.
        pairs: questions, each with a passage, like those that it will score.
        dtype: `float32`, `float16` or `int8`.

    Raises:
        InputError: the scorer cannot be exported, or there are too few pairs.
        ModelFolderError: the scores differ too much from those of torch.
        MissingDependencyError: onnx, onnxscript or onnxruntime is not installed.
    """
    folder = Path(folder)
    if len(pairs) < (2 * LEAST_PAIRS if dtype == "int8" else LEAST_PAIRS):
        raise InputError(
            f"{len(pairs)} pairs are too few to check the export",
            hint=f"give {LEAST_PAIRS} pairs, and twice as many for int8",
        )
    scorer = load_scorer(name)
    kind, encoder = scorer.fingerprint.kind, _encoder(scorer)
    compared = pairs[1::2] if dtype == "int8" else pairs
    expected = scorer.score_pairs(compared)
    folder.mkdir(parents=True, exist_ok=True)
    export_encoder(encoder, folder, scorer=kind, dtype=dtype, pairs=pairs[::2])
    found = load_scorer(str(folder), device="cpu").score_pairs(compared)
    report = _compared(kind, dtype, expected, found, folder)
    if missed := report.misses():
        raise ModelFolderError(
            f"the export of {kind!r} in {dtype} is not written: {missed}",
            hint="give more pairs like those that it will score"
            if dtype == "int8"
            else "the model has steps that its tokens alone do not decide",
        )
    return report


def _encoder(scorer: RelevanceScorer) -> LoadedEncoder:
    """The model of a scorer."""
    found = None
    if isinstance(scorer, LateInteractionScorer):
        found = scorer.encoder.loaded
    elif isinstance(scorer, BiEncoderScorer | CrossEncoderScorer):
        found = scorer.loaded
        output = scorer.fingerprint.settings.get("output")
        if output is not None:
            raise InputError(
                f"a cross-encoder whose output is {output!r} cannot be exported",
                hint="export a reranker with one label",
            )
    if found is None or found.model is None:
        raise InputError(
            f"the scorer {scorer.fingerprint.kind!r} is not one that torch computes",
            hint="export a model folder; the bundled scorers run in ONNX Runtime as they are, in "
            "int8 too: sufficiency,dtype=int8",
        )
    return found


def _compared(
    kind: str, dtype: str, expected: NDArray[Any], found: NDArray[Any], folder: Path
) -> ExportReport:
    varied = np.ptp(expected) > 0 and np.ptp(found) > 0
    return ExportReport(
        kind,
        dtype,
        len(found),
        float(np.abs(expected - found).max()),
        float(optional_import("scipy.stats").spearmanr(expected, found).statistic)
        if varied
        else None,
        sum(path.stat().st_size for path in folder.rglob("*.onnx")),
    )
