"""Where a cheap scorer's value decides, and what a costly scorer's verdict changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from ._fingerprint import Fingerprint

# Which stage a value rests on: `fallback` where the costly scorer was asked and failed.
RelevanceStage = Literal["cheap", "costly", "fallback"]
CASCADE = "cascade"


class CascadeRule(BaseModel):
    """How two scorers make one value.

    The costly scorer is asked about a cheap value in the band from `threshold` up to, but not
    including, `threshold + reach`. Its verdict v in [0, 1] lowers the value by
    2 · reach · (1 − v), so that below one half no question of the band stays at the threshold.
    All other values stay as they are: below the band nothing can pass, above it everything does.
    For a fixed reach, lowering the threshold never makes a question fail that passed.

    Attributes:
        threshold: lower edge of the band, on the cheap scorer's scale; a value passes from here on.
        reach: width of the band; 0 asks about nothing.
        fallback: where the costly scorer failed, the cheap value from which on a question passes;
            None: it does not pass.

    Example:
        >>> rule = CascadeRule(threshold=0.5, reach=0.25)
        >>> [rule.asks(value) for value in (0.4, 0.5, 0.75)]
        [False, True, False]
        >>> rule.value(0.7, 1.0), rule.value(0.7, 0.5), rule.value(0.4, None)
        (0.7, 0.44999999999999996, 0.4)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: FiniteFloat
    reach: Annotated[FiniteFloat, Field(ge=0)]
    fallback: FiniteFloat | None = None

    def asks(self, cheap: float) -> bool:
        """Whether the costly scorer is asked about a question with this cheap value."""
        return self.threshold <= cheap < self.threshold + self.reach

    def stage(self, cheap: float, verdict: float | None) -> RelevanceStage:
        """Which stage decides."""
        if not self.asks(cheap):
            return "cheap"
        return "fallback" if verdict is None else "costly"

    def value(self, cheap: float, verdict: float | None) -> float:
        """The value of both stages; it passes from `threshold` on.

        Args:
            cheap: the cheap scorer's value.
            verdict: of the costly scorer, in [0, 1]; None where it was not asked or failed.
        """
        if not self.asks(cheap):
            return cheap
        if verdict is None:
            if self.fallback is not None:
                return self.threshold + (cheap - self.fallback)
            verdict = 0.0
        return cheap - 2.0 * self.reach * (1.0 - verdict)

    def fingerprint(
        self, cheap: Fingerprint, costly: Fingerprint, calibrator: BaseModel | None = None
    ) -> Fingerprint:
        """Return the fingerprint of a cascade by this rule.

        Args:
            cheap: of the cheap scorer.
            costly: of the costly scorer.
            calibrator: that makes verdicts of its values; None for the one bundled with it.
        """
        settings: dict[str, Any] = self.model_dump()
        if calibrator is not None:
            settings["calibrator"] = calibrator.model_dump_json()
        return Fingerprint(kind=CASCADE, settings=settings, stages=(cheap, costly))

    @staticmethod
    def strictest(cheap: float, verdict: float, reach: float) -> float:
        """The highest threshold at which a question passes, if the band has this width.

        Example:
            >>> CascadeRule.strictest(0.7, 1.0, 0.25), CascadeRule.strictest(0.75, 0.0, 0.25)
            (0.7, 0.5)
        """
        return cheap - reach * min(1.0, 2.0 * (1.0 - verdict))
