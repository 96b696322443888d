"""What is trained on: prompts with the reply that is wanted, or with two to choose from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt and the reply to learn.

    Attributes:
        prompt: as the model is asked later, without a chat template.
        target: the reply, without the white space before it and without an end token.
    """

    prompt: str
    target: str


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
