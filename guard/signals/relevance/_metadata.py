"""Relevance by a number that came with each passage: of a reranker, or of a vector store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..._measuring import as_score
from ...contracts import RelevanceScorer
from ...errors import InputError, SignalValueError
from ...fingerprint import METADATA, Fingerprint

# What may follow the key: `lower=true` where a low number is a good one.
_LOWER = "lower"
_TRUE_OR_FALSE = {"true": True, "false": False}


class MetadataScorer(RelevanceScorer):
    """The number that each passage carries in its metadata; the model that gave it stays unseen.

    Rerankers write one (`relevance_score` by those of Cohere, FlashRank and Jina), and so do
    chains over vector stores. Raw scores are these numbers on their own scale, which calibration
    learns; where lower is better, they are negated.

    A passage without a finite number raises a `SignalValueError`: the guard then takes the route
    that `on_error` has for relevance. Nothing is guessed.

    Args:
        key: of the metadata.
        lower: whether a lower number says more, as for distances.

    Raises:
        InputError: the key is empty.

    Example:
        >>> from knowgate.guard.text import TextWithMetadata
        >>> passages = [TextWithMetadata("We open at nine.", {"distance": 0.25})]
        >>> MetadataScorer("distance", lower=True).score("When?", passages).tolist()
        [-0.25]
    """

    # Asks of the guard that passages come as `TextWithMetadata`.
    reads_metadata = True
    checks_deadline = True

    def __init__(self, key: str, *, lower: bool = False) -> None:
        if not key:
            raise InputError(
                "names no key", where="metadata:", hint="e.g. metadata:relevance_score"
            )
        self._key, self._lower = key, lower

    @classmethod
    def parse(cls, rest: str) -> MetadataScorer:
        """Make one of what follows `metadata:` in a scorer's name: `KEY` or `KEY,lower=true`.

        Raises:
            InputError: something else follows the key, or there is none.
        """
        key, *options = rest.split(",")
        lower = False
        for option in options:
            name, _, value = option.partition("=")
            if name != _LOWER or value not in _TRUE_OR_FALSE:
                raise InputError(
                    f"{option!r} is no option of a score in the metadata",
                    hint=f"{METADATA}:KEY, or {METADATA}:KEY,{_LOWER}=true where lower is better",
                )
            lower = _TRUE_OR_FALSE[value]
        return cls(key, lower=lower)

    @staticmethod
    def name_of(wanted: Fingerprint) -> str:
        """What `parse` makes the scorer of a fingerprint of, with its prefix."""
        options = f",{_LOWER}=true" if wanted.settings.get(_LOWER) else ""
        return f"{METADATA}:{wanted.settings.get('key', '')}{options}"

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return Fingerprint(kind=METADATA, settings={"key": self._key, _LOWER: self._lower})

    def score_pairs(self, pairs: Sequence[tuple[str, object]]) -> NDArray[np.float64]:
        """The numbers of shape (len(pairs),); higher is better.

        Args:
            pairs: a question, which is not read, and what has `metadata`: a passage as the guard
                gives it, or a document.

        Raises:
            SignalValueError: a passage has no finite number under the key.
        """
        return np.asarray([self._number(passage) for _, passage in pairs], dtype=np.float64)

    def _number(self, passage: object) -> float:
        metadata = getattr(passage, "metadata", None)
        given = metadata.get(self._key) if isinstance(metadata, Mapping) else None
        try:
            number = as_score(given)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            what = "missing" if given is None else f"a {type(given).__name__}, no number"
            if isinstance(given, float):
                what = "NaN or infinite"
            raise SignalValueError(
                "relevance", f"{self._key!r} in the metadata of a passage is {what}"
            )
        return -number if self._lower else number
