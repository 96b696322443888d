"""Whether several scorers are mixed, and why, as `knowgate calibrate` says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...calibration.mixing import MixFit


@dataclass(frozen=True, slots=True)
class MixChoice:
    """Whether several scorers are mixed, and why.

    Attributes:
        names: of the scorers, or of their runs where they have none.
        sources: the runs.
        fit: the mix, and its comparison with the best scorer alone.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    fit: MixFit

    def line(self) -> str:
        """What `knowgate calibrate` prints."""
        fit, best = self.fit, self.names[self.fit.best]
        taken = "the mix is taken" if fit.is_better else f"the mix is not taken, but {best} alone"
        apart = fit.difference
        return (
            f"mix of {', '.join(self.names)}: AUROC {fit.mix.value:.3f} against "
            f"{fit.alone.value:.3f} of {best} alone, difference {apart.value:+.3f} "
            f"[{apart.low:+.3f}, {apart.high:+.3f}], on {fit.cases} cases that take no part in "
            f"the test: {taken}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        fit = self.fit
        return {
            "scorers": self.names,
            "taken": fit.is_better,
            "best_alone": self.names[fit.best],
            "auroc": fit.mix,
            "auroc_of_best_alone": fit.alone,
            "difference": fit.difference,
            "cases": fit.cases,
        }
