"""How several scorers make one value: the rule of a mix, as calibration fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, ValidationError

from .errors import InputError
from .fingerprint import MIX, Artefact, Fingerprint

_Weight = Annotated[FiniteFloat, Field(ge=0)]


class MixRule(Artefact):
    """How several scorers make one value: log-odds that the passages suffice.

    Each scorer counts by its value for all passages, and by its margin: how far the best passage
    stands out from the mean of the others. No weight is below 0, so that no question scores
    higher because a scorer says less.

    Attributes:
        intercept: of the log-odds.
        weights: of the value and of the margin of each scorer.

    Example:
        >>> rule = MixRule(intercept=-1.0, weights=((2.0, 0.5), (1.0, 0.0)))
        >>> rule.value([(0.5, 2.0), (3.0, 1.0)])
        4.0
        >>> MixRule.margin([1.0, 4.0, 2.0]), MixRule.margin([7.0])
        (2.5, 0.0)
    """

    intercept: FiniteFloat
    weights: tuple[tuple[_Weight, _Weight], ...]

    def value(self, parts: Sequence[tuple[float, float]]) -> float:
        """The log-odds of one question.

        Args:
            parts: value and margin of each scorer.
        """
        pairs = zip(self.weights, parts, strict=True)
        return self.intercept + sum(a * value + b * margin for (a, b), (value, margin) in pairs)

    @staticmethod
    def margin(scores: Sequence[float]) -> float:
        """The best score less the mean of the others; 0 for one passage alone."""
        if len(scores) < 2:
            return 0.0
        best = max(scores)
        return best - (sum(scores) - best) / (len(scores) - 1)

    def fingerprint(self, parts: Sequence[Fingerprint]) -> Fingerprint:
        """Return the fingerprint of a mix by this rule of scorers with these."""
        settings: dict[str, Any] = {"intercept": self.intercept}
        for number, (value, margin) in enumerate(self.weights, start=1):
            settings |= {f"value_{number}": value, f"margin_{number}": margin}
        return Fingerprint(kind=MIX, settings=settings, parts=tuple(parts))

    @classmethod
    def of(cls, wanted: Fingerprint) -> MixRule:
        """Return the rule of a mix's fingerprint.

        Raises:
            InputError: a weight is missing or no number.
        """
        numbers, found = range(1, len(wanted.parts) + 1), wanted.settings
        weights = [(found.get(f"value_{n}"), found.get(f"margin_{n}")) for n in numbers]
        try:
            return cls.model_validate({"intercept": found.get("intercept"), "weights": weights})
        except ValidationError:
            hint = "calibrate again: `knowgate calibrate --mix`"
            raise InputError("the policy's mix has no weights", hint=hint) from None
