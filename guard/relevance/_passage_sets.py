"""What every scorer that judges passages together asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from .._errors import InputError


def require_sets(questions: Sequence[str], passages: Sequence[Sequence[str]]) -> None:
    """Refuse questions without passages of their own.

    Raises:
        InputError: the lengths differ, or a question has no passage.
    """
    if len(questions) != len(passages):
        raise InputError(f"{len(questions)} questions but {len(passages)} sets of passages")
    if not all(passages):
        raise InputError("a question has no passage", mend="nothing retrieved is not scored")
