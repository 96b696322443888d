"""Relevance scorers by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..._model_files import ADAPTER_CONFIG
from ...contracts import RelevanceScorer
from ...engine import BiEncoderScorer
from ...errors import InputError
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


def load_scorer(name: str, *, folders: bool = True) -> RelevanceScorer:
    """The scorer called `name`, or the one in the folder `name`.

    A folder that `knowgate tune relevance` wrote gives a fused scorer, any other a
    bi-encoder.

    Args:
        name: of a registered scorer, or a path.
        folders: False for a name that comes from a policy or another file, which must not
            choose what is loaded from the disk.

    Raises:
        InputError: it is neither a known name nor a folder.
    """
    if name in _SCORERS:
        return _SCORERS[name]()
    if not folders:
        raise InputError(
            f"no scorer is registered as {name!r}",
            hint="pass scorer=load_scorer(FOLDER) for one in a folder (--scorer FOLDER), or "
            f"register it; known: {', '.join(scorer_names())}",
        )
    if os.path.isdir(name):
        # Either of the two, so that a damaged folder is called what it is.
        marks = (FUSED_FILE, ADAPTER_CONFIG)
        tuned = any(os.path.isfile(os.path.join(name, mark)) for mark in marks)
        return FusedScorer(name) if tuned else BiEncoderScorer(name)
    raise InputError(
        f"unknown scorer {name!r}",
        hint=f"one of: {', '.join(scorer_names())}, or a tuned or sentence-transformers folder",
    )
