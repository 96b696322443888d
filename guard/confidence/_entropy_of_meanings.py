"""Semantic entropy of answers that were put into clusters: numbers in, a number out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from .._errors import InputError

Form = Literal["normalised", "monte_carlo"]


def semantic_entropy(
    cluster_ids: Sequence[int],
    loglikelihoods: Sequence[float] | None = None,
    *,
    form: Form = "normalised",
) -> float:
    """Entropy, in nats, of what sampled answers mean.

    With P(c) = the share of samples in cluster c (discrete), or
    P(c) = Σ of the samples' likelihoods in c (likelihood-weighted, by log-sum-exp):

    - `normalised`: −Σ P(c) log P(c) with P made to sum to 1; from 0 to the log of the
      number of clusters.
    - `monte_carlo`: −(1/n) Σ over the n samples of log P(c of the sample), P left as it
      is. Without likelihoods this is the same number; with them it is unbounded, and
      grows with the answers' length.

    Every sample counts, also where two are the same text.

    Args:
        cluster_ids: one per sample, at least one.
        loglikelihoods: natural-log likelihood of each sample, of the whole sequence or
            per token as the caller chooses; None for the discrete form.
        form: as above.

    Raises:
        InputError: no samples, lists of different length, or likelihoods that are NaN,
            infinite upwards or all zero.

    Source: Kuhn et al. 2023 (monte_carlo); Farquhar et al. 2024 (discrete; normalised).

    Example:
        >>> round(semantic_entropy([0, 0, 1, 1]), 4)
        0.6931
    """
    if not len(cluster_ids):
        raise InputError("holds no samples", where="cluster_ids")
    if form not in ("normalised", "monte_carlo"):
        raise InputError(f"{form!r} is unknown", where="form", mend="use normalised or monte_carlo")
    counts = Counter(cluster_ids)
    total = len(cluster_ids)
    if loglikelihoods is None:
        shares = [count / total for count in counts.values()]
        return _clean(-math.fsum(share * math.log(share) for share in shares))
    if len(loglikelihoods) != total:
        raise InputError(
            f"has {len(loglikelihoods)} numbers for {total} samples", where="loglikelihoods"
        )
    if any(math.isnan(value) or value == math.inf for value in loglikelihoods):
        raise InputError("holds NaN or infinity", where="loglikelihoods")
    members: dict[int, list[float]] = {}
    for cluster, value in zip(cluster_ids, loglikelihoods, strict=True):
        members.setdefault(cluster, []).append(value)
    logs = {cluster: log_sum_exp(values) for cluster, values in members.items()}
    if form == "monte_carlo":
        return -math.fsum(counts[cluster] * log for cluster, log in logs.items()) / total
    whole = log_sum_exp(list(logs.values()))
    if whole == -math.inf:
        raise InputError("are all zero probabilities", where="loglikelihoods")
    parts = [log - whole for log in logs.values() if log > -math.inf]
    return _clean(-math.fsum(math.exp(part) * part for part in parts))


def log_sum_exp(values: Sequence[float]) -> float:
    """log Σ exp(value) without overflow; -inf where all values are.

    Example:
        >>> round(log_sum_exp([-1000.0, -1000.0]), 4)
        -999.3069
    """
    highest = max(values)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


def _clean(entropy: float) -> float:
    """Rounding must not make an entropy negative, nor 0 a -0."""
    return max(0.0, entropy) + 0.0
