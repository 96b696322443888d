"""The policy: the calibrated artefact that a guard serves by."""

from __future__ import annotations

import json
import math
import os
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from ._aggregators import AGGREGATOR_NAMES
from ._calibrators import Calibrator, IdentityCalibrator
from ._conflict_finding import ConflictBetween
from ._errors import FingerprintMismatchError, PolicyError, PolicyVersionError
from ._fingerprint import Fingerprint
from ._guarantee import LATER_FIELDS, Artefact, Guarantee, Probability
from ._routes import Route
from .files import read_json, write_text

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
        from ._routing import Signals, decide_route

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
                mend="write it with `knowgate calibrate`",
            )
        version = value.get("schema_version")
        if isinstance(version, bool):
            version = None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise PolicyVersionError(
                f"policy schema {version} is newer than {SCHEMA_VERSION}, the newest known here",
                where=where,
                mend="upgrade knowgate or calibrate anew",
            )
        if not isinstance(version, int) or version < 1:
            raise PolicyError(
                "field 'schema_version' is missing or not a positive number",
                where=where,
                mend="write it with `knowgate calibrate`",
            )
        try:
            # As JSON, where `strict` takes lists for tuples and text for routes, but neither
            # true nor "0.5" for a number.
            found = cls.model_validate_json(json.dumps(value), strict=True)
        except RecursionError:
            raise PolicyError(
                "nested too deeply", where=where, mend="write it with `knowgate calibrate`"
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "policy"
            raise PolicyError(
                f"field '{field}': {first['msg']}",
                where=where,
                mend="write it with `knowgate calibrate`",
            ) from None
        if found.aggregator not in AGGREGATOR_NAMES:
            raise PolicyError(
                f"field 'aggregator': unknown aggregator {found.aggregator!r}",
                where=where,
                mend=f"one of: {', '.join(AGGREGATOR_NAMES)}",
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
            mend=f"use {whose}, or calibrate anew with this one",
        )


def finite_or_none(value: float | None) -> float | None:
    """`value`, or None where it is missing, NaN, infinite or no float can hold it."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:  # an integer with hundreds of digits
        return None
