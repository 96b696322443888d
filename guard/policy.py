"""The policy: thresholds, calibrators and aggregators that a guard decides by."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from .._version import __version__
from ._aggregators import (
    AGGREGATOR_NAMES,
    aggregator,
)
from ._artefacts import (
    LATER_FIELDS,
    Artefact,
    Guarantee,
    GuaranteedRisk,
    Histogram,
    PolicyPoint,
    Probability,
    VetoBinding,
    require_fingerprint,
    require_schema_version,
)
from ._calibrators import (
    Calibrator,
    IdentityCalibrator,
    PlattCalibrator,
    StepCalibrator,
    TemperatureCalibrator,
    known_calibrator,
)
from ._fingerprint import Fingerprint
from ._scorer_defaults import (
    default_aggregator,
    default_threshold,
    misfit,
)
from .contracts import ConflictBetween, RelevanceScorer
from .decision import Route
from .errors import PolicyError
from .files import read_json, write_text

if TYPE_CHECKING:
    from ._signal import Veto

# Further names of this module are listed by the package.
__all__ = [
    "AGGREGATOR_NAMES",
    "Calibrator",
    "Fingerprint",
    "Guarantee",
    "GuaranteedRisk",
    "Histogram",
    "IdentityCalibrator",
    "PlattCalibrator",
    "PolicyPoint",
    "StepCalibrator",
    "TemperatureCalibrator",
    "aggregator",
    "kept_margin_of",
]


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
        kept_margin: a passage whose own raw score lies further than this below the best
            passage's is left out of the prompt; None keeps all. See `kept_margin_of`.

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
    kept_margin: Annotated[FiniteFloat, Field(ge=0)] | None = None

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # An older knowgate rejects fields it does not know, so those that say nothing stay out.
        fields: dict[str, Any] = handler(self)
        for name in ("vetoes", "note", "kept_margin"):
            if fields.get(name) in ((), [], "", None):
                fields.pop(name, None)
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
            raise PolicyError(_first_fault(error)) from None

    @property
    def calibrated(self) -> bool:
        """Whether it was fitted on a calibration set, rather than written by hand."""
        return self.guarantee is not None or self.calibration_set_sha256 is not None

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
        # As `kept_margin_of` computes it, to the last bit.
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
        hint = f"use the {what}, or calibrate again with this one"
        require_fingerprint(self.scorer, fingerprint, "scorer", hint)

    def require_estimator(self, fingerprint: Fingerprint) -> None:
        """Reject an estimator other than the one this policy was calibrated on.

        Raises:
            FingerprintMismatchError: naming the fields that differ.
        """
        if self.estimator is not None:
            what = "confidence estimator"
            hint = f"use the {what} it was calibrated on, or calibrate again with this one"
            require_fingerprint(self.estimator, fingerprint, what, hint)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read `policy.json`.

        Raises:
            PolicyVersionError: a newer knowgate wrote it.
            PolicyError: a field is missing, unknown or out of range.
            InputError: the file is missing or not JSON, or a key stands twice in it.
        """
        # Of two thresholds, a reader may see one and the guard take the other.
        return cls.parse(read_json(path, unique=True), where=os.fspath(path))

    @classmethod
    def parse(cls, value: Any, *, where: str) -> Policy:
        """A policy from parsed JSON; `where` is named in errors. Raises as `load`."""
        require_schema_version(value, SCHEMA_VERSION, where=where)
        try:
            # As JSON, where `strict` takes lists for tuples and text for routes, but neither
            # true nor "0.5" for a number.
            found = cls.model_validate_json(json.dumps(value), strict=True)
        except PolicyError as error:
            raise PolicyError(error.what, where=where, hint=error.hint) from None
        except RecursionError:
            raise PolicyError(
                "nested too deeply", where=where, hint="write it with `knowgate calibrate`"
            ) from None
        except ValidationError as error:
            raise PolicyError(
                _first_fault(error), where=where, hint="write it with `knowgate calibrate`"
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
        >>> kept_margin_of([([2.0, 1.5, -1.0], [1]), ([0.5, 0.0], [0])])
        0.5
    """
    gaps = [max(scores) - min(scores[i] for i in needed) for scores, needed in sets if needed]
    return max(gaps, default=None)


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "policy"
    return f"field '{field}': {first['msg']}"


def finite_or_none(value: float | None) -> float | None:
    """`value`, or None where it is missing, NaN, infinite or no float can hold it."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:  # an integer with hundreds of digits
        return None
