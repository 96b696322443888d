"""Variants of the trained methods: what is changed in the training, and what it led to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....calibration import Interval
from ...uniknow._metrics import MethodMetrics
from ._names import variant_of

_BASE = "lm_uniknow"
_SHARE, _WITHOUT = "abstention", "without"
# Four situations in equal parts, one of which is to be declined.
_USUAL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class AblationPoint:
    """A training with some share of examples that decline.

    Attributes:
        share: of the training examples, in [0, 1].
        rely: over all scored cases.
        unknown: exact match in `unknown`.
        memory: exact match in `parametric_only`.
    """

    share: float
    rely: Interval
    unknown: Interval
    memory: Interval


@dataclass(frozen=True, slots=True)
class Ablations:
    """What the variants in a run say.

    Attributes:
        shares: by share, ascending; the usual training among them.
        left_out: the usual training first, then those with kinds left out, with Rely.
    """

    shares: tuple[AblationPoint, ...]
    left_out: tuple[tuple[str, Interval], ...]


def find_ablations(methods: Mapping[str, MethodMetrics]) -> Ablations:
    """The ablations among the methods, by their names: `lm_uniknow@abstention=0.5` and
    `lm_uniknow@without=conflicting` (several kinds joined by `+`)."""
    shares: dict[float, MethodMetrics] = {}
    left_out: list[tuple[str, Interval]] = []
    for name, found in methods.items():
        base, variant = variant_of(name) or ("", "")
        what, _, value = variant.partition("=")
        if base != _BASE:
            continue
        if what == _SHARE and (share := _share(value)) is not None:
            shares[share] = found
        if what == _WITHOUT and value:
            left_out.append((f"without {value}", found.overall.rely))
    usual = methods.get(_BASE)
    if usual is not None and shares:
        shares.setdefault(_USUAL_SHARE, usual)
    if usual is not None and left_out:
        left_out.insert(0, ("full training", usual.overall.rely))
    return Ablations(
        tuple(_point(share, shares[share]) for share in sorted(shares)), tuple(left_out)
    )


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def _point(share: float, found: MethodMetrics) -> AblationPoint:
    return AblationPoint(
        share=share,
        rely=found.overall.rely,
        unknown=found.scenarios["unknown"].em,
        memory=found.scenarios["parametric_only"].em,
    )
