"""Choose the kind of calibrator by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..guard.policy import Calibrator, IdentityCalibrator
from ._arrays import Floats, Numbers, Outcomes, scored_cases
from ._calibrators import (
    clustered_standard_error,
    deal_to_folds,
    fit_isotonic,
    fit_platt,
    fit_temperature,
    fit_venn_abers,
)

FEWEST_UNITS = 20
"""Below so many independent units, differences between kinds are chance: none is measured."""
_CLIP = 1e-6


def _fit_identity(_scores: Floats, _outcomes: Floats) -> Calibrator:
    return IdentityCalibrator()


def _fit_platt(scores: Floats, outcomes: Floats) -> Calibrator:
    came_true = outcomes > 0.0
    return fit_platt(scores[came_true].tolist(), scores[~came_true].tolist())


# The simplest first: no number fitted, one, two, then tables.
_FITS: dict[str, Callable[[Floats, Floats], Calibrator]] = {
    "identity": _fit_identity,
    "temperature": fit_temperature,
    "platt": _fit_platt,
    "isotonic": fit_isotonic,
    "venn_abers": fit_venn_abers,
}
_NEED_PROBABILITIES = ("identity", "temperature")


@dataclass(frozen=True, slots=True)
class CalibratorChoice:
    """The calibrator to use and how the kinds compared.

    Attributes:
        calibrator: of the chosen kind, fitted on all the data.
        kind: `identity`, `temperature`, `platt`, `isotonic` or `venn_abers`; `identity` too
            where the chosen kind finds nothing to fit.
        losses: mean log loss (nats) of each kind on folds that it was not fitted on; empty
            where nothing was measured.
        brier_scores: likewise the mean squared error.
        standard_errors: of each kind's log loss above the smallest, over units.
        n: independent units (groups, or cases without groups).
        folds: parts of the cross-validation; 0 where there was none.
        reason: why this kind, in words.
    """

    calibrator: Calibrator
    kind: str
    losses: dict[str, float]
    brier_scores: dict[str, float]
    standard_errors: dict[str, float]
    n: int
    folds: int
    reason: str

    @classmethod
    def among(
        cls,
        scores: Numbers,
        outcomes: Outcomes,
        *,
        groups: Sequence[str] | None = None,
        kinds: Sequence[str] = ("platt", "isotonic", "temperature", "venn_abers"),
        folds: int = 5,
        seed: int = 0,
    ) -> CalibratorChoice:
        """The simplest kind whose cross-validated log loss is as good as the best, by chance.

        Every kind is fitted on all folds but one and judged on that one; a group never lies in
        two folds. The kind of smallest mean log loss sets the mark. The choice is the simplest
        kind (identity, temperature, Platt, isotonic, Venn–Abers, in this order) whose loss is
        above it by no more than one standard error of the difference, taken pairwise over
        groups. Then it is fitted on all the data.

        Log loss is measured with probabilities held within [1e-6, 1 - 1e-6]. The identity and
        the temperature take scores as probabilities: where a score lies outside [0, 1] they
        are left out.

        With fewer than 20 groups, or an outcome that only one group has, nothing can be
        compared: then the choice is Platt where it is among the kinds, else the simplest. Where
        an outcome is missing altogether the calibrator is the identity.

        Args:
            scores: finite raw scores or probabilities.
            outcomes: whether each case came true, as many.
            groups: cases of one group are no independent evidence; by default each is its own.
            kinds: among those named above.
            folds: at least 2; never more than there are groups.
            seed: of the deal of groups to folds.

        Raises:
            ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
                nor false, a kind is unknown or none suits the scores, `folds` is below 2.

        Source: the one-standard-error rule is from Breiman et al. 1984, Classification and
        regression trees.

        Example:
            >>> choice = CalibratorChoice.among([0.1, 0.9], [False, True])
            >>> choice.kind, choice.folds, choice.losses
            ('platt', 0, {})
        """
        numbers, came_true = scored_cases(scores, outcomes)
        if folds < 2:
            raise ValueError(f"there must be two folds, not {folds}")
        unit = _units(groups, len(numbers))
        suiting = _suiting_kinds(kinds, numbers)
        n = int(unit.max(initial=-1)) + 1
        few = _why_nothing_is_compared(unit, came_true, n)
        if few:
            kind = "platt" if "platt" in suiting else suiting[0]
            calibrator, kind = _fitted(kind, numbers, came_true)
            return cls(calibrator, kind, {}, {}, {}, n, 0, few)
        fold = deal_to_folds(unit, came_true, min(folds, n), seed)
        return _compared(suiting, numbers, came_true, unit, fold)


def _units(groups: Sequence[str] | None, cases: int) -> NDArray[np.int64]:
    """Number of the independent unit of each case."""
    if groups is not None and len(groups) != cases:
        raise ValueError(f"{cases} scores for {len(groups)} groups")
    names = np.arange(cases) if groups is None else np.asarray([str(group) for group in groups])
    units: NDArray[np.int64] = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return units


def _compared(
    suiting: Sequence[str],
    numbers: Floats,
    came_true: Floats,
    unit: NDArray[np.int64],
    fold: NDArray[np.int64],
) -> CalibratorChoice:
    """The choice among kinds, the simplest first, by their loss on held-out folds."""
    stated = {kind: _held_out(_FITS[kind], numbers, came_true, fold) for kind in suiting}
    log_losses = {kind: _log_losses(p, came_true) for kind, p in stated.items()}
    losses = {kind: float(values.mean()) for kind, values in log_losses.items()}
    best = min(suiting, key=losses.__getitem__)
    errors = {
        kind: clustered_standard_error(values - log_losses[best], unit)
        for kind, values in log_losses.items()
    }
    kind = next(k for k in suiting if losses[k] <= losses[best] + errors[k])
    if kind == best:
        reason = "its log loss on held-out folds is smallest"
    else:
        reason = f"it is simpler than {best}, whose log loss is not smaller beyond chance"
    briers = {kind: float(np.mean((p - came_true) ** 2)) for kind, p in stated.items()}
    calibrator, kind = _fitted(kind, numbers, came_true)
    n, folds = int(unit.max()) + 1, int(fold.max()) + 1
    return CalibratorChoice(calibrator, kind, losses, briers, errors, n, folds, reason)


def _suiting_kinds(kinds: Sequence[str], scores: Floats) -> list[str]:
    """The kinds that can take these scores, the simplest first."""
    unknown = sorted(set(kinds) - set(_FITS))
    if unknown:
        raise ValueError(f"no calibrator of kind {unknown[0]!r}; there are {', '.join(_FITS)}")
    stated = bool(((scores >= 0.0) & (scores <= 1.0)).all())
    suiting = [k for k in _FITS if k in kinds and (stated or k not in _NEED_PROBABILITIES)]
    if not suiting:
        raise ValueError("none of the kinds suits scores outside 0 and 1")
    return suiting


def _why_nothing_is_compared(unit: NDArray[np.int64], outcomes: Floats, n: int) -> str:
    """Empty where there is enough to compare kinds."""
    if n < FEWEST_UNITS:
        return f"too few to compare kinds: {n} independent units of {FEWEST_UNITS}"
    for outcome, name in ((1.0, "true"), (0.0, "false")):
        having = len(np.unique(unit[outcomes == outcome]))
        if having < 2:
            return f"too few to compare kinds: {having} of {n} units with a {name} outcome"
    return ""


def _held_out(
    fit: Callable[[Floats, Floats], Calibrator],
    scores: Floats,
    outcomes: Floats,
    fold: NDArray[np.int64],
) -> Floats:
    """Per case the probability by a calibrator that saw none of the case's fold."""
    stated = np.zeros_like(scores)
    for part in np.unique(fold):
        held_out = fold == part
        calibrator = fit(scores[~held_out], outcomes[~held_out])
        stated[held_out] = [calibrator.apply(score) for score in scores[held_out].tolist()]
    return stated


def _log_losses(stated: Floats, outcomes: Floats) -> Floats:
    given = np.clip(np.where(outcomes > 0.0, stated, 1 - stated), _CLIP, 1 - _CLIP)
    found: Floats = -np.log(given)
    return found


def _fitted(kind: str, scores: Floats, outcomes: Floats) -> tuple[Calibrator, str]:
    calibrator = _FITS[kind](scores, outcomes)
    return calibrator, "identity" if isinstance(calibrator, IdentityCalibrator) else kind
