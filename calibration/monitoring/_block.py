"""Counts of some consecutive decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...guard import InputError, Policy
from ._drift import SignalCounter
from ._state import whole


class Block:
    """What a monitor knows of a block of decisions: a few whole numbers.

    Attributes:
        signals: values per bin.
        abstained: how many decisions abstained.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.signals = SignalCounter(policy)
        self.abstained = 0

    def add(self, relevance: float | None, confidence: float | None, abstained: bool) -> None:
        """Count one decision."""
        self.signals.add(relevance, confidence)
        self.abstained += abstained

    def copy(self) -> Block:
        """Its equal, which later decisions leave alone."""
        return Block.from_dict(self._policy, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The counts, as JSON holds them."""
        return {
            "decisions": self.signals.decisions,
            "abstained": self.abstained,
            "counts": {name: list(counts) for name, counts in self.signals.counts.items()},
        }

    @classmethod
    def from_dict(cls, policy: Policy, state: object) -> Block:
        """A block that `to_dict` gave.

        Raises:
            InputError: it gave no such thing.
        """
        block = cls(policy)
        counts = state.get("counts") if isinstance(state, Mapping) else None
        if not isinstance(state, Mapping) or not isinstance(counts, Mapping):
            raise InputError("a block of a saved state is broken")
        block.signals.decisions, block.abstained = (
            whole(state, "decisions"), whole(state, "abstained"),
        )  # fmt: skip
        if block.abstained > block.signals.decisions:
            raise InputError("a block of a saved state is broken")
        for name, bins in block.signals.counts.items():
            saved = counts.get(name)
            if not isinstance(saved, list) or len(saved) != len(bins):
                raise InputError("a block of a saved state is broken")
            block.signals.counts[name] = [whole({"count": count}, "count") for count in saved]
            if sum(block.signals.counts[name]) > block.signals.decisions:
                raise InputError("a block of a saved state is broken")
        return block
