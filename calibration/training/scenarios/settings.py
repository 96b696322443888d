"""How an adapter is trained."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ....guard.errors import KnowgateError
from ....guard.read_models import CheckedSettings


class TrainingDivergedError(KnowgateError):
    """The loss is NaN or infinite; nothing was written."""


_Count = Annotated[int, Field(strict=True, ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ScenarioTrainingSettings(CheckedSettings):
    """Settings of a training run; the defaults are UniKnow's.

    Attributes:
        rank: of the LoRA adapter, which sits on every linear layer but the output's.
        alpha: its `lora_alpha`; what is added is weighted alpha / rank.
        learning_rate: AdamW's peak, falling linearly to 0.
        warm_up: share of the steps over which it rises first, in [0, 1).
        weight_decay: AdamW's.
        batch_size: examples per step.
        rows_at_once: examples computed at one time, None for the whole batch; fewer need
            less memory and give the same sums.
        epochs: times that every example is seen.
        most_steps: training ends after that many steps of the optimiser; None for all epochs.
        beta: of the preference objective: how much a step away from the base model costs.
        max_tokens: longer examples are left out, and counted; None for the model's window.
        device: `auto` (CUDA when there), `cpu`, `cuda` or `cuda:N`.
        dtype: of the frozen weights: `auto` (bfloat16 on CUDA devices that have it, float32
            elsewhere), `float32` or `bfloat16`.
        chat_template: whether prompts are wrapped by the chat template of a model that has one.
        quantise: keep the base model in 4 bits (QLoRA); on CUDA only.

    Raises:
        InputError: a value is out of its range.
    """

    rank: _Count = 4
    alpha: _Count = 16
    learning_rate: _Positive = 1e-4
    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.03
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    batch_size: _Count = 16
    rows_at_once: _Count | None = None
    epochs: _Count = 3
    most_steps: _Count | None = None
    beta: _Positive = 0.1
    max_tokens: _Count | None = None
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    chat_template: bool = True
    quantise: bool = False

    def steps(self, examples: int) -> int:
        """Return how many steps of the optimiser a training on so many examples takes."""
        steps = self.epochs * math.ceil(examples / self.batch_size)
        return steps if self.most_steps is None else min(steps, self.most_steps)

    @classmethod
    def for_embedded(cls) -> ScenarioTrainingSettings:
        """Settings for the embedded model of a million parameters.

        The rate was chosen on facts held out of the training half, where 5e-3 does worse and
        7e-4 as well; two epochs were chosen for their cost.
        """
        return cls(rank=16, alpha=32, learning_rate=2e-3, epochs=2, device="cpu")

    @classmethod
    def for_embedded_preferences(cls) -> ScenarioTrainingSettings:
        """The same for `PreferenceExample`, which needs fewer and smaller steps."""
        return cls(rank=16, alpha=32, learning_rate=1e-3, epochs=1, device="cpu")


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt and the reply to learn.

    Attributes:
        prompt: as the model is asked later, without a chat template.
        target: the reply, without the white space before it and without an end token.
    """

    prompt: str
    target: str

    @property
    def replies(self) -> tuple[str, ...]:
        """The reply."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class PreferenceExample:
    """A prompt and two replies.

    Attributes:
        prompt: as the model is asked later, without a chat template.
        chosen: the reply that is wanted.
        rejected: the one that tempts.
    """

    prompt: str
    chosen: str
    rejected: str

    @property
    def replies(self) -> tuple[str, ...]:
        """Both replies, the wanted one first."""
        return self.chosen, self.rejected


def examples_sha256(examples: Sequence[TrainingExample] | Sequence[PreferenceExample]) -> str:
    """Identifies the examples, their order included.

    >>> one = TrainingExample("Q: Who?\\nA:", "Ada")
    >>> examples_sha256([one]) == examples_sha256([one, one])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps(astuple(example), ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


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

    def __str__(self) -> str:
        first, last = self.losses[0], self.losses[-1]
        left_out = f", {self.left_out} too long" if self.left_out else ""
        loss = f"loss {first:.3f}"
        if len(self.losses) > 1:
            loss += f" in the first epoch, {last:.3f} in the last"
        return (
            f"{self.examples} examples{left_out}, {self.steps} steps in {self.seconds:.0f} s on "
            f"{self.device}: {loss}"
        )
