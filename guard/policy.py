"""The policy: thresholds, calibrators and aggregators that a guard decides by."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import (
    ValidationError,
)

from .._version import __version__
from ._artefacts import (
    Guarantee,
    GuaranteedRisk,
    Histogram,
    Missing,
    PolicyPoint,
    Retrieval,
    VetoBinding,
    require_schema_version,
)
from ._fingerprint import (
    CascadeRule,
    Content,
    Fingerprint,
    bundled_default,
    default_aggregator,
    output_scale,
)
from ._model_files import EMBEDDED_SHA256
from ._policy_fields import (
    AGGREGATOR_NAMES,
    SCHEMA_VERSION,
    Calibrator,
    IdentityCalibrator,
    PlattCalibrator,
    PolicyFields,
    StepCalibrator,
    TemperatureCalibrator,
    aggregator,
    kept_reference,
)
from ._policy_file import checked, measured_by, policy_text
from .contracts import RelevanceScorer
from .decision import Route
from .errors import PolicyError
from .files import read_json, write_text
from .read_models import first_fault
from .routing import Signals, decide_route

if TYPE_CHECKING:
    from ._signal import Veto

# Further names of this module are listed by the package.
__all__ = [
    "Calibrator",
    "CascadeRule",
    "Content",
    "Fingerprint",
    "Guarantee",
    "GuaranteedRisk",
    "Histogram",
    "IdentityCalibrator",
    "Missing",
    "PlattCalibrator",
    "PolicyPoint",
    "Retrieval",
    "StepCalibrator",
    "TemperatureCalibrator",
    "aggregator",
]


# Logistic regression of "the passage suffices" on the cosine, over 4,000 English question and
# passage pairs from 13 open data sets (`benchmarks/default_calibrator.py`): right on average
# over many domains, and no substitute for calibrating on one's own.
_EMBEDDED_BI_ENCODER = PlattCalibrator(a=4.972, b=-2.787)
# The trained scorers' values are log-odds already.
_LOG_ODDS = PlattCalibrator(a=1.0, b=0.0)


def known_calibrator(fingerprint: Fingerprint) -> Calibrator | None:
    """The calibrator bundled with a scorer, None where there is none for it."""
    if fingerprint.stages:
        return known_calibrator(fingerprint.stages[0])
    scale = output_scale(fingerprint)
    if scale == "log_odds":
        return _LOG_ODDS
    if fingerprint.kind == "bi_encoder" and fingerprint.weights_sha256 == EMBEDDED_SHA256:
        return _EMBEDDED_BI_ENCODER
    return IdentityCalibrator() if scale == "share" else None


def default_calibrator(fingerprint: Fingerprint) -> Calibrator:
    """The calibrator to use until one is fitted on the user's own questions."""
    return known_calibrator(fingerprint) or IdentityCalibrator()


# Of a policy's file, which is read before its digest can be checked. With 20,000 questions and two
# step tables it has some 18,000.
_MOST_BYTES = 2 * 2**20
UNCALIBRATED = "not calibrated on your data: a default threshold without a guarantee"


