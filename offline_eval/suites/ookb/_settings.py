"""Settings that decide the replies of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....guard.errors import InputError
from ...data import PassageKind
from ...run import CaseKind

CASES = (CaseKind.LEFT_OUT, CaseKind.IN_KB)


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
