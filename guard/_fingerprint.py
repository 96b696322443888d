"""Fingerprints: what the numbers of a signal depend on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat


class Fingerprint(BaseModel):
    """Identifies a signal: everything that its numbers depend on.

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
        """Names of the fields and settings in which `other` differs, each with both values.

        Example:
            >>> Fingerprint(kind="a").differences(Fingerprint(kind="b"))
            ["kind: 'a' against 'b'"]
        """
        # Another kind has other settings, which would say nothing more.
        settings = self.kind == other.kind
        mine, theirs = _flat(self, settings=settings), _flat(other, settings=settings)
        return [
            f"{name}: {_shown(mine, name)} against {_shown(theirs, name)}"
            for name in dict.fromkeys([*mine, *theirs])
            # A setting that is not there is not one that is None.
            if (name in mine, mine.get(name)) != (name in theirs, theirs.get(name))
        ]


def _shown(fields: dict[str, Any], name: str) -> str:
    return repr(fields[name]) if name in fields else "nothing"


def _flat(fingerprint: Fingerprint, *, settings: bool) -> dict[str, Any]:
    found: dict[str, Any] = fingerprint.model_dump(exclude={"settings"})
    named = fingerprint.settings if settings else {}
    return found | {f"settings.{name}": value for name, value in named.items()}
