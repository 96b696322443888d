"""What can go wrong in training, beyond bad input; the tree is in the package's docstring."""

from __future__ import annotations

from ...guard import KnowgateError


class TrainingDivergedError(KnowgateError):
    """The loss is NaN or infinite; nothing was written."""
