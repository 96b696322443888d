"""Fingerprints: what the numbers of a signal depend on, and what fits the bundled scorers.

Hashes of files say that nothing was changed on the disk. A probe says that what computes with
them still gives the same scores: another version of a library, another device, or a scorer
whose files were not all hashed.

A raw score is a probability only where the scorer says so. Log-odds that are clipped to
[0, 1] look like probabilities and make a policy that abstains from most good questions, so
a policy whose calibrator or aggregator does not fit its scorer's output is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from .errors import InputError, PolicyError, SignalValueError
from .files import table_beside

_PROBED = "scores of the probe"
_PROBE_QUESTION = "When is the library open on Sundays?"
_PROBE_PASSAGES = (
    "On Sundays the library opens at 10 and closes at 4; it is shut on public holidays.",
    "Dogs have to be registered with the city within two weeks; the fee is 12.50 € per year.",
)


class Artefact(BaseModel):
    """A part of a stored artefact: immutable, unknown fields are rejected.

    Attributes:
        LEFT_OUT: fields that are not stored where they say nothing, since an older knowgate
            rejects what it does not know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    LEFT_OUT: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        for name in self.LEFT_OUT:
            if getattr(self, name) == type(self).model_fields[name].get_default():
                fields.pop(name, None)
        return fields


class Probe(Artefact):
    """What a scorer gives for one fixed question and its fixed passages.

    Attributes:
        scores: one per passage.
        tolerance: scores of the same scorer differ by at most so much, absolutely below 1 and
            relatively above. Threads and instruction sets make differences of 1e-6, 16-bit
            numbers of 3e-3 and more.
    """

    scores: tuple[FiniteFloat, ...]
    tolerance: Annotated[FiniteFloat, Field(gt=0)] = 1e-3

    def agrees(self, other: Probe) -> bool:
        """Whether `other` may come from the same scorer."""
        return len(self.scores) == len(other.scores) and all(
            abs(mine - its) <= self.tolerance * max(1.0, abs(mine))
            for mine, its in zip(self.scores, other.scores, strict=True)
        )


