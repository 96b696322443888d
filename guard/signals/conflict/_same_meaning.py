"""Decide whether two answers mean the same: by rule, embedding or entailment."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ...contracts import EntailmentModel, TextEmbedder
from ...errors import InputError, SignalValueError
from .meaning_rules import Rule

# Chosen by `benchmarks/same_meaning.py`: the lowest at which the embedded bi-encoder takes at
# most 1 in 100 pairs of answers to different questions of one kind, the closest of ten each,
# for the same where the rules leave them open.
DEFAULT_THRESHOLD = 0.65
DEFAULT_FLOOR = 0.3


class SameMeaning:
    """Whether two answers to one question mean the same; can be called with both.

    Rules come first and decide what they can: answers equal after normalisation or
    with their numerals, dates and units in one form are the same, a short answer
    within a longer one that gives it as its answer is too; numbers, dates, units
    that clash and negations or opposites of each other are not. No similarity is
    asked then, because it would hardly see the difference. Where a number, a date
    or a negation stands in one answer only, similarity may not call them the same.

    What the rules leave open is decided by the cosine of the embeddings. With an
    entailment model, that decides instead wherever the cosine reaches `floor` and
    a rule left it open: the same then means that each answer entails the other.

    Without an embedder and an entailment model, what is left open is not the same;
    nor is it with the embedded model (`bi_encoder`), which knows English only, where
    an answer is not in Latin letters.

    Args:
        embedder: anything with `embed`, `bi_encoder` for the embedded
            all-MiniLM-L6-v2 (loaded on first use), None for none.
        nli: an entailment model (`CrossEncoderEntailment`, say), None for none.
        threshold: cosine in [-1, 1] from which two answers are the same.
        floor: cosine below which an entailment model is not asked.
        nli_threshold: probability in [0, 1] from which one answer entails the other.

    Raises:
        InputError: a part is not what it should be, or a number is off its scale.

    Example:
        >>> same = SameMeaning()
        >>> same("Paris", "It is Paris, the capital of France.")
        True
        >>> same("It is required", "It is not required")
        False
    """

    def __init__(
        self,
        embedder: TextEmbedder | Literal["bi_encoder"] | None = None,
        nli: EntailmentModel | None = None,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        floor: float = DEFAULT_FLOOR,
        nli_threshold: float = 0.5,
    ) -> None:
        if not (embedder is None or isinstance(embedder, TextEmbedder) or embedder == "bi_encoder"):
            raise InputError(
                f"{embedder!r} cannot embed",
                where="embedder",
                hint='give an object with embed(texts), "bi_encoder", or None',
            )
        if not (nli is None or isinstance(nli, EntailmentModel)):
            raise InputError(
                f"a {type(nli).__name__} has no entails(premise, hypothesis)",
                where="nli",
                hint="give a CrossEncoderEntailment, or a class of your own with that method",
            )
        self._embedder = embedder
        self._by_name = embedder == "bi_encoder"
        self._nli = nli
        self._threshold = _within(threshold, -1.0, 1.0, "threshold")
        self._floor = _within(floor, -1.0, 1.0, "floor")
        self._nli_threshold = _within(nli_threshold, 0.0, 1.0, "nli_threshold")
        self._lock = threading.Lock()

    def __call__(self, first: str, second: str) -> bool:
        """Whether `first` and `second` mean the same; empty answers never do."""
        return self.judge(first, second)

    def about(self, question: str) -> Callable[[str, str], bool]:
        """The same test for answers to `question`, which an entailment model is then told."""
        return lambda first, second: self.judge(first, second, question=question)

    def judge(self, first: str, second: str, *, question: str = "") -> bool:
        """Whether both answers to `question` mean the same.

        Raises:
            SignalValueError: embedder or entailment model returned no usable number.
        """
        rule = Rule.between(first, second)
        if rule in (Rule.SAME, Rule.DIFFERENT):
            return rule is Rule.SAME
        if self._embedder is None or (self._by_name and not _latin(first + second)):
            return self._entail_each_other(first, second, question)
        cosine = self._cosine(first, second)
        if self._nli is not None:
            return cosine >= self._floor and self._entail_each_other(first, second, question)
        return rule is Rule.OPEN and cosine >= self._threshold

    def _entail_each_other(self, first: str, second: str, question: str) -> bool:
        if self._nli is None:
            return False
        one, other = (f"{question} {answer}".strip() for answer in (first, second))
        return self._entails(self._nli, one, other) and self._entails(self._nli, other, one)

    def _entails(self, nli: EntailmentModel, premise: str, hypothesis: str) -> bool:
        found: Any = nli.entails(premise, hypothesis)
        found = found.item() if getattr(found, "ndim", None) == 0 else found
        if isinstance(found, bool):
            return found
        if not isinstance(found, int | float) or not 0.0 <= found <= 1.0:
            raise SignalValueError("conflict", "the entailment is neither a bool nor a probability")
        return found >= self._nli_threshold

    def _cosine(self, first: str, second: str) -> float:
        vectors = np.asarray(self._loaded().embed([first, second]), dtype=np.float64)
        cosine = float(np.dot(vectors[0], vectors[1]))
        if not math.isfinite(cosine):
            raise SignalValueError("conflict", "the embedder returned NaN or infinity")
        return cosine

    def _loaded(self) -> TextEmbedder:
        if isinstance(self._embedder, TextEmbedder):
            return self._embedder
        with self._lock:
            if not isinstance(self._embedder, TextEmbedder):
                from ...engine import BiEncoderScorer

                self._embedder = BiEncoderScorer()
            return self._embedder


def _latin(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    # Beyond Latin Extended-B and its additions; an accent does not make a language foreign.
    return all(ord(letter) < 0x250 or 0x1E00 <= ord(letter) < 0x1F00 for letter in letters)


def _within(value: float, low: float, high: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"must be a number from {low:g} to {high:g}", where=name)
    return float(value)
