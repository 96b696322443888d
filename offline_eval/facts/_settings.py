"""How a knowledge base is built."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...guard import InputError
from ._prompts import BuildPrompts

NO_MODEL = "none"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What decides the questions.

    Attributes:
        model: name of the model that is asked; `none` for rules alone. What was asked
            under one name is not asked again under it.
        prompts: what it is asked with.
        structured: use structured output where the model has it.
        sentences_per_call: most sentences in one request for facts.
        max_mends: how often a faulty reply is sent back.

    Raises:
        InputError: a number is out of range.
    """

    model: str = NO_MODEL
    prompts: BuildPrompts = field(default_factory=BuildPrompts)
    structured: bool = True
    sentences_per_call: int = 12
    max_mends: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.sentences_per_call <= 100:
            raise InputError(
                "must be between 1 and 100", where="sentences_per_call", mend="12 does well"
            )
        if self.max_mends < 0:
            raise InputError("must not be negative", where="max_mends", mend="0 for none")
        if not self.model:
            raise InputError("must not be empty", where="model", mend=f"`{NO_MODEL}` for none")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How the model is asked; none of it changes what is asked.

    Attributes:
        max_concurrency: requests at a time.
        rate: requests a second, None for no limit.
        timeout: seconds for one request, None for no limit.
        max_attempts: requests for one reply when the provider fails; faulty replies that
            are sent back come on top.
        first_wait: seconds before the second attempt, doubled from there.

    Raises:
        InputError: a number is out of range.
    """

    max_concurrency: int = 8
    rate: float | None = None
    timeout: float | None = 60.0
    max_attempts: int = 4
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        whole = {"max_concurrency": self.max_concurrency, "max_attempts": self.max_attempts}
        for name, value in whole.items():
            if value < 1:
                raise InputError("must be at least 1", where=name, mend="leave it out")
        for name, seconds in {"rate": self.rate, "timeout": self.timeout}.items():
            if seconds is not None and not 0 < seconds < math.inf:
                raise InputError("must be positive", where=name, mend="leave it out")
        if not 0 <= self.first_wait < math.inf:
            raise InputError("must not be negative", where="first_wait", mend="leave it out")
