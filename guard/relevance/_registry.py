"""Relevance scorers by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from .._calibrators import Calibrator, IdentityCalibrator, PlattCalibrator
from .._contracts import RelevanceScorer
from .._errors import InputError
from .._fingerprint import Fingerprint
from ._bi_encoder import BiEncoderScorer
from ._embedded import EMBEDDED_SHA256
from ._lexical import LexicalScorer

_SCORERS: dict[str, Callable[[], RelevanceScorer]] = {
    "bi_encoder": BiEncoderScorer,
    "lexical": LexicalScorer,
}


def scorer_names() -> tuple[str, ...]:
    """Names that `load_scorer` knows, sorted."""
    return tuple(sorted(_SCORERS))


def register_scorer(name: str, factory: Callable[[], RelevanceScorer]) -> None:
    """Make `load_scorer(name)` call `factory`.

    Raises:
        InputError: the name is taken.
    """
    if name in _SCORERS:
        raise InputError(f"a scorer named {name!r} exists already", mend="choose another name")
    _SCORERS[name] = factory


def load_scorer(name: str) -> RelevanceScorer:
    """The scorer called `name`, or a bi-encoder from the folder `name`.

    Raises:
        InputError: it is neither a known name nor a folder.
    """
    if name in _SCORERS:
        return _SCORERS[name]()
    if os.path.isdir(name):
        return BiEncoderScorer(name)
    raise InputError(
        f"unknown scorer {name!r}",
        mend=f"one of: {', '.join(scorer_names())}, or a sentence-transformers folder",
    )


def default_calibrator(fingerprint: Fingerprint) -> Calibrator:
    """The calibrator to use until one is fitted on the user's own questions."""
    if fingerprint.weights_sha256 == EMBEDDED_SHA256:
        return _EMBEDDED_DEFAULT
    return IdentityCalibrator()


# Logistic regression of "the passage suffices" on the cosine, over 4,000 English question and
# passage pairs from 13 open data sets (`benchmarks/default_calibrator.py`): right on average
# over many domains, and no substitute for calibrating on one's own.
_EMBEDDED_DEFAULT = PlattCalibrator(a=4.972, b=-2.787)
