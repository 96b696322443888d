"""What a training run did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ScenarioTrainingReport:
    """A finished adapter.

    Attributes:
        folder: where it is: for peft, or for `HuggingFaceLM(base, adapter=folder)`.
        objective: `supervised` or `preference`.
        examples: trained on.
        left_out: examples that were too long.
        steps: of the optimiser.
        losses: mean loss of each epoch, measured while training.
        seconds: that training took.
        device: it ran on.
        base_sha256: of the base model's weight files, in name order as one stream.
        adapter_sha256: of the adapter's weight file.
        reused: whether the folder held this very adapter already, so that nothing was
            trained; the other figures are then those of its training.
    """

    folder: Path
    objective: str
    examples: int
    left_out: int
    steps: int
    losses: tuple[float, ...]
    seconds: float
    device: str
    base_sha256: str
    adapter_sha256: str
    reused: bool = False
