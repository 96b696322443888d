"""The trained scorer, and a cross-encoder that reads the question with its best passages.

`sufficiency` compares the vectors of single tokens. A cross-encoder reads question and passage
as one text, and takes some ten times as long.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from ..._byte_cache import CACHE_BYTES
from ..._model_files import CROSS_ENCODER_SHA256
from ...contracts import SetScore
from ...engine import BackendName, CrossEncoderScorer, DtypeName
from ...policy import Fingerprint
from ...read_models import read_model
from ._match_model import require_sets
from ._sufficiency import ReadSet, SufficiencyScorer, require_bundled

KIND = "sufficiency_cross"
CROSS_FOLDER = Path(__file__).parent / "data" / "cross_encoder"
MIX_FILE = "mix.json"
# Passages of a question that the cross-encoder reads: the best ones by the trained scorer.
MOST_READ = 3


class CrossMix(BaseModel):
    """Log-odds that passages suffice, from both models; no weight is below 0.

    Attributes:
        bias: of the sum.
        embedded: weight of the trained scorer's joint log-odds.
        best: weight of the cross-encoder's highest log-odds.
        fitted_on: what the weights were fitted on, in words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bias: FiniteFloat
    embedded: Annotated[FiniteFloat, Field(ge=0)]
    best: Annotated[FiniteFloat, Field(ge=0)]
    fitted_on: str = ""

    def joint(self, embedded: float, read: Sequence[float]) -> float:
        """The log-odds of a question's passages.

        Args:
            embedded: joint log-odds of the trained scorer.
            read: log-odds of the passages that the cross-encoder has read, at least one.

        Example:
            >>> CrossMix(bias=0.5, embedded=1.0, best=0.5).joint(1.0, [2.0, 0.0])
            2.5
        """
        return self.bias + self.embedded * embedded + self.best * max(read)


class CrossSufficiencyScorer(SufficiencyScorer):
    """`sufficiency`, and a cross-encoder over the best three passages.

    The cross-encoder is all-MiniLM-L6-v2 with changes of low rank and a head, trained on
    pairs of a question and a passage. Of a passage that repeats the question it reads what the
    passage tells, as `sufficiency` does. Scores of single passages are those of `sufficiency`;
    only the joint value needs the cross-encoder.

    Args:
        backend: `torch`.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, `bfloat16` or `float16`.
        cache_bytes: of the encoded texts that are kept in memory.
        cross_folder: adapter, head and mix of the cross-encoder; None for the bundled ones.

    Raises:
        InputError: the backend does not have the cross-encoder.
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there.
    """

    def __init__(
        self,
        *,
        backend: BackendName = "torch",
        device: str = "auto",
        dtype: DtypeName = "float32",
        cache_bytes: int = CACHE_BYTES,
        cross_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        where = CROSS_FOLDER if cross_folder is None else Path(cross_folder)
        if cross_folder is None:
            require_bundled(where, CROSS_ENCODER_SHA256)
        self._reader = CrossEncoderScorer(
            None, adapter=where, backend=backend, device=device, dtype=dtype
        )
        self._cross_mix = read_model(where / MIX_FILE, CrossMix, hint="use the bundled folder")
        super().__init__(backend=backend, device=device, dtype=dtype, cache_bytes=cache_bytes)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to: both models and both mixes."""
        found, reader = super().fingerprint, self._reader.fingerprint
        cross = {
            f"cross_{name}": value
            for name, value in {**reader.settings, "max_length": reader.max_length}.items()
        }
        mix = self._cross_mix.model_dump_json()
        settings = {**found.settings, **cross, "cross_mix": mix, "cross_passages": MOST_READ}
        return found.model_copy(update={"kind": KIND, "settings": settings})

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """Log-odds of each passage alone, and of all together by both models.

        Raises:
            InputError: the lengths differ, or a question has no passage.
        """
        require_sets(questions, passages)
        return [
            SetScore(own.scores, self._cross_mix.joint(own.joint, read))
            for own, read in self._both(questions, passages)
        ]

    def cross_features(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[tuple[float, list[float]]]:
        """What `CrossMix.joint` is given for each question; a mix is fitted on it."""
        return [(own.joint, read) for own, read in self._both(questions, passages)]

    def _both(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[tuple[SetScore, list[float]]]:
        """The scores of the trained scorer, and the log-odds of what the cross-encoder reads."""
        found = self.read_sets(questions, passages)
        chosen = [best_texts(one) for one in found]
        pairs = [
            (question, text)
            for question, texts in zip(questions, chosen, strict=True)
            for text in texts
        ]
        read = iter(self._reader.score_pairs(pairs).tolist())
        return [
            (one.score, [next(read) for _ in texts])
            for one, texts in zip(found, chosen, strict=True)
        ]


def best_texts(found: ReadSet) -> list[str]:
    """What the cross-encoder reads: the texts of the best passages, each once."""
    order = sorted(range(len(found.texts)), key=lambda place: -found.score.scores[place])
    texts = dict.fromkeys(found.texts[place] for place in order if found.texts[place])
    return list(texts)[:MOST_READ] or [""]
