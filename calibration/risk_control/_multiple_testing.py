"""Which of many hypotheses may be rejected so that with 1 − δ none is rejected falsely."""

from __future__ import annotations

from collections.abc import Sequence


def fixed_sequence(p_values: Sequence[float], delta: float) -> list[int]:
    """Indices rejected when testing in the given order, each at the full δ, until one holds.

    The order must not depend on the data that the p-values come from.

    Source: Angelopoulos et al. 2021, Learn then Test, section on fixed-sequence testing.

    Example:
        >>> fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.1)
        [0, 1]
    """
    found = []
    for index, p_value in enumerate(p_values):
        if not p_value <= delta:  # NaN rejects nothing
            break
        found.append(index)
    return found


def bonferroni(p_values: Sequence[float], delta: float) -> list[int]:
    """Indices rejected when each is tested at δ divided by their number.

    Example:
        >>> bonferroni([0.01, 0.04, 0.2, 0.01], 0.1)
        [0, 3]
    """
    return [i for i, p_value in enumerate(p_values) if p_value <= delta / len(p_values)]


def holm(p_values: Sequence[float], delta: float) -> list[int]:
    """Indices rejected by Holm's step-down procedure; never fewer than Bonferroni's.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    Example:
        >>> holm([0.01, 0.04, 0.2, 0.01], 0.1)
        [0, 1, 3]
    """
    order = sorted(range(len(p_values)), key=lambda i: (p_values[i] != p_values[i], p_values[i]))
    found = []
    for rank, index in enumerate(order):
        if not p_values[index] <= delta / (len(p_values) - rank):
            break
        found.append(index)
    return sorted(found)
