"""Fingerprints: what a policy is bound to.

A threshold calibrated on one scorer says nothing about another, nor about the
same weights in another precision, so the policy stores the fingerprint and the
guard refuses a scorer whose fingerprint differs.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat


class Fingerprint(BaseModel):
    """Identifies a scorer or an estimator as far as its numbers depend on it.

    Attributes:
        kind: the registered name, e.g. `bi_encoder`.
        weights_sha256: of the weights file, None for a method without weights.
        backend: what computes it, e.g. `torch`, `onnxruntime`, `python`.
        dtype: numeric precision, e.g. `float32`.
        max_length: longest input in tokens, None when unlimited.
        tokenizer_sha256: of the tokenizer file, None without one.
        settings: everything else that changes the numbers, e.g. the aggregator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    weights_sha256: str | None = None
    backend: str = "python"
    dtype: str | None = None
    max_length: int | None = Field(default=None, gt=0)
    tokenizer_sha256: str | None = None
    settings: dict[str, str | int | FiniteFloat | bool | None] = Field(default_factory=dict)

    def differences(self, other: Fingerprint) -> list[str]:
        """Names of the fields in which `other` differs, each with both values.

        Example:
            >>> Fingerprint(kind="a").differences(Fingerprint(kind="b"))
            ["kind: 'a' against 'b'"]
        """
        mine: dict[str, Any] = self.model_dump()
        theirs: dict[str, Any] = other.model_dump()
        return [
            f"{name}: {mine[name]!r} against {theirs[name]!r}"
            for name in mine
            if mine[name] != theirs[name]
        ]
