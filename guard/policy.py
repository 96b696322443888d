"""The policy that a guard decides by: read, checked against its digest and evidence, written.

A calibrated policy is held against its evidence wherever it is loaded: its counts have to give its
p-values, and these to certify its thresholds. The formulas are those of the calibration, computed
without its libraries.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from .._version import CREATED_BY
from ._signal import Veto, require_usable
from .artefacts import (
    Guarantee,
    GuaranteedRisk,
    LeakTest,
    PolicyPoint,
    VetoBinding,
    added_up,
    binomial_tail,
    bound_on_mean,
    counted_groups,
    hoeffding_bentkus,
    require_schema_version,
    whole,
)
from .contracts import RelevanceScorer, checked_scorer
from .decision import Route
from .errors import PolicyError, first_fault
from .files import AnyPath, read_json, text_sha256, write_text
from .fingerprint import (
    Content,
    Fingerprint,
    bundled_default,
    default_aggregator,
    output_scale,
)
from .model_files import EMBEDDED_SHA256
from .routing import (
    SCHEMA_VERSION,
    Calibrator,
    IdentityCalibrator,
    PlattCalibrator,
    PolicyFields,
    Signals,
    decide_route,
    kept_reference,
)

# Between two ways to sum the same tail.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-12
# Share of the level that the first stage of a cascade is tested at by itself.
_FIRST_STAGE, FIRST_STAGE_SHARE = "first_stage", 0.2
# Questions that must not pass: their source was left out, or nothing answers them.
_LEAKS = ("leak", "unanswerable")
# From this bound on nothing is said, so nothing has to be certified.
_NO_BOUND = 1.0 - 1e-6


_OF_RELEVANCE = ("scorer", "aggregator", "relevance_calibrator")
_OF_CONFIDENCE = ("estimator", "confidence_calibrator")


def measured_by(policy: PolicyFields) -> str:
    """SHA-256 of what gives the numbers that a policy's certified thresholds are compared with.

    A leak says nothing about answers from memory, whose confidence may be added later.
    """
    names = _OF_RELEVANCE if _is_leak(policy.guarantee) else (*_OF_RELEVANCE, *_OF_CONFIDENCE)
    fields = policy.model_dump(mode="json", include=set(names), serialize_as_any=True)
    return _sha256(fields)


def _sha256(fields: dict[str, Any]) -> str:
    return text_sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")))


def fault_of(policy: PolicyFields) -> str | None:
    """Name what the evidence of a policy's guarantee does not bear out; None where it holds.

    A guarantee that certifies nothing, or none at all, promises nothing that could be false.
    """
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified:
        return None
    if guarantee.chosen is None or not guarantee.risks:
        return "it names no chosen point, or no counts for it"
    if guarantee.measured_by != measured_by(policy):
        return "its scorer, aggregator or calibrators are not those that were certified"
    chosen = guarantee.path[guarantee.chosen]
    if not _serves(policy, chosen):
        return "the thresholds are not those of the chosen point of its path"
    return _fault_of_counts(guarantee, chosen) or next(_false_p_values(guarantee, chosen), None)


def _serves(policy: PolicyFields, chosen: PolicyPoint) -> bool:
    """Whether the policy decides by the thresholds of this point."""
    if policy.relevance_threshold != chosen.relevance:
        return False
    abstains = policy.check_conflict and policy.on_conflict == "abstain"
    served = policy.confidence_threshold, abstains
    tested = chosen.confidence, chosen.on_conflict == "abstain"
    # A leak says nothing about answers from memory, whose threshold may be declared.
    return _is_leak(policy.guarantee) or served == tested


def _is_leak(guarantee: Guarantee | None) -> bool:
    return guarantee is not None and not guarantee.kinds.isdisjoint(_LEAKS)


def _fault_of_counts(guarantee: Guarantee, chosen: PolicyPoint) -> str | None:
    risks = guarantee.risks
    main = min(risks, key=lambda risk: risk.kind != "selective")
    if (guarantee.risk, guarantee.n) != (main.bound, main.n):
        return "its bound or its number of questions is not the one that was tested"
    if guarantee.errors != min(main.n, whole(main.loss)):
        return "its errors are not those that were counted"
    by_kind = {risk.kind: risk for risk in risks}
    for kind, groups in _counts_by_group(guarantee).items():
        if kind != _FIRST_STAGE and not _add_up(groups, by_kind.get(kind, main)):
            return "its counts by passage do not add up to its questions and errors"
    if not all(_add_up(risk.groups, risk) for risk in risks if risk.kind != "cost"):
        return "its counts by group do not add up to its questions and errors"
    covers = "abstention" in guarantee.kinds
    tested = [
        risk.p_value
        for risk in risks
        if risk.kind != _FIRST_STAGE and (not covers or risk.kind == "abstention")
    ]
    if not _same(chosen.p_value, max(tested)):
        return "the p-value of the chosen point is not that of its counts"
    for risk in risks:
        if risk.bound < _NO_BOUND and risk.p_value > _level(guarantee, risk) * (1 + _RELATIVE):
            return f"p-value {risk.p_value:.3g} of the risk {risk.kind!r} certifies nothing"
    return None


def _add_up(groups: tuple[tuple[int, int, int], ...], risk: GuaranteedRisk) -> bool:
    if not groups:
        return True
    possible = all(0 < size >= wrong for size, wrong, _ in groups)
    return possible and added_up(groups) == (risk.n, whole(risk.loss))


def _level(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """The level at which one bound has to pass."""
    if _FIRST_STAGE in guarantee.kinds:
        first = FIRST_STAGE_SHARE * guarantee.level
        return first if risk.kind == _FIRST_STAGE else guarantee.level - first
    if "abstention" not in guarantee.kinds:
        return guarantee.level
    # Half for the coverage, half for the bounds on the risk of all points.
    half = guarantee.level / 2
    return half if risk.kind == "abstention" else half / len(guarantee.path)


def _false_p_values(guarantee: Guarantee, chosen: PolicyPoint) -> Iterator[str]:
    for risk in guarantee.risks:
        closed = {"follow": chosen.relevance, "answer": chosen.confidence}
        if risk.p_value == 0.0 and risk.n == 0 and closed.get(risk.kind, 0.0) is None:
            # The route is closed, so that nothing can go wrong by it.
            continue
        found = _p_value(guarantee, risk)
        if not _same(found, risk.p_value):
            yield (
                f"the counts of the risk {risk.kind!r} give p-value {found:.3g}, "
                f"not {risk.p_value:.3g}"
            )


def _p_value(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """P-value of "the bound is broken", from the counts of one risk."""
    if risk.loss > risk.n * (1 + 1e-12):
        return 1.0
    if passages := _counts_by_group(guarantee).get(risk.kind):
        sizes = [size for size, _, count in passages for _ in range(count)]
        return LeakTest.of(sizes, risk.bound).p_value_of(passages)
    if risk.kind != "cost" or set((risk.losses or {}).values()) <= {0.0, 1.0}:
        by_question = binomial_tail(whole(risk.loss), risk.n, risk.bound)
    else:
        by_question = hoeffding_bentkus(risk.loss, risk.n, risk.bound)
    return max(by_question, _by_group(guarantee, risk)) if risk.groups else by_question


def _by_group(guarantee: Guarantee, risk: GuaranteedRisk) -> float:
    """P-value of the test in which each group counts once."""
    if risk.kind != "abstention" and "abstention" in guarantee.kinds:
        # The bound is the smallest that this test bears out, as it falls when the bound rises.
        return bound_on_mean(risk.groups, risk.bound)
    number = counted_groups(risk.groups)
    return LeakTest.of_groups(number, risk.largest_group, risk.bound).p_value_of(risk.groups)


def _counts_by_group(guarantee: Guarantee) -> dict[str, tuple[tuple[int, int, int], ...]]:
    return {
        "leak": guarantee.passages,
        "unanswerable": guarantee.unanswerable_topics,
        _FIRST_STAGE: guarantee.first_stage_passages,
    }


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


_DIGEST = "digest"
_UNCHECKED = frozenset({"created_by"})
_HINT = "write it with `knowgate calibrate`"


def _body(policy: PolicyFields) -> str:
    # An older knowgate rejects fields it does not know, so one that says nothing new stays out.
    silent: dict[str, Any] = {}
    if policy.conflict_between == "memory":
        silent["conflict_between"] = True
    if policy.guarantee is not None:
        unused = Guarantee.model_fields.keys() - policy.guarantee.model_fields_set
        # The unit is in every file.
        silent["guarantee"] = dict.fromkeys(unused - {"unit"}, True)
    return policy.model_dump_json(indent=2, exclude=silent)


def _digest(fields: dict[str, Any]) -> str:
    """Hash of everything in a policy but the program that wrote it."""
    hashed = {name: value for name, value in fields.items() if name not in _UNCHECKED}
    return f"sha256:{_sha256(hashed)}"


def _checked(value: dict[str, Any], *, where: str, allow_changed: bool) -> Policy:
    """Make a policy of a JSON object, and check it against its digest and its evidence.

    Args:
        value: as parsed.
        where: named in errors.
        allow_changed: return a changed policy without its guarantee rather than reject it.

    Raises:
        PolicyError: a field is wrong, or the policy is not as it was calibrated.
    """
    digest = value.get(_DIGEST)
    fields = {name: field for name, field in value.items() if name != _DIGEST}
    fault = None
    try:
        found = _parsed(fields, where)
    except PolicyError:
        if not allow_changed:
            raise
        # Only the guarantee may be at odds with the thresholds.
        found, fault = _parsed({**fields, "guarantee": None}, where), "its guarantee is invalid"
    if fault is None and digest is None and found.calibrated:
        fault = "it has no digest"
    if fault is None and digest is not None:
        unlike = digest != _digest(json.loads(_body(found)))
        fault = "its digest is that of other content" if unlike else fault_of(found)
    if fault is None:
        return found
    if not allow_changed:
        raise PolicyError(
            f"the policy is not as it was calibrated: {fault}",
            where=where,
            hint="calibrate again, or load it without its guarantee: "
            "Policy.load(path, allow_changed=True)",
        )
    note = f"Changed after its calibration ({fault}): nothing is guaranteed. {found.note}"
    changes = {"guarantee": None, "calibration_set_sha256": None, "changed": True}
    return found.model_copy(update={**changes, "note": note.strip()})


def _parsed(fields: dict[str, Any], where: str) -> Policy:
    try:
        # As JSON, where `strict` takes lists for tuples and text for routes, but neither
        # true nor "0.5" for a number.
        return Policy.model_validate_json(json.dumps(fields), strict=True)
    except PolicyError as error:
        what, hint = error.what, error.hint
    except RecursionError:
        what, hint = "nested too deeply", _HINT
    except ValidationError as error:
        what, hint = first_fault(error), _HINT
    raise PolicyError(what, where=where, hint=hint)


# Further names of this module are listed by the package.
__all__ = ["IdentityCalibrator"]


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
_MAX_BYTES = 2 * 2**20
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
        fingerprint = checked_scorer(scorer, ()).fingerprint
        bundled = bundled_default(fingerprint, content) if threshold is None else None
        if bundled is not None:
            slope, intercept, threshold = bundled
            calibrator = calibrator or PlattCalibrator(a=slope, b=intercept)
        given = calibrator or known_calibrator(fingerprint)
        if given is None:
            raise PolicyError(
                f"the scores of a {type(scorer).__name__} are not known to be probabilities",
                hint="pass calibrator=IdentityCalibrator() if they are; "
                "otherwise fit one with `knowgate calibrate`",
            )
        if threshold is None:
            what = f"a {type(scorer).__name__} has no bundled threshold"
            raise PolicyError(what, hint="pass threshold=…")
        try:
            return cls(
                created_by=CREATED_BY,
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

        Raises:
            InputError: it is not a veto, or its name, reason or threshold cannot be used.
        """
        require_usable(veto)
        chosen = veto.threshold if threshold is None else threshold
        try:
            bound = VetoBinding(name=veto.name, fingerprint=veto.fingerprint, threshold=chosen)
        except ValidationError as error:
            raise PolicyError(first_fault(error), where=f"veto {veto.name}") from None
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
    def load(cls, path: AnyPath, *, allow_changed: bool = False, links: bool = True) -> Policy:
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
            PolicyError: a field is missing, unknown or out of range, the policy was changed, or
                a newer knowgate wrote it.
            InputError: the file is missing, larger than 2 MiB or not JSON, or a key stands twice in
                it.
        """
        # Of two thresholds, a reader may see one and the guard take the other.
        value = read_json(path, unique=True, most_bytes=_MAX_BYTES, links=links)
        return cls.parse(value, where=os.fspath(path), allow_changed=allow_changed)

    @classmethod
    def parse(cls, value: Any, *, where: str, allow_changed: bool = False) -> Policy:
        """A policy from parsed JSON; `where` is named in errors. Raises as `load`."""
        require_schema_version(value, SCHEMA_VERSION, where=where)
        return _checked(value, where=where, allow_changed=allow_changed)

    def to_json(self) -> str:
        """The policy as indented JSON with a final newline; a calibrated one with its digest."""
        text = _body(self)
        if self.calibrated:  # otherwise nothing is promised, and its writer may go on editing it
            fields = json.loads(text)
            fields = {**fields, _DIGEST: _digest(fields)}
            text = json.dumps(fields, ensure_ascii=False, indent=2)
        return text + "\n"

    @property
    def sha256(self) -> str:
        """Digest of the file that `save` writes, in hexadecimal digits."""
        return text_sha256(self.to_json())

    def save(self, path: AnyPath) -> None:
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