class Fingerprint(Artefact):
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
        stages: of a cascade, its cheap and its costly scorer, and the strict reading of the cheap
            one where it is asked; empty for any other signal.
        parts: of a mix, the scorers that are mixed; empty for any other signal.
    """

    LEFT_OUT = ("probe", "stages", "parts")

    kind: str
    weights_sha256: str | None = None
    backend: str = "python"
    dtype: str | None = None
    max_length: int | None = Field(default=None, gt=0)
    tokenizer_sha256: str | None = None
    settings: dict[str, str | int | FiniteFloat | bool | None] = Field(default_factory=dict)
    probe: Probe | None = None
    stages: tuple[Fingerprint, ...] = ()
    parts: tuple[Fingerprint, ...] = ()

    @property
    def inner(self) -> tuple[Fingerprint, ...]:
        """The scorers that it is made of: stages of a cascade, or parts of a mix."""
        return (*self.stages, *self.parts)

    @property
    def is_probed(self) -> bool:
        """Whether scores of the probe were measured, of the signal or of one in it."""
        return self.probe is not None or any(one.is_probed for one in self.inner)

    def probed(self, scorer: Any) -> Self:
        """A copy with the scores that `scorer` gives for the probe.

        Without them where it has no weights: what it gives then follows from its settings.

        Raises:
            SignalValueError: it does not give one finite number per passage.
        """
        if self.inner:
            name = "stages" if self.stages else "parts"
            # A combined scorer of one's own may name them as its fingerprint does.
            inner = getattr(scorer, name, None) or scorer.scorers
            pairs = zip(self.inner, inner, strict=True)
            return self.model_copy(update={name: tuple(one.probed(part) for one, part in pairs)})
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
            for name in {**mine, **theirs}
            # A setting that is not there is not one that is None.
            if (name in mine, mine.get(name)) != (name in theirs, theirs.get(name))
        ]
        what = "stage" if self.stages else "part"
        for number, (one, its) in enumerate(zip(self.inner, other.inner, strict=False), 1):
            found += [f"{what} {number}: {line}" for line in one.differences(its)]
        if len(self.inner) != len(other.inner):
            found.append(f"scorers in it: {len(self.inner)} against {len(other.inner)}")
        return found


def _shown(fields: dict[str, Any], name: str) -> str:
    return repr(fields[name]) if name in fields else "nothing"


def _flat(fingerprint: Fingerprint, *, settings: bool) -> dict[str, Any]:
    found: dict[str, Any] = fingerprint.model_dump(exclude={"settings", "probe", "stages", "parts"})
    named = fingerprint.settings if settings else {}
    return found | {f"settings.{name}": value for name, value in named.items()}


# Which stage a value rests on: `fallback` where the costly scorer was asked and failed.
RelevanceStage = Literal["cheap", "costly", "fallback"]
CASCADE = "cascade"
METADATA = "metadata"
MIX = "mix"
_NotNegative = Annotated[FiniteFloat, Field(ge=0)]


class CascadeRule(Artefact):
    """How two scorers make one value.

    The costly scorer is asked about a cheap value in the band from `threshold` up to, but not
    including, `threshold + reach`. Its verdict v in [0, 1] lowers the value by
    2 · width · (1 − v), where the width is `reach`, so that below one half no question of the band
    stays at the threshold. All other values stay as they are: below the band nothing can pass,
    above it everything does. For a fixed reach, lowering the threshold never makes a question fail
    that passed.

    With a strict reading, in which doubtful sentences count for nothing, the band is one of its
    values: the costly scorer is asked where the cheap value passes and the strict one, if it is
    lower, is not above the band. The match may add nothing to the question then. The distance of
    both values is added to the width, so that a verdict below one half still decides.

    Attributes:
        threshold: lower edge of the band, on the cheap scorer's scale; a value passes from here on.
        reach: width of the band; 0 asks about nothing.
        fallback: where the costly scorer failed, the cheap value from which on a question of the
            band passes; None: it does not pass. Above the band, where doubts asked, it does not.

    Example:
        >>> rule = CascadeRule(threshold=0.5, reach=0.25)
        >>> [rule.asks(value) for value in (0.4, 0.5, 0.75)]
        [False, True, False]
        >>> rule.value(0.7, 1.0), rule.value(0.7, 0.5), rule.value(0.4, None)
        (0.7, 0.44999999999999996, 0.4)
    """

    threshold: FiniteFloat
    reach: _NotNegative
    fallback: FiniteFloat | None = None

    def asks(self, cheap: float, strict: float = math.inf) -> bool:
        """Whether the costly scorer is asked about a question with these values."""
        return self.threshold <= cheap and min(cheap, strict) < self.threshold + self.reach

    def stage(
        self, cheap: float, verdict: float | None, strict: float = math.inf
    ) -> RelevanceStage:
        """Which stage decides."""
        if not self.asks(cheap, strict):
            return "cheap"
        return "fallback" if verdict is None else "costly"

    def value(self, cheap: float, verdict: float | None, strict: float = math.inf) -> float:
        """The value of both stages; it passes from `threshold` on.

        Args:
            cheap: the cheap scorer's value.
            verdict: of the costly scorer, in [0, 1]; None where it was not asked or failed.
            strict: the value of the strict reading; infinite where there is none.
        """
        if not self.asks(cheap, strict):
            return cheap
        if verdict is None:
            if self.fallback is not None and cheap < self.threshold + self.reach:
                return self.threshold + (cheap - self.fallback)
            verdict = 0.0
        return cheap - 2.0 * (self.reach + max(0.0, cheap - strict)) * (1.0 - verdict)

    def fingerprint(self, *stages: Fingerprint, calibrator: BaseModel | None = None) -> Fingerprint:
        """Return the fingerprint of a cascade by this rule.

        Args:
            stages: of the cheap scorer, the costly one, and the strict reading if it is asked.
            calibrator: that makes verdicts of the costly one's values; None for the one bundled
                with it.
        """
        settings: dict[str, Any] = self.model_dump()
        if calibrator is not None:
            settings["calibrator"] = calibrator.model_dump_json()
        return Fingerprint(kind=CASCADE, settings=settings, stages=stages)

    @staticmethod
    def strictest(cheap: float, verdict: float, reach: float, strict: float = math.inf) -> float:
        """The highest threshold at which a question passes, if the band has this width.

        Example:
            >>> CascadeRule.strictest(0.7, 1.0, 0.25), CascadeRule.strictest(0.75, 0.0, 0.25)
            (0.7, 0.5)
            >>> CascadeRule.strictest(0.75, 0.0, 0.25, strict=0.5)
            0.25
        """
        return cheap - (reach + max(0.0, cheap - strict)) * min(1.0, 2.0 * (1.0 - verdict))


class MixRule(Artefact):
    """How several scorers make one value: log-odds that the passages suffice.

    Each scorer counts by its value for all passages, and by its margin: how far the best passage
    stands out from the mean of the others. No weight is below 0, so that no question scores
    higher because a scorer says less.

    Attributes:
        intercept: of the log-odds.
        weights: of the value and of the margin of each scorer.

    Example:
        >>> rule = MixRule(intercept=-1.0, weights=((2.0, 0.5), (1.0, 0.0)))
        >>> rule.value([(0.5, 2.0), (3.0, 1.0)])
        4.0
        >>> MixRule.margin([1.0, 4.0, 2.0]), MixRule.margin([7.0])
        (2.5, 0.0)
    """

    intercept: FiniteFloat
    weights: tuple[tuple[_NotNegative, _NotNegative], ...]

    def value(self, parts: Sequence[tuple[float, float]]) -> float:
        """The log-odds of one question.

        Args:
            parts: value and margin of each scorer.
        """
        pairs = zip(self.weights, parts, strict=True)
        return self.intercept + sum(a * value + b * margin for (a, b), (value, margin) in pairs)

    @staticmethod
    def margin(scores: Sequence[float]) -> float:
        """The best score less the mean of the others; 0 for one passage alone."""
        if len(scores) < 2:
            return 0.0
        best = max(scores)
        return best - (sum(scores) - best) / (len(scores) - 1)

    def fingerprint(self, parts: Sequence[Fingerprint]) -> Fingerprint:
        """Return the fingerprint of a mix by this rule of scorers with these."""
        settings: dict[str, Any] = {"intercept": self.intercept}
        for number, (value, margin) in enumerate(self.weights, start=1):
            settings |= {f"value_{number}": value, f"margin_{number}": margin}
        return Fingerprint(kind=MIX, settings=settings, parts=tuple(parts))

    @classmethod
    def of(cls, wanted: Fingerprint) -> MixRule:
        """Return the rule of a mix's fingerprint.

        Raises:
            InputError: a weight is missing or no number.
        """
        numbers, found = range(1, len(wanted.parts) + 1), wanted.settings
        weights = [(found.get(f"value_{n}"), found.get(f"margin_{n}")) for n in numbers]
        try:
            return cls.model_validate({"intercept": found.get("intercept"), "weights": weights})
        except ValidationError:
            hint = "calibrate again: `knowgate calibrate --mix`"
            raise InputError("the policy's mix has no weights", hint=hint) from None


JOINT = "joint"

Aggregator = Callable[[Sequence[float]], float]


def aggregate_noisy_or(scores: Sequence[float]) -> float:
    """Probability that at least one passage suffices, were they independent.

    Scores are clipped to [0, 1] first, so this fits scores that are probabilities.

    Example:
        >>> aggregate_noisy_or([0.5, 0.5])
        0.75
    """
    return 1.0 - math.prod(1.0 - min(1.0, max(0.0, score)) for score in scores)


def aggregate_top3_mean(scores: Sequence[float]) -> float:
    """Mean of the three best scores (of all, where there are fewer).

    Example:
        >>> aggregate_top3_mean([3.0, 0.0, 1.0, 2.0])
        2.0
    """
    best = sorted(scores, reverse=True)[:3]
    return sum(best) / len(best)


def aggregate_joint(scores: Sequence[float]) -> float:
    """The scorer's own value for all passages together, which cannot be had from `scores`.

    Raises:
        InputError: always; a guard under this aggregator asks the scorer's `score_set`.
    """
    what = "the joint value is the scorer's own and does not follow from passage scores"
    raise InputError(what, hint="use a scorer with score_set and score_sets")


# Those that follow from passage scores alone; a policy may name these or `joint`. `max`: one
# sufficient passage is enough.
AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType(
    {"max": max, "noisy_or": aggregate_noisy_or, "top3_mean": aggregate_top3_mean}
)
AGGREGATOR_NAMES = (*AGGREGATORS, JOINT)


def aggregator(name: str) -> Aggregator:
    """The aggregator called `name`; it is never given an empty sequence.

    Raises:
        PolicyError: there is none of that name.
    """
    if name not in AGGREGATOR_NAMES:
        hint = f"one of: {', '.join(AGGREGATOR_NAMES)}"
        raise PolicyError(f"unknown aggregator {name!r}", hint=hint)
    return AGGREGATORS.get(name, aggregate_joint)


# `share` is within [0, 1], `cosine` within [-1, 1], `log_odds` any finite number.
Scale = Literal["share", "cosine", "log_odds"]
# By the name of a bundled scorer, or the kind in its fingerprint.
_KINDS: dict[str, dict[str, Any]] = table_beside(__file__, "scorer_kinds.toml")


def _of_kind(kind: str, what: str) -> Any:
    return _KINDS.get(kind, {}).get(what)


def output_scale(fingerprint: Fingerprint) -> Scale | None:
    """The scale of a bundled scorer's raw scores; None for any other scorer."""
    if fingerprint.kind == CASCADE and fingerprint.stages:
        # What a verdict takes away may lead below 0.
        return "log_odds" if output_scale(fingerprint.stages[0]) == "log_odds" else "cosine"
    scale: Scale | None = _of_kind(fingerprint.kind, "scale")
    return scale


