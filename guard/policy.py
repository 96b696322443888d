"""The policy: the calibrated artefact that a guard serves by."""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from .contracts import ConflictBetween
from .decision import Route
from .errors import FingerprintMismatchError, InputError, PolicyError, PolicyVersionError
from .files import read_json, write_text


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


class _Calibrator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IdentityCalibrator(_Calibrator):
    """The score itself, clipped to [0, 1]."""

    kind: Literal["identity"] = "identity"

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return min(1.0, max(0.0, score))


class PlattCalibrator(_Calibrator):
    """Logistic curve `1 / (1 + exp(-(a·score + b)))`.

    Source: Platt 1999, Probabilistic outputs for support vector machines.

    Example:
        >>> PlattCalibrator(a=2.0, b=-1.0).apply(0.5)
        0.5
    """

    kind: Literal["platt"] = "platt"
    a: FiniteFloat = Field(gt=0)
    b: FiniteFloat

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return _sigmoid(self.a * score + self.b)


class TemperatureCalibrator(_Calibrator):
    """A probability whose log-odds are divided by a temperature.

    Source: Guo et al. 2017, On calibration of modern neural networks.
    """

    kind: Literal["temperature"] = "temperature"
    temperature: FiniteFloat = Field(gt=0)

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a `score` that is a probability itself."""
        p = min(1.0, max(0.0, score))
        if p in (0.0, 1.0):
            return p
        return _sigmoid(math.log(p / (1.0 - p)) / self.temperature)


class StepCalibrator(_Calibrator):
    """A non-decreasing step table, as isotonic regression and Venn–Abers give.

    Attributes:
        edges: strictly increasing scores at which the next value begins.
        values: probabilities, one more than `edges`.

    Example:
        >>> StepCalibrator(edges=(0.5,), values=(0.1, 0.8)).apply(0.5)
        0.8
    """

    kind: Literal["step"] = "step"
    edges: tuple[FiniteFloat, ...]
    values: tuple[Annotated[float, Field(ge=0, le=1)], ...]

    @model_validator(mode="after")
    def _monotone(self) -> StepCalibrator:
        if len(self.values) != len(self.edges) + 1:
            raise ValueError("values must be one longer than edges")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        if any(b < a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise ValueError("values must not decrease")
        return self

    def apply(self, score: float) -> float:
        """Probability in [0, 1] for a finite `score`."""
        return self.values[bisect_right(self.edges, score)]


Calibrator = Annotated[
    IdentityCalibrator | PlattCalibrator | TemperatureCalibrator | StepCalibrator,
    Field(discriminator="kind"),
]


def _sigmoid(x: float) -> float:
    # One formula nearly everywhere: it is non-decreasing to the last bit, which e / (1 + e) is
    # not. Far out, where exp(-x) would overflow, the 1 is lost in it anyway.
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else math.exp(x)


Aggregator = Callable[[Sequence[float]], float]
JOINT = "joint"


def aggregate_max(scores: Sequence[float]) -> float:
    """The best passage's score: one sufficient passage is enough.

    Example:
        >>> aggregate_max([0.2, 0.9])
        0.9
    """
    return max(scores)


def aggregate_noisy_or(scores: Sequence[float]) -> float:
    """Probability that at least one passage suffices, were they independent.

    Scores are clipped to [0, 1] first, so this fits scores that are probabilities.

    Example:
        >>> aggregate_noisy_or([0.5, 0.5])
        0.75
    """
    none_suffices = 1.0
    for score in scores:
        none_suffices *= 1.0 - min(1.0, max(0.0, score))
    return 1.0 - none_suffices


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
    raise InputError(
        "the joint value is the scorer's own and does not follow from passage scores",
        hint="use a scorer with score_set and score_sets",
    )


# Those that follow from passage scores alone; a policy may name these or `joint`.
AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType(
    {"max": aggregate_max, "noisy_or": aggregate_noisy_or, "top3_mean": aggregate_top3_mean}
)
AGGREGATOR_NAMES = (*AGGREGATORS, JOINT)


def aggregator(name: str) -> Aggregator:
    """The aggregator called `name`; it is never given an empty sequence.

    Raises:
        InputError: there is none of that name.
    """
    if name == JOINT:
        return aggregate_joint
    try:
        return AGGREGATORS[name]
    except KeyError:
        raise InputError(
            f"unknown aggregator {name!r}", hint=f"one of: {', '.join(AGGREGATOR_NAMES)}"
        ) from None


Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]

# Of a guarantee: left out of the file where they say nothing.
LATER_FIELDS = frozenset(
    {"method", "questions", "routes", "risks", "path", "chosen"}
    | {"population", "not_covered", "more_questions"}
)


class Artefact(BaseModel):
    """A part of a stored artefact: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyPoint(Artefact):
    """One point of a path of thresholds.

    Attributes:
        relevance: follow the context from this relevance on; None: never.
        confidence: answer from memory from this confidence on; None: never.
        on_conflict: what a conflict does to a context that passes: nothing (`ignore`),
            or the guard abstains.
        p_value: of "some promised bound is broken here".
        let_through: calibration questions let through here.
        errors: questions that went wrong here, in the sense of the guarantee's `loss`.
    """

    relevance: Probability | None
    confidence: Probability | None
    on_conflict: Literal["ignore", "abstain"] = "ignore"
    p_value: Probability
    let_through: Count
    errors: Count


