"""Numbers that the paper published, for orientation only: another model, other data.

Source: UniKnow (Kim et al. 2025, arXiv 2502.13648), Llama3-8B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A method's exact match averaged over the paper's seven data sets.

    Attributes:
        method: by the name it has in this suite.
        em: per scenario and `all`, in [0, 1]; `all` is the mean of the four.
        rely_nq: Rely on NaturalQuestions; None where it is not at hand.
    """

    method: str
    em: Mapping[str, float]
    rely_nq: float | None


@dataclass(frozen=True, slots=True)
class PublishedAblation:
    """Rely on TriviaQA of the full training, and with kinds of contexts left out of it."""

    without: tuple[str, ...]
    rely: float


PUBLISHED_MODEL = "Llama3-8B"

_COLUMNS = ("all", "conflict", "parametric_only", "external_only", "unknown")


def _row(method: str, *em: float, rely_nq: float | None = None) -> PublishedRow:
    return PublishedRow(
        method, MappingProxyType(dict(zip(_COLUMNS, em, strict=True))), rely_nq=rely_nq
    )


PUBLISHED_ROWS = (
    _row("naive", 0.543, 0.591, 0.852, 0.662, 0.067, rely_nq=0.444),
    _row("prompting", 0.573, 0.506, 0.730, 0.594, 0.461, rely_nq=0.635),
    _row("coiecd", 0.560, 0.725, 0.738, 0.708, 0.069),
    _row("coiecd_prompt", 0.588, 0.698, 0.605, 0.685, 0.364, rely_nq=0.632),
    _row("retrobust", 0.506, 0.363, 0.908, 0.613, 0.140),
    _row("kaft", 0.657, 0.856, 0.879, 0.766, 0.125, rely_nq=0.614),
    _row("lm_uniknow", 0.767, 0.878, 0.671, 0.774, 0.746, rely_nq=0.740),
)

PUBLISHED_ABLATION = (
    PublishedAblation((), 0.842),
    PublishedAblation(("conflicting",), 0.703),
    PublishedAblation(("retrieved",), 0.733),
    PublishedAblation(("conflicting", "retrieved"), 0.708),
)
