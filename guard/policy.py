"""The policy: thresholds, calibrators and aggregators that a guard decides by."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from .._version import __version__
from ._artefacts import (
    Artefact,
    Guarantee,
    GuaranteedRisk,
    Histogram,
    PolicyPoint,
    Probability,
    Retrieval,
    VetoBinding,
    require_fingerprint,
    require_schema_version,
)
from ._fingerprint import Fingerprint
from ._model_files import EMBEDDED_SHA256
from ._policy_file import checked, first_fault, policy_text
from ._scorer_defaults import (
    JOINT,
    default_aggregator,
    default_threshold,
    misfit,
    output_scale,
)
from .contracts import ConflictBetween, RelevanceScorer
from .decision import Route
from .errors import InputError, PolicyError
from .files import read_json, write_text

if TYPE_CHECKING:
    from ._signal import Veto

# Further names of this module are listed by the package.
__all__ = [
    "Calibrator",
    "Fingerprint",
    "Guarantee",
    "GuaranteedRisk",
    "Histogram",
    "IdentityCalibrator",
    "PlattCalibrator",
    "PolicyPoint",
    "Retrieval",
    "StepCalibrator",
    "TemperatureCalibrator",
    "aggregator",
]


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


# Logistic regression of "the passage suffices" on the cosine, over 4,000 English question and
# passage pairs from 13 open data sets (`benchmarks/default_calibrator.py`): right on average
# over many domains, and no substitute for calibrating on one's own.
_EMBEDDED_BI_ENCODER = PlattCalibrator(a=4.972, b=-2.787)
# The trained scorers' values are log-odds already.
_LOG_ODDS = PlattCalibrator(a=1.0, b=0.0)


def known_calibrator(fingerprint: Fingerprint) -> Calibrator | None:
    """The calibrator bundled with a scorer, None where there is none for it."""
    scale = output_scale(fingerprint)
    if scale == "log_odds":
        return _LOG_ODDS
    if fingerprint.kind == "bi_encoder" and fingerprint.weights_sha256 == EMBEDDED_SHA256:
        return _EMBEDDED_BI_ENCODER
    return IdentityCalibrator() if scale == "share" else None


def default_calibrator(fingerprint: Fingerprint) -> Calibrator:
    """The calibrator to use until one is fitted on the user's own questions."""
    return known_calibrator(fingerprint) or IdentityCalibrator()


Aggregator = Callable[[Sequence[float]], float]


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


SCHEMA_VERSION = 1
UNCALIBRATED = "not calibrated on your data: a default threshold without a guarantee"


