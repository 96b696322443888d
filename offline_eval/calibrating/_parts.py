"""How large the parts are: of so many questions, how many certify, and the other way round."""

from __future__ import annotations

import math

# Calibrators and path need some questions, and no more: the test is worth the rest.
_LEARNING_SHARE, _FEW, _MOST_OF_FEW = 0.25, 60, 0.4


def learning_share(fitted: int) -> float:
    """Share of the questions to fit on that calibrators and path are learned from.

    Example:
        >>> learning_share(100), learning_share(200), learning_share(1000)
        (0.4, 0.3, 0.25)
    """
    return min(max(_LEARNING_SHARE, _FEW / max(1, fitted)), _MOST_OF_FEW)


def questions_to_give(certifying: int, *, share: float) -> int:
    """About how many questions there must be in all for so many of them to certify.

    Args:
        certifying: questions that are to certify.
        share: of all questions that are fitted on, in (0, 1].

    Example:
        >>> questions_to_give(60, share=0.5), questions_to_give(750, share=1.0)
        (200, 1000)
    """
    # The inverse of fitted · (1 − learning_share(fitted)).
    fitted = min(
        max(certifying / (1.0 - _LEARNING_SHARE), certifying + _FEW),
        certifying / (1.0 - _MOST_OF_FEW),
    )
    return math.ceil(fitted / share - 1e-9)