class GuaranteedRisk(Artefact):
    """One bound of a guarantee that has several, and its evidence.

    Attributes:
        kind: which risk, e.g. `selective`, `follow`, `answer`, `false_abstention`, `cost`,
            `abstention`.
        bound: in (0, 1).
        n: questions that count for it.
        loss: how much went wrong among them: errors, or the sum of costs.
        p_value: of "the bound is broken".
        losses: cost of each mishap, for `cost`.
    """

    kind: str
    bound: Annotated[float, Field(gt=0, lt=1)]
    n: Count
    loss: Annotated[float, Field(ge=0)]
    p_value: Probability
    losses: dict[str, Probability] | None = None


class Guarantee(Artefact):
    """What was promised, and on what evidence.

    Attributes:
        statement: the promise in words.
        risk: the bound α that was asked for, in (0, 1).
        delta: probability δ in (0, 1) that the promise fails by bad luck in the draw.
        certified: False when no threshold met the target; the policy then abstains.
        loss: what counts as an error.
        unit: what is counted; always questions, never passages.
        n: units the certificate rests on.
        errors: units among them that went wrong at the threshold, in the sense of `loss`.
        method: how many candidates were tested without raising δ; empty for one threshold.
        questions: units that took part in the test, let through or not; None as `n`.
        routes: of those, how many went by each route.
        risks: every bound that was asked for, with its evidence at the chosen point; where
            nothing was certified, at the most promising one.
        path: the operating points, declared before the test, from strict to lax.
        chosen: index in `path` of the point that the policy serves by; None: none.
        population: whom the promise speaks of.
        not_covered: what it says nothing about.
        more_questions: about how many more would be needed, where nothing was certified
            and more could help.
    """

    statement: str
    risk: Annotated[float, Field(gt=0, lt=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    certified: bool
    loss: str
    unit: Literal["question"] = "question"
    n: Count
    errors: Count
    method: str = ""
    questions: Count | None = None
    routes: dict[Route, Count] = Field(default_factory=dict)
    risks: tuple[GuaranteedRisk, ...] = ()
    path: tuple[PolicyPoint, ...] = ()
    chosen: Count | None = None
    population: str = ""
    not_covered: tuple[str, ...] = ()
    more_questions: Count | None = None

    @model_validator(mode="after")
    def _counted(self) -> Guarantee:
        if self.errors > self.n:
            raise ValueError("errors must not exceed n")
        if self.chosen is not None and self.chosen >= len(self.path):
            raise ValueError("chosen must be an index of path")
        return self


SCHEMA_VERSION = 1


class Histogram(Artefact):
    """Counts of a signal over the calibration set, for watching drift.

    Attributes:
        edges: increasing bin edges, one more than `counts`.
        counts: questions per bin; the last bin includes its right edge.
    """

    edges: tuple[FiniteFloat, ...]
    counts: tuple[Annotated[int, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _shape(self) -> Histogram:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError("edges must be one longer than counts")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        return self


class Policy(Artefact):
    """Thresholds, calibrators and their provenance; immutable.

    A threshold of None means "nothing passes": a policy for which no threshold
    met its target abstains from everything and says so.

    Attributes:
        schema_version: of this file format; a newer one is refused.
        created_by: the program and version that wrote it.
        scorer: fingerprint of the relevance scorer it was calibrated on.
        estimator: fingerprint of the confidence estimator, if one took part.
        aggregator: how passage scores become one value per question; `joint` for the
            scorer's own value of all passages together.
        relevance_calibrator: raw aggregated score → relevance in [0, 1].
        confidence_calibrator: raw confidence → confidence in [0, 1].
        relevance_threshold: follow the context from this relevance on (inclusive).
        confidence_threshold: answer from memory from this confidence on (inclusive).
        allowed_routes: routes the guard may take; abstaining is always allowed.
        check_conflict: measure conflict before following a sufficient context.
        conflict_between: what has to contradict what: the model's confident memory
            all passages (`memory`), one passage another (`passages`, for which
            memory is not asked), or either (`both`).
        on_conflict: what a detected conflict leads to: the context is followed all
            the same (`follow_context`), the reply names every view and its sources
            (`show_both`), or the guard abstains (`abstain`).
        guarantee: what was certified, None for a policy written by hand.
        calibration_set_sha256: of the records it was fitted on.
        histograms: signal name → its distribution over the calibration set.
    """

    schema_version: int = SCHEMA_VERSION
    created_by: str = ""
    scorer: Fingerprint
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    relevance_calibrator: Calibrator = Field(default_factory=IdentityCalibrator)
    confidence_calibrator: Calibrator = Field(default_factory=IdentityCalibrator)
    relevance_threshold: Probability | None
    confidence_threshold: Probability | None = None
    allowed_routes: tuple[Route, ...] = (Route.FOLLOW_CONTEXT, Route.ABSTAIN)
    check_conflict: bool = False
    conflict_between: ConflictBetween = "memory"
    on_conflict: Literal["follow_context", "show_both", "abstain"] = "follow_context"
    guarantee: Guarantee | None = None
    calibration_set_sha256: str | None = None
    histograms: dict[str, Histogram] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        if self.conflict_with_memory and self.confidence_threshold is None:
            raise ValueError(
                "check_conflict needs a confidence_threshold: a conflict is one only where "
                'the model itself is confident (or conflict_between "passages")'
            )
        if self.guarantee is not None and not self.guarantee.certified and self.may_follow:
            raise ValueError(
                "the guarantee says that no threshold was certified, so relevance_threshold "
                "must be null (or the guarantee, for a policy of your own)"
            )
        return self

    @property
    def may_follow(self) -> bool:
        """Whether any context can be followed under this policy."""
        return self.relevance_threshold is not None and Route.FOLLOW_CONTEXT in self.allowed_routes

    @property
    def may_answer(self) -> bool:
        """Whether the model may ever answer from its own knowledge."""
        return self.confidence_threshold is not None and Route.ANSWER in self.allowed_routes

    @property
    def needs_estimator(self) -> bool:
        """Whether serving this policy can ask for confidence."""
        return self.may_answer or (self.conflict_with_memory and self.may_follow)

    @property
    def conflict_with_memory(self) -> bool:
        """Whether the model's own answer takes part in the look for a conflict."""
        return self.check_conflict and self.conflict_between != "passages"

    def route(
        self, relevance: float | None, confidence: float | None, conflict: bool | None = None
    ) -> Route:
        """The route for calibrated signals; None stands for a signal that failed.

        Example:
            >>> policy = Policy(scorer=Fingerprint(kind="lexical"), relevance_threshold=0.5)
            >>> policy.route(0.7, None).value
            'follow_context'
        """
        from .routing import Signals, decide_route

        return decide_route(self, Signals.replay(self, relevance, confidence, conflict)).route

    def require_scorer(self, fingerprint: Fingerprint) -> None:
        """Refuse a scorer other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        _require(self.scorer, fingerprint, "scorer")

    def require_estimator(self, fingerprint: Fingerprint) -> None:
        """Refuse an estimator other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        if self.estimator is not None:
            _require(self.estimator, fingerprint, "confidence estimator")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read `policy.json`.

        Raises:
            PolicyVersionError: a newer knowgate wrote it.
            PolicyError: a field is missing, unknown or out of range.
            InputError: the file is missing or not JSON.
        """
        return cls.parse(read_json(path), where=os.fspath(path))

    @classmethod
    def parse(cls, value: Any, *, where: str) -> Policy:
        """A policy from parsed JSON; `where` is named in errors. Raises as `load`."""
        if not isinstance(value, dict):
            raise PolicyError(
                f"expected a JSON object, found {type(value).__name__}",
                where=where,
                hint="write it with `knowgate calibrate`",
            )
        version = value.get("schema_version")
        if isinstance(version, bool):
            version = None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise PolicyVersionError(
                f"policy schema {version} is newer than {SCHEMA_VERSION}, the newest known here",
                where=where,
                hint="upgrade knowgate or calibrate anew",
            )
        if not isinstance(version, int) or version < 1:
            raise PolicyError(
                "field 'schema_version' is missing or not a positive number",
                where=where,
                hint="write it with `knowgate calibrate`",
            )
        try:
            # As JSON, where `strict` takes lists for tuples and text for routes, but neither
            # true nor "0.5" for a number.
            found = cls.model_validate_json(json.dumps(value), strict=True)
        except RecursionError:
            raise PolicyError(
                "nested too deeply", where=where, hint="write it with `knowgate calibrate`"
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "policy"
            raise PolicyError(
                f"field '{field}': {first['msg']}",
                where=where,
                hint="write it with `knowgate calibrate`",
            ) from None
        if found.aggregator not in AGGREGATOR_NAMES:
            raise PolicyError(
                f"field 'aggregator': unknown aggregator {found.aggregator!r}",
                where=where,
                hint=f"one of: {', '.join(AGGREGATOR_NAMES)}",
            )
        return found

    def to_json(self) -> str:
        """The policy as indented JSON with a final newline."""
        # An older knowgate refuses fields it does not know, so one that says nothing new stays out.
        silent: dict[str, Any] = {}
        if self.conflict_between == "memory":
            silent["conflict_between"] = True
        if self.guarantee is not None:
            unused = Guarantee.model_fields.keys() - self.guarantee.model_fields_set
            silent["guarantee"] = dict.fromkeys(unused & LATER_FIELDS, True)
        return self.model_dump_json(indent=2, exclude=silent) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `policy.json` atomically."""
        write_text(path, self.to_json())


def _require(expected: Fingerprint, found: Fingerprint, what: str) -> None:
    differences = expected.differences(found)
    if differences:
        whose = f"the {what} it was calibrated on"
        if what == "scorer":
            whose += " (one in a folder by its path: `--scorer DIR`, `scorer=load_scorer(DIR)`)"
        raise FingerprintMismatchError(
            f"the policy was calibrated on another {what} ({'; '.join(differences)})",
            hint=f"use {whose}, or calibrate anew with this one",
        )


def finite_or_none(value: float | None) -> float | None:
    """`value`, or None where it is missing, NaN, infinite or no float can hold it."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:  # an integer with hundreds of digits
        return None
