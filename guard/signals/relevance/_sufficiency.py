"""The trained scorers: late interaction learned for sufficiency, alone and fused.

What is promised: scores are log-odds that passages suffice; the score of a question and a
passage depends on these two alone, to the last bit on a CPU; `score_sets`, `score_set`,
`score_pairs` and `score` agree.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._byte_cache import CACHE_BYTES
from ..._model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, BUNDLED_SHA256
from ...contracts import SetScore
from ...engine import TokenEncoder
from ...errors import ModelFolderError
from ...files import file_sha256
from ...policy import Fingerprint
from ._late_interaction import (
    IDF_SHA256,
    PassageMatch,
    QuestionTokens,
    joined,
    match,
    match_values,
    word_piece_idf,
)
from ._match_model import MatchModel, require_sets

BUNDLED_FOLDER = Path(__file__).parent / "data" / "sufficiency"
FUSED_FILE = "fused.json"
SUFFICIENCY_FILE = "sufficiency.json"
_TEXTS_PER_ROUND = 256


class _MatchScorer:
    """What the trained scorers share: encode, match, mix."""

    _kind = ""
    _file = ""
    _encoders_used: tuple[str, ...] = ()

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        cache_bytes: int = CACHE_BYTES,
        base_encoder: TokenEncoder | None = None,
        trained_encoder: TokenEncoder | None = None,
        model: MatchModel | None = None,
    ) -> None:
        self._folder = BUNDLED_FOLDER if folder is None else Path(folder)
        if folder is None:
            require_bundled(self._folder)
        self._model = model or MatchModel.load(self._folder / self._file)
        foreign = {name.partition(".")[0] for name in self._model.features}
        if not foreign <= set(self._encoders_used):
            raise ModelFolderError(
                f"the mix has features that {self._kind!r} does not compute",
                where=str(self._folder / self._file),
                hint="use it with the scorer it was made for",
            )
        given = {"base": base_encoder, "trained": trained_encoder}
        self._encoders: dict[str, TokenEncoder] = {}
        for name in self._encoders_used:
            adapter = self._folder if name == "trained" else None
            self._encoders[name] = given[name] or TokenEncoder(
                device=device, cache_bytes=cache_bytes, adapter=adapter
            )
        self._idf = {name: self._weights(encoder) for name, encoder in self._encoders.items()}
        # The scale of the adapter stands in its configuration.
        self._adapter_sha256 = _sha256_of(
            file_sha256(self._folder / name) for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
        )

    @property
    def model(self) -> MatchModel:
        """The fitted mix."""
        return self._model

    @property
    def encoders(self) -> dict[str, TokenEncoder]:
        """What encodes the texts, by name; hold the caches."""
        return dict(self._encoders)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        first = next(iter(self._encoders.values()))
        return first.fingerprint(
            self._kind,
            adapter_sha256=self._adapter_sha256,
            mix_sha256=_sha256_of([self._model.model_dump_json()]),
            idf_sha256=IDF_SHA256,
        )

    def on_cpu(self) -> bool:
        """Whether every pass is a short one, of one window on a CPU."""
        return all(encoder.device == "cpu" for encoder in self._encoders.values())

    def supports(self, question: str) -> bool:
        """Whether the question is in a script that the model knows."""
        return next(iter(self._encoders.values())).supports(question)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Log-odds of shape (len(passages),) that each passage alone suffices."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Log-odds of shape (len(pairs),) for (question, passage) pairs."""
        found = [
            self._model.passage_score(self._model.vector(one[0]))
            for one in self._features([q for q, _ in pairs], [[p] for _, p in pairs])
        ]
        return np.asarray(found, dtype=np.float64)

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """The log-odds of each passage, and of all together.

        Raises:
            InputError: there is no passage.
        """
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its own passages.

        Raises:
            InputError: the lengths differ, or a question has no passage.
        """
        require_sets(questions, passages)
        return [self._judged(found) for found in self._features(questions, passages)]

    def match_features(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[tuple[list[list[float]], list[float]]]:
        """Per question the features of each passage and of the passages taken as one.

        What a mix is fitted on; in the order of `model.features`.
        """
        vector = self._model.vector
        return [
            ([vector(one) for one in found[:-1]], vector(found[-1]))
            for found in self._features(questions, passages)
        ]

    def _judged(self, found: list[dict[str, float]]) -> SetScore:
        vectors = [self._model.vector(one) for one in found[:-1]]
        joint = self._model.joint_score(vectors, self._model.vector(found[-1]))
        return SetScore(tuple(self._model.passage_score(v) for v in vectors), joint)

    def _features(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[list[dict[str, float]]]:
        """Per question the features of each passage, and last those of all as one."""
        found: list[list[dict[str, float]]] = []
        start = 0
        while start < len(questions):
            # In rounds, so that a long list of texts is not held encoded all at once.
            end, texts = start, 0
            while end < len(questions) and (end == start or texts < _TEXTS_PER_ROUND):
                texts += len(passages[end])
                end += 1
            found += self._round(questions[start:end], passages[start:end])
            start = end
        return found

    def _round(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[list[dict[str, float]]]:
        found: list[list[dict[str, float]]] = [
            [{} for _ in range(len(those) + 1)] for those in passages
        ]
        for name, encoder in self._encoders.items():
            asked = encoder.encode_first(questions)
            windows = iter(encoder.encode([text for those in passages for text in those]))
            for row, question in enumerate(asked):
                tokens = QuestionTokens.of(question, self._idf[name])
                matches = [match(tokens, next(windows), encoder.stride) for _ in passages[row]]
                for place, one in enumerate([*matches, joined(matches)]):
                    found[row][place].update(self._named(name, tokens, one))
        return found

    def _named(self, name: str, tokens: QuestionTokens, one: PassageMatch) -> dict[str, float]:
        values = match_values(tokens, one, self._model.length_penalty)
        return {f"{name}.{feature}": value for feature, value in values.items()}

    @staticmethod
    def _weights(encoder: TokenEncoder) -> NDArray[np.float32]:
        idf = word_piece_idf(encoder)
        if idf is None:
            raise ModelFolderError(
                "the encoder's vocabulary is not the embedded model's",
                where="encoder",
                hint="use the embedded model",
            )
        return idf


class SufficiencyScorer(_MatchScorer):
    """Late interaction and cosine of an encoder trained to tell sufficient passages.

    all-MiniLM-L6-v2 with a LoRA adapter, trained on questions whose answer stands in one
    passage of a document and not in its neighbours. Passages are encoded once and cached.

    Args:
        folder: adapter and mix; None for the bundled ones.
        device: `cpu`, `cuda`, `cuda:N`; None picks CUDA where there is one.
        cache_bytes: of the encoded texts that each encoder keeps in memory.
        base_encoder, trained_encoder: shared with other scorers.
        model: another mix than the folder's.

    Raises:
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there.
    """

    checks_deadline = property(_MatchScorer.on_cpu)
    _kind = "sufficiency"
    _file = SUFFICIENCY_FILE
    _encoders_used = ("trained",)


class FusedScorer(_MatchScorer):
    """A logistic mix of the trained scorer, the bi-encoder, late interaction and coverage.

    Judges several passages together: by the best of them, by how far it stands out, and
    by what they gain together. Arguments and errors as `SufficiencyScorer`; `folder` may be
    what `knowgate tune relevance` wrote.
    """

    checks_deadline = property(_MatchScorer.on_cpu)
    _kind = "fused"
    _file = FUSED_FILE
    _encoders_used = ("base", "trained")


def _sha256_of(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def require_bundled(folder: Path) -> None:
    """Reject bundled files other than those that were shipped.

    Raises:
        ModelFolderError: a file is missing or has another sha256.
    """

    for name, expected in BUNDLED_SHA256.items():
        path = folder / name
        found: Any = file_sha256(path) if path.is_file() else "none"
        if found != expected:
            raise ModelFolderError(
                f"sha256 is {found[:12]}, expected {expected[:12]}",
                where=name,
                hint="reinstall knowgate",
            )