class Policy(PolicyFields):
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
        kept_margin: a passage whose own raw score lies further than this below the second
            best passage's (of one or two: the best's) is left out of the prompt, unless it would
            be followed alone; None keeps all. See `Policy.kept_margin_of`.
        retrieval: what was retrieved in calibration; a guard warns where it is given other
            passages. Left out of the file when not known.
        generated: share of the calibration questions that programs made. Such questions are
            easier than people's, and above a tenth `state` says so. Left out of the file
            when 0.

    Raises:
        PolicyError: calibrator or aggregator does not fit the scorer's output, e.g. log-odds
            that would be taken for probabilities.
    """

    @classmethod
    def for_scorer(
        cls,
        scorer: RelevanceScorer,
        *,
        threshold: float | None = None,
        calibrator: Calibrator | None = None,
        aggregator: str | None = None,
        content: Content = "documents",
    ) -> Policy:
        """A policy written by hand: it follows the context, or abstains, by a threshold.

        Aggregator and calibrator are those that fit the scorer's output. Nothing is
        guaranteed, and `note` says so; `knowgate calibrate` fits a policy with a guarantee.

        Args:
            scorer: what the guard will measure relevance with.
            threshold: follow the context from this relevance in [0, 1] on; None for the
                bundled threshold of the default scorer, with the calibrator that goes with it.
            calibrator: makes the scorer's raw value a probability. Needed for a scorer
                that has no bundled one: `IdentityCalibrator()` where its scores are
                probabilities already.
            aggregator: how passage scores become one value; the scorer's usual one by default.
            content: of the passages, for the bundled threshold: chunks of `documents`, or short
                `answers` such as those of FAQs, on which values lie higher.

        Raises:
            PolicyError: threshold or calibrator is missing, or something does not fit the
                scorer.

        Example:
            >>> from knowgate.guard.signals.relevance import LexicalScorer
            >>> Policy.for_scorer(LexicalScorer(), threshold=0.6).relevance_threshold
            0.6
        """
        fingerprint = scorer.fingerprint
        bundled = bundled_default(fingerprint, content) if threshold is None else None
        if bundled is not None:
            calibrator = calibrator or PlattCalibrator(a=bundled.a, b=bundled.b)
            threshold = bundled.threshold
        given = calibrator or known_calibrator(fingerprint)
        if given is None:
            raise PolicyError(
                f"the scores of a {type(scorer).__name__} are not known to be probabilities",
                hint="pass calibrator=IdentityCalibrator() if they are; "
                "otherwise fit one with `knowgate calibrate`",
            )
        if threshold is None:
            raise PolicyError(
                f"a {type(scorer).__name__} has no bundled threshold", hint="pass threshold=…"
            )
        try:
            return cls(
                created_by=f"knowgate {__version__}",
                scorer=fingerprint,
                aggregator=aggregator or default_aggregator(fingerprint.kind),
                relevance_calibrator=given,
                relevance_threshold=threshold,
                note=UNCALIBRATED,
            )
        except ValidationError as error:
            raise PolicyError(first_fault(error)) from None

    def sealed(self) -> Policy:
        """A copy whose guarantee names the scorer, aggregator and calibrators that it is about."""
        if self.guarantee is None:
            return self
        named = self.guarantee.model_copy(update={"measured_by": measured_by(self)})
        return self.model_copy(update={"guarantee": named})

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
        return decide_route(self, Signals.replay(self, relevance, confidence, conflict)).route

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, allow_changed: bool = False, links: bool = True
    ) -> Policy:
        """Read `policy.json`, and check that it is as it was calibrated.

        A calibrated policy holds a digest of all that decides and is promised, and the counts
        that its p-values follow from; both are computed anew. A policy without a guarantee,
        e.g. one written by hand, needs no digest.

        Args:
            path: of the file.
            allow_changed: load a policy that was changed after its calibration, too: without
                its guarantee, and with `changed` set.
            links: whether the path may be a link to a file.

        Raises:
            PolicyVersionError: a newer knowgate wrote it.
            PolicyError: a field is missing, unknown or out of range, or the policy was changed.
            InputError: the file is missing, larger than 2 MiB or not JSON, or a key stands twice in
                it.
        """
        # Of two thresholds, a reader may see one and the guard take the other.
        value = read_json(path, unique=True, most_bytes=_MOST_BYTES, links=links)
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

    @property
    def sha256(self) -> str:
        """Digest of the file that `save` writes, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode("utf-8")).hexdigest()

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
            How far below the second best passage (of one or two: the best) one that holds the
            answer lies at most, at least 0; None without a question. Of n exchangeable
            questions, a further one loses such a passage with probability at most 1 / (n + 1).

        Example:
            >>> Policy.kept_margin_of([([2.0, 1.5, 1.0], [2]), ([0.5, 0.0], [0])])
            0.5
        """
        gaps = [
            kept_reference(scores) - min(scores[i] for i in needed)
            for scores, needed in sets
            if needed
        ]
        return max(0.0, *gaps) if gaps else None
