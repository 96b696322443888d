"""Fingerprints: what the numbers of a signal depend on.

Hashes of files say that nothing was changed on the disk. A probe says that what computes with
them still gives the same scores: another version of a library, another device, or a scorer
whose files were not all hashed.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from .errors import SignalValueError

_PROBED = "scores of the probe"
_PROBE_QUESTION = "When is the library open on Sundays?"
_PROBE_PASSAGES = (
    "On Sundays the library opens at 10 and closes at 4; it is shut on public holidays.",
    "Dogs have to be registered with the city within two weeks; the fee is 12.50 € per year.",
)


class Probe(BaseModel):
    """What a scorer gives for one fixed question and its fixed passages.

    Attributes:
        scores: one per passage.
        tolerance: scores of the same scorer differ by at most so much, absolutely below 1 and
            relatively above. Threads and instruction sets make differences of 1e-6, 16-bit
            numbers of 3e-3 and more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    scores: tuple[FiniteFloat, ...]
    tolerance: Annotated[FiniteFloat, Field(gt=0)] = 1e-3

    def agrees(self, other: Probe) -> bool:
        """Whether `other` may come from the same scorer."""
        return len(self.scores) == len(other.scores) and all(
            abs(mine - its) <= self.tolerance * max(1.0, abs(mine))
            for mine, its in zip(self.scores, other.scores, strict=True)
        )


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
        probe: scores of a fixed probe; None where they were not measured.
        stages: of a cascade, its cheap and its costly scorer; empty for any other signal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    weights_sha256: str | None = None
    backend: str = "python"
    dtype: str | None = None
    max_length: int | None = Field(default=None, gt=0)
    tokenizer_sha256: str | None = None
    settings: dict[str, str | int | FiniteFloat | bool | None] = Field(default_factory=dict)
    probe: Probe | None = None
    stages: tuple[Fingerprint, ...] = ()

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        for name in ("probe", "stages"):
            if not fields.get(name):
                fields.pop(name, None)
        return fields

    @property
    def is_probed(self) -> bool:
        """Whether scores of the probe were measured, of the signal or of a stage."""
        return self.probe is not None or any(stage.is_probed for stage in self.stages)

    def probed(self, scorer: Any) -> Self:
        """A copy with the scores that `scorer` gives for the probe.

        Without them where it has no weights: what it gives then follows from its settings.

        Raises:
            SignalValueError: it does not give one finite number per passage.
        """
        if self.stages:
            parts = zip(self.stages, scorer.stages, strict=True)
            return self.model_copy(
                update={"stages": tuple(one.probed(part) for one, part in parts)}
            )
        if self.weights_sha256 is None:
            return self
        found = scorer.score(_PROBE_QUESTION, list(_PROBE_PASSAGES))
        try:
            # Six digits: the tolerance is far above.
            scores = tuple(round(float(one), 6) for one in found)
        except (TypeError, ValueError, OverflowError):
            scores = ()
        if len(scores) != len(_PROBE_PASSAGES) or not all(map(math.isfinite, scores)):
            raise SignalValueError("relevance", "no finite number for each passage of the probe")
        return self.model_copy(update={"probe": Probe(scores=scores)})

    def differences(self, other: Fingerprint) -> list[str]:
        """Names of the fields and settings in which `other` differs, each with both values.

        Probes are compared where both have one, with their tolerance.

        Example:
            >>> Fingerprint(kind="a").differences(Fingerprint(kind="b"))
            ["kind: 'a' against 'b'"]
        """
        # Another kind has other settings, which would say nothing more.
        settings = self.kind == other.kind
        mine, theirs = _flat(self, settings=settings), _flat(other, settings=settings)
        if self.probe and other.probe and not self.probe.agrees(other.probe):
            mine[_PROBED], theirs[_PROBED] = self.probe.scores, other.probe.scores
        found = [
            f"{name}: {_shown(mine, name)} against {_shown(theirs, name)}"
            for name in dict.fromkeys([*mine, *theirs])
            # A setting that is not there is not one that is None.
            if (name in mine, mine.get(name)) != (name in theirs, theirs.get(name))
        ]
        for number, (stage, its) in enumerate(zip(self.stages, other.stages, strict=False), 1):
            found += [f"stage {number}: {line}" for line in stage.differences(its)]
        return found


def _shown(fields: dict[str, Any], name: str) -> str:
    return repr(fields[name]) if name in fields else "nothing"


def _flat(fingerprint: Fingerprint, *, settings: bool) -> dict[str, Any]:
    found: dict[str, Any] = fingerprint.model_dump(exclude={"settings", "probe", "stages"})
    named = fingerprint.settings if settings else {}
    return found | {f"settings.{name}": value for name, value in named.items()}
