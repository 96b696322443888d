"""Relevance scorers by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..._model_files import ADAPTER_CONFIG
from ...contracts import RelevanceScorer
from ...engine import EMBEDDED_SHA256, BiEncoderScorer
from ...errors import InputError
from ...policy import Calibrator, Fingerprint, IdentityCalibrator, PlattCalibrator
from ._late_interaction import LateInteractionScorer
from ._lexical import LexicalScorer
from ._sufficiency import FUSED_FILE, FusedScorer, SufficiencyScorer

# The scorer wherever none is named.
DEFAULT_SCORER = "fused"

_SCORERS: dict[str, Callable[[], RelevanceScorer]] = {
    "bi_encoder": BiEncoderScorer,
    "fused": FusedScorer,
    "late_interaction": LateInteractionScorer,
    "lexical": LexicalScorer,
    "sufficiency": SufficiencyScorer,
}
# Scorers whose joint value is meant to be gone by; the best passage counts for the others.
_JOINT_KINDS = frozenset({"fused", "sufficiency"})


def scorer_names() -> tuple[str, ...]:
    """Names that `load_scorer` knows, sorted."""
    return tuple(sorted(_SCORERS))


def register_scorer(name: str, factory: Callable[[], RelevanceScorer]) -> None:
    """Make `load_scorer(name)` call `factory`.

    Raises:
        InputError: the name is taken.
    """
    if name in _SCORERS:
        raise InputError(f"a scorer named {name!r} exists already", hint="choose another name")
    _SCORERS[name] = factory


def load_scorer(name: str) -> RelevanceScorer:
    """The scorer called `name`, or the one in the folder `name`.

    A folder that `knowgate tune relevance` wrote gives a fused scorer, any other a
    bi-encoder.

    Raises:
        InputError: it is neither a known name nor a folder.
    """
    if name in _SCORERS:
        return _SCORERS[name]()
    if os.path.isdir(name):
        # Either of the two, so that a damaged folder is called what it is.
        marks = (FUSED_FILE, ADAPTER_CONFIG)
        tuned = any(os.path.isfile(os.path.join(name, mark)) for mark in marks)
        return FusedScorer(name) if tuned else BiEncoderScorer(name)
    raise InputError(
        f"unknown scorer {name!r}",
        hint=f"one of: {', '.join(scorer_names())}, or a tuned or sentence-transformers folder",
    )


def default_aggregator(kind: str) -> str:
    """The aggregator to use with a scorer of this kind where none is named.

    Args:
        kind: a scorer's name, or the kind in its fingerprint.

    Example:
        >>> default_aggregator("fused"), default_aggregator("lexical")
        ('joint', 'max')
    """
    return "joint" if kind in _JOINT_KINDS else "max"


def default_calibrator(fingerprint: Fingerprint) -> Calibrator:
    """The calibrator to use until one is fitted on the user's own questions."""
    if fingerprint.kind == "bi_encoder" and fingerprint.weights_sha256 == EMBEDDED_SHA256:
        return _EMBEDDED_DEFAULT
    if fingerprint.kind in ("fused", "sufficiency"):
        return _LOG_ODDS
    return IdentityCalibrator()


# Logistic regression of "the passage suffices" on the cosine, over 4,000 English question and
# passage pairs from 13 open data sets (`benchmarks/default_calibrator.py`): right on average
# over many domains, and no substitute for calibrating on one's own.
_EMBEDDED_DEFAULT = PlattCalibrator(a=4.972, b=-2.787)
# The trained scorers' values are log-odds already.
_LOG_ODDS = PlattCalibrator(a=1.0, b=0.0)
