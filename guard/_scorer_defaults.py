"""What fits the bundled scorers: output scale, aggregator, threshold.

A raw score is a probability only where the scorer says so. Log-odds that are clipped to
[0, 1] look like probabilities and make a policy that abstains from most good questions, so
a policy whose calibrator or aggregator does not fit its scorer's output is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._cascade_rule import CASCADE
from ._fingerprint import Fingerprint

JOINT = "joint"

# `share` is within [0, 1], `cosine` within [-1, 1], `log_odds` any finite number.
Scale = Literal["share", "cosine", "log_odds"]
_SCALES: dict[str, Scale] = {
    "bi_encoder": "cosine",
    "cross_encoder": "log_odds",
    "judge": "share",
    "late_interaction": "cosine",
    "lexical": "share",
    "sufficiency": "log_odds",
    "sufficiency_cross": "log_odds",
}
# Scorers whose joint value is meant to be used; the best passage counts for the others.
_JOINT_KINDS = frozenset({CASCADE, "judge", "sufficiency", "sufficiency_cross"})
_WITHOUT_JOINT = frozenset({"bi_encoder", "cross_encoder", "lexical"})


def output_scale(fingerprint: Fingerprint) -> Scale | None:
    """The scale of a bundled scorer's raw scores; None for any other scorer."""
    if fingerprint.kind == CASCADE and fingerprint.stages:
        # What a verdict takes away may lead below 0.
        return "log_odds" if output_scale(fingerprint.stages[0]) == "log_odds" else "cosine"
    return _SCALES.get(fingerprint.kind)


def default_aggregator(kind: str) -> str:
    """The aggregator to use with a scorer of this kind where none is named.

    Args:
        kind: a scorer's name, or the kind in its fingerprint.

    Example:
        >>> default_aggregator("sufficiency"), default_aggregator("lexical")
        ('joint', 'max')
    """
    return JOINT if kind in _JOINT_KINDS else "max"


# What passages hold: chunks of documents, or short answers such as those of FAQs.
Content = Literal["documents", "answers"]


@dataclass(frozen=True, slots=True)
class Default:
    """A calibrator and a threshold until calibration on one's own data gives better ones.

    Attributes:
        a: slope of the logistic curve over the scorer's raw values.
        b: its intercept.
        threshold: on the curve's scale.
    """

    a: float
    b: float
    threshold: float


def bundled_default(fingerprint: Fingerprint, content: Content) -> Default | None:
    """Return what `Guard.default()` decides by; None for a scorer without a bundled default.

    Chosen by `benchmarks/default_threshold.py`; rates on other data are in the page on
    `Guard.default()` of the documentation.
    """
    return _DEFAULTS.get((fingerprint.kind, content))


_DEFAULTS: dict[tuple[str, Content], Default] = {
    # From where the context more likely than not suffices, on chunks of documentation.
    ("sufficiency", "documents"): Default(a=0.75, b=0.25, threshold=0.5),
    ("sufficiency", "answers"): Default(a=1.0, b=0.0, threshold=0.57),
}


def misfit(fingerprint: Fingerprint, aggregator: str, calibrator: str) -> str:
    """Why aggregator or calibrator cannot take the scorer's raw scores; empty where they can.

    Example:
        >>> misfit(Fingerprint(kind="lexical"), "max", "identity")
        ''
    """
    kind, scale = fingerprint.kind, output_scale(fingerprint)
    if aggregator == JOINT and kind in _WITHOUT_JOINT:
        return f"aggregator 'joint' does not fit the scorer {kind!r}, which has no joint value"
    if kind == CASCADE and aggregator != JOINT:
        return f"aggregator {aggregator!r} does not fit a cascade, which judges passages together"
    if scale != "log_odds":
        return ""
    about = f"does not fit the scorer {kind!r}, whose scores are log-odds, not probabilities"
    if calibrator in ("identity", "temperature"):
        return f"relevance_calibrator {calibrator!r} {about}"
    return f"aggregator 'noisy_or' {about}" if aggregator == "noisy_or" else ""
