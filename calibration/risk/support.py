"""A threshold for the support of replies, with a promise on those that are delivered."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...guard.artefacts import SupportPolicy, counted_groups
from ...guard.errors import InputError
from ...guard.fingerprint import Fingerprint
from ..statistics import numbered, questions_needed
from .certificate import fixed_sequence, groups_at

_MOST_POINTS = 40


def fit_support(
    supports: Sequence[float],
    unsupported: Sequence[bool],
    questions: Sequence[Hashable],
    check: Fingerprint,
    *,
    risk: float = 0.1,
    delta: float = 0.1,
) -> SupportPolicy:
    """Find the lowest threshold at which at most `risk` of what is delivered is unsupported.

    Thresholds are at most forty quantiles of the supports, which no verdict has a part in. They
    are tested from the strictest one that delivers replies to enough questions on, each at the
    full δ, until one fails. Replies to one question count together, so that questions, and not
    replies, have to be independent.

    Args:
        supports: of n replies, in [0, 1].
        unsupported: whether each is known to be unsupported.
        questions: what each answers.
        check: what measured the supports.
        risk: the bound, in (0, 1).
        delta: in (0, 1).

    Raises:
        InputError: the lengths differ, there are no replies, or a number is off its scale.

    Source: Angelopoulos et al. 2021, Learn then Test, for the sequence of tests.
    """
    if not len(supports) == len(unsupported) == len(questions):
        raise InputError("every reply has a support, a verdict and a question", where="supports")
    values, wrong = np.asarray(supports, dtype=np.float64), np.asarray(unsupported, dtype=bool)
    if not len(values) or not ((values >= 0.0) & (values <= 1.0)).all():
        raise InputError("there are no replies, or a support is not in [0, 1]", where="supports")
    if not (0.0 < risk < 1.0 and 0.0 < delta < 1.0):
        raise InputError("must be in (0, 1)", where="risk and delta")
    # From the strictest on.
    levels = np.quantile(values, np.linspace(1.0, 0.0, _MOST_POINTS), method="nearest")
    levels = np.unique(levels)[::-1]
    passing = values >= levels[:, None]
    losses = np.broadcast_to(wrong.astype(np.float64), passing.shape)
    by_group = groups_at(numbered(questions), passing, losses)
    points = zip(levels.tolist(), by_group, strict=True)
    # With fewer, nothing could be certified, however few replies are unsupported.
    needed = questions_needed(risk, delta)
    tested = [point for point in points if counted_groups(point[1]) >= needed]
    p_values = [SupportPolicy.p_value_of(groups, risk) for _, groups in tested]
    passed = fixed_sequence(p_values, delta)
    found: dict[str, Any] = {
        "threshold": None,
        "unsupported": int(wrong.sum()),
        "note": f"no threshold certifies that at most {risk:g} of the delivered replies are "
        "unsupported, so none is delivered",
    }
    if passed:
        threshold, groups = tested[passed[-1]]
        delivered = values >= threshold
        found = {
            "threshold": threshold,
            "risk": risk,
            "delivered": int(delivered.sum()),
            "unsupported": int(wrong[delivered].sum()),
            "groups": groups,
            "p_value": p_values[passed[-1]],
            "note": f"with confidence {1 - delta:.0%} over the draw of the {len(set(questions))} "
            f"questions, at most {risk:.0%} of the replies that are delivered are unsupported",
        }
    return SupportPolicy(check=check, delta=delta, replies=len(values), **found)