def default_aggregator(kind: str) -> str:
    """The aggregator to use with a scorer of this kind where none is named.

    Args:
        kind: a scorer's name, or the kind in its fingerprint.

    Example:
        >>> default_aggregator("sufficiency"), default_aggregator("lexical")
        ('joint', 'max')
    """
    return JOINT if _of_kind(kind, "joint") else "max"


_STRICT = "_strict"


# Settings that only a strict reading has: how strict it is, and the version of its rules.
OF_STRICT = ("strictness", "strict_reading")


def strict_kind(kind: str) -> str:
    """The kind of a scorer's strict reading, see `SufficiencyScorer.strict`."""
    return f"{kind}{_STRICT}"


def read_loosely(fingerprint: Fingerprint) -> Fingerprint | None:
    """The scorer that this is the strict reading of, without a probe; None where it is none."""
    kind = fingerprint.kind.removesuffix(_STRICT)
    if kind == fingerprint.kind:
        return None
    kept = {name: one for name, one in fingerprint.settings.items() if name not in OF_STRICT}
    return fingerprint.model_copy(update={"kind": kind, "settings": kept, "probe": None})


# What passages hold: chunks of documents, or short answers such as those of FAQs.
Content = Literal["documents", "answers"]


def bundled_default(
    fingerprint: Fingerprint,
    content: Content,
) -> tuple[float, float, float] | None:
    """Return what `Guard.default()` decides by; None for a scorer without a bundled default.

    That is slope and intercept of a logistic curve over the scorer's raw values, and a threshold on
    its scale.
    """
    found = _of_kind(fingerprint.kind, content)
    return None if found is None else tuple(found)


def misfit(fingerprint: Fingerprint, aggregator: str, calibrator: str) -> str:
    """Why aggregator or calibrator cannot take the scorer's raw scores; empty where they can.

    Example:
        >>> misfit(Fingerprint(kind="lexical"), "max", "identity")
        ''
    """
    kind, scale = fingerprint.kind, output_scale(fingerprint)
    if aggregator == JOINT and _of_kind(kind, "joint") is False:
        return f"aggregator 'joint' does not fit the scorer {kind!r}, which has no joint value"
    if kind == CASCADE and aggregator != JOINT:
        return f"aggregator {aggregator!r} does not fit a cascade, which judges passages together"
    if scale != "log_odds":
        return ""
    about = f"does not fit the scorer {kind!r}, whose scores are log-odds, not probabilities"
    if calibrator in ("identity", "temperature"):
        return f"relevance_calibrator {calibrator!r} {about}"
    return f"aggregator 'noisy_or' {about}" if aggregator == "noisy_or" else ""