class Policy(Artefact):
    """Thresholds, calibrators and their provenance; immutable.

    A threshold of None means "nothing passes": a policy for which no threshold
    met its target abstains from everything and says so. By hand a policy is best
    written with `Policy.for_scorer`.

    Attributes:
        schema_version: of this file format; a newer one is rejected.
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
        vetoes: those that the guard must be given; left out of the file when empty.
        note: what its reader must know; left out of the file when empty.
        changed: whether it was calibrated once and changed since, so that nothing is
            guaranteed; left out of the file when False.
        kept_margin: a passage whose own raw score lies further than this below the best
            passage's is left out of the prompt; None keeps all. See `Policy.kept_margin_of`.
        retrieval: what was retrieved in calibration; a guard warns where it is given other
            passages. Left out of the file when not known.

    Raises:
        PolicyError: calibrator or aggregator does not fit the scorer's output, e.g. log-odds
            that would be taken for probabilities.
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
    vetoes: tuple[VetoBinding, ...] = ()
    note: str = ""
    changed: bool = False
    kept_margin: Annotated[FiniteFloat, Field(ge=0)] | None = None
    retrieval: Retrieval | None = None

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # An older knowgate rejects fields it does not know, so those that say nothing stay out.
        fields: dict[str, Any] = handler(self)
        if not self.changed:
            del fields["changed"]
        for name in ("vetoes", "note", "kept_margin", "retrieval"):
            if fields[name] in ((), [], "", None):
                del fields[name]
        return fields

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        if len({veto.name for veto in self.vetoes}) < len(self.vetoes):
            raise ValueError("two vetoes have the same name")
        if self.conflict_with_memory and self.confidence_threshold is None:
            raise ValueError(
                "check_conflict needs a confidence_threshold: a conflict is one only where "
                'the model itself is confident (or conflict_between "passages")'
            )
        if self.may_follow and (
            why := misfit(self.scorer, self.aggregator, self.relevance_calibrator.kind)
        ):
            raise PolicyError(why, hint="write it with Policy.for_scorer, or calibrate one")
        if self.guarantee is not None and not self.guarantee.certified and self.may_follow:
            raise ValueError(
                "the guarantee says that no threshold was certified, so relevance_threshold "
                "must be null (or the guarantee, for a policy of your own)"
            )
        return self

    @classmethod
    def for_scorer(
        cls,
        scorer: RelevanceScorer,
        *,
        threshold: float | None = None,
        calibrator: Calibrator | None = None,
        aggregator: str | None = None,
    ) -> Policy:
        """A policy written by hand: it follows the context, or abstains, by a threshold.

        Aggregator and calibrator are those that fit the scorer's output. Nothing is
        guaranteed, and `note` says so; `knowgate calibrate` fits a policy with a guarantee.

        Args:
            scorer: what the guard will measure relevance with.
            threshold: follow the context from this relevance in [0, 1] on; None for the
                bundled threshold of the default scorer.
            calibrator: makes the scorer's raw value a probability. Needed for a scorer
                that has no bundled one: `IdentityCalibrator()` where its scores are
                probabilities already.
            aggregator: how passage scores become one value; the scorer's usual one by default.

        Raises:
            PolicyError: threshold or calibrator is missing, or something does not fit the
                scorer.

        Example:
            >>> from knowgate.guard.signals.relevance import LexicalScorer
            >>> Policy.for_scorer(LexicalScorer(), threshold=0.6).relevance_threshold
            0.6
        """
        fingerprint = scorer.fingerprint
        given = calibrator or known_calibrator(fingerprint)
        if given is None:
            raise PolicyError(
                f"the scores of a {type(scorer).__name__} are not known to be probabilities",
                hint="pass calibrator=IdentityCalibrator() if they are; "
                "otherwise fit one with `knowgate calibrate`",
            )
        chosen = default_threshold(fingerprint) if threshold is None else threshold
        if chosen is None:
            raise PolicyError(
                f"a {type(scorer).__name__} has no bundled threshold", hint="pass threshold=…"
            )
        try:
            return cls(
                created_by=f"knowgate {__version__}",
                scorer=fingerprint,
                aggregator=aggregator or default_aggregator(fingerprint.kind),
                relevance_calibrator=given,
                relevance_threshold=chosen,
                note=UNCALIBRATED,
            )
        except ValidationError as error:
            raise PolicyError(first_fault(error)) from None

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted on a calibration set, rather than written by hand."""
        return self.guarantee is not None or self.calibration_set_sha256 is not None

    @property
    def state(self) -> Literal["true", "false", "changed"]:
        """Value of the metric label `calibrated`."""
        return "changed" if self.changed else "true" if self.calibrated else "false"

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

    def kept(self, scores: Sequence[float | None]) -> list[int]:
        """Indices of the passages that bear on the question by their own raw scores.

        Args:
            scores: of the passages; None for one that was not scored, which is left out
                where others were scored.

        Returns:
            All indices where the policy has no `kept_margin`, or nothing was scored.
        """
        known = [score for score in scores if score is not None]
        if self.kept_margin is None or not known:
            return list(range(len(scores)))
        best, margin = max(known), self.kept_margin
        # As `Policy.kept_margin_of` computes it, to the last bit.
        return [i for i, score in enumerate(scores) if score is not None and best - score <= margin]

    def with_veto(self, veto: Veto[Any], *, threshold: float | None = None) -> Policy:
        """A copy that is bound to `veto` too, in place of one with the same name.

        Args:
            veto: what a guard with this policy must be given.
            threshold: the guard abstains from this strength on; the veto's own by default.
        """
        chosen = veto.threshold if threshold is None else threshold
        bound = VetoBinding(name=veto.name, fingerprint=veto.fingerprint, threshold=chosen)
        others = tuple(one for one in self.vetoes if one.name != veto.name)
        return self.model_copy(update={"vetoes": (*others, bound)})

    def route(
        self, relevance: float | None, confidence: float | None, conflict: bool | None = None
    ) -> Route:
        """The route for calibrated signals, vetoes aside; None for a signal that failed.

        Example:
            >>> policy = Policy(scorer=Fingerprint(kind="lexical"), relevance_threshold=0.5)
            >>> policy.route(0.7, None).value
            'follow_context'
        """
        from .routing import Signals, decide_route

        return decide_route(self, Signals.replay(self, relevance, confidence, conflict)).route

    def require_scorer(self, fingerprint: Fingerprint) -> None:
        """Reject a scorer other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        what = "scorer it was calibrated on (one in a folder by its path: `--scorer DIR`, "
        what += "`scorer=load_scorer(DIR)`)"
        hint = f"use the {what}, or calibrate this one with `knowgate calibrate`"
        require_fingerprint(self.scorer, fingerprint, "scorer", hint)

    def require_estimator(self, fingerprint: Fingerprint) -> None:
        """Reject an estimator other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        if self.estimator is not None:
            what = "confidence estimator"
            hint = f"use the {what} it was calibrated on, or run `knowgate calibrate` with this one"
            require_fingerprint(self.estimator, fingerprint, what, hint)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, allow_changed: bool = False) -> Policy:
        """Read `policy.json`, and check that it is as it was calibrated.

        A calibrated policy holds a digest of all that decides and is promised, and the counts
        that its p-values follow from; both are computed anew. A policy without a guarantee,
        e.g. one written by hand, needs no digest.

        Args:
            path: of the file.
            allow_changed: load a policy that was changed after its calibration, too: without
                its guarantee, and with `changed` set.

        Raises:
            PolicyVersionError: a newer knowgate wrote it.
            PolicyError: a field is missing, unknown or out of range, or the policy was changed.
            InputError: the file is missing or not JSON, or a key stands twice in it.
        """
        # Of two thresholds, a reader may see one and the guard take the other.
        value = read_json(path, unique=True)
        return cls.parse(value, where=os.fspath(path), allow_changed=allow_changed)

    @classmethod
    def parse(cls, value: Any, *, where: str, allow_changed: bool = False) -> Policy:
        """A policy from parsed JSON; `where` is named in errors. Raises as `load`."""
        require_schema_version(value, SCHEMA_VERSION, where=where)
        found = checked(cls, value, where=where, allow_changed=allow_changed)
        if found.aggregator not in AGGREGATOR_NAMES:
            raise PolicyError(
                f"field 'aggregator': unknown aggregator {found.aggregator!r}",
                where=where,
                hint=f"one of: {', '.join(AGGREGATOR_NAMES)}",
            )
        return found

    def to_json(self) -> str:
        """The policy as indented JSON with a final newline; a calibrated one with its digest."""
        return policy_text(self) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `policy.json` atomically."""
        write_text(path, self.to_json())

    @staticmethod
    def kept_margin_of(sets: Iterable[tuple[Sequence[float], Sequence[int]]]) -> float | None:
        """The smallest `kept_margin` that breaks no sufficient set of the calibration questions.

        Args:
            sets: per question that is answered from its context: the raw scores of its passages,
                and the indices of those that hold the answer.

        Returns:
            How far below the best passage one that holds the answer lies at most; None without
            a question. Of n exchangeable questions, a further one loses such a passage with
            probability at most 1 / (n + 1).

        Example:
            >>> Policy.kept_margin_of([([2.0, 1.5, -1.0], [1]), ([0.5, 0.0], [0])])
            0.5
        """
        gaps = [max(scores) - min(scores[i] for i in needed) for scores, needed in sets if needed]
        return max(gaps, default=None)


def finite_or_none(value: float | None) -> float | None:
    """`value`, or None where it is missing, NaN, infinite or no float can hold it."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:  # an integer with hundreds of digits
        return None
