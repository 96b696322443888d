"""What is written into folders for scorers: ONNX graphs of their models, and encoded passages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from ..._byte_cache import content_key
from ...contracts import RelevanceScorer
from ...engine import BiEncoderScorer, CrossEncoderScorer
from ...engine.backends import LoadedEncoder
from ...engine.onnx_export import export_encoder
from ...engine.passage_store import PassageWriter
from ...errors import InputError, ModelFolderError, optional_import
from ...text import InputLimits
from ._echo import StatedText
from .late_interaction import LateInteractionScorer, token_encoder
from .registry import load_scorer
from .sufficiency import SufficiencyScorer

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
    varied = np.ptp(expected) > 0 and np.ptp(found) > 0
    ranks = optional_import("scipy.stats").spearmanr(expected, found) if varied else None
    report = ExportReport(
        kind,
        dtype,
        pairs=len(found),
        difference=float(np.abs(expected - found).max()),
        correlation=None if ranks is None else float(ranks.statistic),
        bytes=sum(path.stat().st_size for path in folder.rglob("*.onnx")),
    )
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


# Encoded at a time, and lost when the writer is killed.
_PASSAGES_PER_COMMIT = 256


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `index_passages` wrote.

    Attributes:
        read: passages that were given, blank ones left out.
        encoded: texts that were encoded now.
        stored: texts in the folder. A passage with a question in it has two: with it, without.
        bytes: of the folder's files.
    """

    read: int
    encoded: int
    stored: int
    bytes: int


def index_passages(
    passages: Iterable[object],
    folder: str | os.PathLike[str],
    scorer: RelevanceScorer,
    *,
    progress: Callable[[int], None] = lambda read: None,
) -> IndexReport:
    """Encode passages into a folder, for `Guard.load(…, passages=folder)`.

    What the folder has already is not encoded again, so a build that was stopped goes on when
    it is started again, and new passages are appended. Passages are found by their text, to the
    last character: give them as the retriever will. Those that are gone stay until a new
    folder is written.

    Args:
        passages: texts, LangChain documents or mappings with `text`; read once, in parts.
        folder: new, empty, or written for the same scorer.
        scorer: of `load_scorer`; one that encodes tokens (`sufficiency`,
            `sufficiency_cross`, `late_interaction`).
        progress: called with the number of passages read.

    Raises:
        InputError: the scorer encodes no tokens, a passage has no text, the folder has other
            files, or another process writes it.
        ModelFolderError: a folder is damaged, or was written for another scorer.
    """
    encoder = token_encoder(scorer)
    read = encoded = 0
    with PassageWriter(folder, encoder.identity) as writer:
        given = _texts(passages)
        while part := list(islice(given, _PASSAGES_PER_COMMIT)):
            texts = [text for passage in part for text in _encoded_texts(scorer, passage)]
            new = {key: text for text in texts if (key := content_key(text)) not in writer}
            windows = encoder.encode(list(new.values()))
            writer.append(dict(zip(new, windows, strict=True)))
            writer.commit()
            read, encoded = read + len(part), encoded + len(new)
            progress(read)
        stored = len(writer)
    size = sum(path.stat().st_size for path in Path(folder).iterdir() if path.is_file())
    return IndexReport(read, encoded, stored, size)


def _encoded_texts(scorer: RelevanceScorer, passage: str) -> tuple[str, ...]:
    """What a scorer encodes of a passage, copies of the question in it aside."""
    if isinstance(scorer, SufficiencyScorer):
        return StatedText.of("", passage).texts
    return (passage,)


def _texts(passages: Iterable[object]) -> Iterator[str]:
    """The text of each passage as a guard reads it; blank ones left out."""
    for passage in passages:
        _, [text] = InputLimits().read_passages([passage])
        if text and not text.isspace():
            yield text
