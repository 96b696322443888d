"""What decides the replies of a run, and what only decides how fast they come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ...guard.errors import InputError
from ..data import PassageKind
from ..run import CaseKind, StoreKind

CASES = (CaseKind.LEFT_OUT, CaseKind.IN_KB)
Engine = Literal["local", "ray"]


@dataclass(frozen=True, slots=True)
class RepliesSettings:
    """What decides the replies; goes into the manifest.

    Attributes:
        cases: kinds of cases per question.
        passage: what stands in a passage.
        top_k: passages per context, and that a guard sees of a long context.
        context_chars: the most characters of passages in a prompt; further passages are
            left out, and a first one that is longer by itself is cut. None: no bound.
        seed: of whatever is drawn.
        limit: questions per knowledge base at most, the first ones; None for all.

    Raises:
        InputError: a number is out of range, or no kind of case is named.
    """

    cases: tuple[CaseKind, ...] = CASES
    passage: PassageKind = PassageKind.ANSWER
    top_k: int = 5
    context_chars: int | None = None
    seed: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.cases or len(set(self.cases)) < len(self.cases):
            raise InputError(
                "each kind once, and at least one",
                where="--cases",
                hint=f"e.g. --cases {','.join(CASES)}",
            )
        for name in ("top_k", "context_chars", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"must be at least 1, not {value}", where=option)

    def manifest(self) -> dict[str, Any]:
        """As the manifest has it."""
        return {
            "cases": [kind.value for kind in self.cases],
            "passage": self.passage.value,
            "top_k": self.top_k,
            "context_chars": self.context_chars,
            "seed": self.seed,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How the calls are made; another time others may hold for the same run.

    Attributes:
        engine: `local`, or `ray` for a Ray cluster.
        store: kind of the file of replies.
        concurrency: calls under way at once.
        rate: calls begun per second at most, None for no bound.
        timeout: seconds per attempt, None for no deadline.
        max_attempts: tries per call, the first one counted.
        workers: with `ray`, processes that make the calls, each its share of those at once.
        ray_address: of a cluster; None starts one on this machine.

    Raises:
        InputError: a number is out of range.
    """

    engine: Engine = "local"
    store: StoreKind = "jsonl"
    concurrency: int = 8
    rate: float | None = None
    timeout: float | None = 120.0
    max_attempts: int = 3
    workers: int = 2
    ray_address: str | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "max_attempts", "workers"):
            value = getattr(self, name)
            if value < 1:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"must be at least 1, not {value}", where=option)
        for name in ("rate", "timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"must be a positive number, not {value:g}", where=f"--{name}")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come.

    Attributes:
        stage: `retrieving`, `asking` or `judging`.
        done: items of the stage that are stored.
        total: items of the stage.
        failed: of those done in this process.
        calls: of language models, in this process.
        input_tokens: likewise.
        output_tokens: likewise.
        eta_seconds: until the stage ends, None where unknown.
    """

    stage: str
    done: int
    total: int
    failed: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    eta_seconds: float | None = None
