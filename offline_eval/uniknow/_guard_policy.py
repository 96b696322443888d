"""A guard's policy from the suite's training questions.

The promise is about what a guard is for: of the questions that neither the context nor
the model's memory answers, few are let through. Calibrators and a path of thresholds are
learned on one part of the training questions, the path is tested on the other; the
evaluation takes no part.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from ..._version import __version__
from ...calibration import CalibrationRecord, fit_platt
from ...calibration.monitoring import calibration_histograms
from ...calibration.risk_control import (
    PathPoint,
    PolicyBinding,
    RiskTarget,
    fit_policy,
    one_per_question,
)
from ...guard import Calibrator, Fingerprint, Guarantee, InputError, Policy
from ._signals import UniKnowSignal

_WHO = "of the questions that neither the context nor the model's memory answers"
# Letting one of them through costs as much as so many wrong routes: from strict to lax.
_PRICES = (64.0, 32.0, 16.0, 12.0, 8.0, 6.0, 4.0, 3.0, 2.0, 1.5, 1.0, 0.5, 0.0)
# Thresholds that are tried for each signal.
_LEVELS = 100
# Of the training questions; the rest is worth more in the test.
_LEARNING_SHARE = 0.25
# Where there is nothing to learn a path from.
_STRICTEST = PathPoint(1.0, 1.0)


def calibrate_guard(
    signals: Sequence[UniKnowSignal],
    *,
    scorer: Fingerprint,
    estimator: Fingerprint,
    aggregator: str,
    risk: float = 0.1,
    delta: float = 0.1,
    seed: int = 0,
) -> Policy:
    """A policy that lets through few of the questions that neither side answers.

    The path goes from thresholds that hardly let any of them through to those that route
    most cases of the learning part rightly: to the context where it holds the answer, to
    memory where that is right, to abstaining elsewhere. The points are tested in turn on
    the testing part, one case per question, until the first that fails; the last one
    before it is taken. A route that lets too many of them through at any threshold stays
    closed. Where no point passes, the policy abstains from everything and says so.

    Args:
        signals: of training questions, in any order.
        scorer: fingerprint of what measured relevance.
        estimator: fingerprint of what measured confidence.
        aggregator: how passage scores became one value.
        risk: share of such questions that may be let through, in (0, 1).
        delta: probability in (0, 1) that the promise fails by bad luck.
        seed: of the parts, and of which case speaks for a question.

    Raises:
        InputError: `risk` or `delta` is out of its range.

    Source: Angelopoulos et al. 2021, Learn then Test (fixed-sequence testing).
    """
    require_share("risk", risk)
    require_share("delta", delta)
    usable = [s for s in signals if s.raw_relevance is not None and s.raw_confidence is not None]
    usable.sort(key=lambda signal: signal.case_id)  # sums of floats depend on their order
    learning, testing = _parts(usable, seed)
    relevance, confidence = _calibrators(learning)
    policy = fit_policy(
        [_record(s, relevance, confidence) for s in _one_per_question(testing)],
        # Letting one of them through costs 1 by either route: the mean cost is their share.
        risk=[RiskTarget("cost", risk)],
        delta=delta,
        path=_learned_path([_record(s, relevance, confidence) for s in learning]),
        binding=PolicyBinding(
            scorer=scorer,
            estimator=estimator,
            aggregator=aggregator,
            relevance_calibrator=relevance,
            confidence_calibrator=confidence,
            created_by=f"knowgate {__version__}",
        ),
    )
    asked = one_per_question([_record(s, relevance, confidence) for s in usable], seed=seed)
    return policy.model_copy(
        update={
            "guarantee": _in_words(policy.guarantee),
            # Live questions are not only those that neither side answers.
            "histograms": calibration_histograms(policy, asked),
            "calibration_set_sha256": _sha256(usable),
        }
    )


def require_share(name: str, value: float) -> None:
    """Refuse a risk or a probability that no test can hold.

    Raises:
        InputError: it is not within (0, 1), or too near an end; `name` is named.
    """
    try:
        RiskTarget("cost", value)
    except ValueError:
        raise InputError(
            f"must be between 0 and 1, not {value}", where=name, mend="use 0.1"
        ) from None


def _parts(
    signals: Sequence[UniKnowSignal], seed: int
) -> tuple[list[UniKnowSignal], list[UniKnowSignal]]:
    """To learn on, and to test on: without a common group, or question where all are one group."""
    by_group = len({signal.group for signal in signals}) > 1
    keys = sorted({s.group if by_group else s.question_id for s in signals})
    Random(f"uniknow/guard/{seed}").shuffle(keys)  # noqa: S311 - a split's dice
    first = set(keys[: round(_LEARNING_SHARE * len(keys))])
    parts: tuple[list[UniKnowSignal], list[UniKnowSignal]] = ([], [])
    for signal in signals:
        key = signal.group if by_group else signal.question_id
        parts[0 if key in first else 1].append(signal)
    return parts


def _calibrators(learning: Sequence[UniKnowSignal]) -> tuple[Calibrator, Calibrator]:
    sides: dict[bool, list[float]] = {True: [], False: []}
    memory: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for signal in learning:
        assert signal.raw_relevance is not None
        assert signal.raw_confidence is not None
        sides[signal.holds_answer].append(signal.raw_relevance)
        memory[bool(signal.closed_book_right)][signal.question_id] = signal.raw_confidence
    right, wrong = (list(memory[side].values()) for side in (True, False))
    return fit_platt(sides[True], sides[False]), fit_platt(right, wrong)


def _record(
    signal: UniKnowSignal, relevance: Calibrator, confidence: Calibrator
) -> CalibrationRecord:
    """Calibrated signals of a case, and which side has the answer."""
    assert signal.raw_relevance is not None
    assert signal.raw_confidence is not None
    return CalibrationRecord(
        question_id=f"{signal.dataset}/{signal.question_id}",
        relevance=relevance.apply(signal.raw_relevance),
        confidence=confidence.apply(signal.raw_confidence),
        context_right=signal.holds_answer,
        closed_book_right=bool(signal.closed_book_right),
        group=signal.group,
        case=signal.kind,
    )


def _one_per_question(signals: Sequence[UniKnowSignal]) -> list[UniKnowSignal]:
    """One case of each question that neither side answers, picked by a hash of its id."""
    chosen: dict[tuple[str, str], UniKnowSignal] = {}
    for signal in signals:
        if signal.holds_answer or signal.closed_book_right:
            continue
        key = (signal.dataset, signal.question_id)
        if key not in chosen or _hash(signal.case_id) < _hash(chosen[key].case_id):
            chosen[key] = signal
    return list(chosen.values())


def _learned_path(cases: Sequence[CalibrationRecord]) -> tuple[PathPoint, ...]:
    """For each price, the thresholds that cost least on the learning part; steps in between."""
    if not cases:
        return (_STRICTEST,)
    relevance = np.array([case.relevance for case in cases], dtype=np.float64)
    confidence = np.array([case.confidence for case in cases], dtype=np.float64)
    holds = np.array([case.context_right for case in cases])
    knows = np.array([case.closed_book_right for case in cases])
    rows, columns = _levels(relevance), _levels(confidence)
    wrong, leaks = np.zeros((2, len(rows), len(columns)))
    confident = confidence >= np.array(columns)[:, None]
    for r, threshold in enumerate(rows):
        follows = relevance >= threshold
        passes = follows | confident
        right = np.where(holds, follows, np.where(knows, ~follows & confident, ~passes))
        wrong[r] = np.count_nonzero(~right, axis=1)
        leaks[r] = np.count_nonzero(passes & ~holds & ~knows, axis=1)
    # From strict to lax: of points that cost the same the strictest is taken.
    cheapest = [int(np.argmin(wrong + price * leaks)) for price in _PRICES]
    stops = [(0, 0), *(divmod(place, len(columns)) for place in cheapest)]
    path: dict[tuple[int, int], None] = {}
    # It begins one step from where both routes are closed, which is nobody's certificate.
    for (r, c), (to_r, to_c) in pairwise(stops):
        steps = max(abs(to_r - r), abs(to_c - c), 1)
        for share in np.linspace(0.0, 1.0, steps + 1):
            path.setdefault((round(r + (to_r - r) * share), round(c + (to_c - c) * share)))
    path.pop((0, 0), None)
    points = tuple(PathPoint(_or_closed(rows[r]), _or_closed(columns[c])) for r, c in path)
    return points or (_STRICTEST,)


def _or_closed(threshold: float) -> float | None:
    return None if threshold == math.inf else threshold


def _levels(values: NDArray[np.float64]) -> list[float]:
    """Thresholds between the values that occur, highest first; before them, a closed route.

    Where many a value is the highest one, no threshold is strict enough.
    """
    shares = np.linspace(1.0, 0.0, _LEVELS)
    found = np.unique(np.quantile(values, shares, method="lower"))
    between = (found[1:] + found[:-1]) / 2 if len(found) > 1 else found
    return [math.inf, *(float(value) for value in between[::-1])]


def _in_words(found: Guarantee | None) -> Guarantee:
    """The guarantee, speaking of the questions that it is about."""
    assert found is not None
    share, sure = f"at most {found.risk:g} {_WHO}", f"with confidence {1 - found.delta:g}"
    if found.certified:
        words = f"{share} are let through, {sure}"
    else:
        words = (
            f"no thresholds were certified to let through {share}, {sure}: everything is "
            "abstained from"
        )
        if found.n and found.more_questions is not None:
            words += f"; about {found.more_questions} more training questions of theirs would help"
    return found.model_copy(
        update={
            "statement": words,
            "loss": "let through although neither context nor memory has the answer",
            "population": f"new ones {_WHO}, drawn like the training questions",
        }
    )


def _sha256(signals: Sequence[UniKnowSignal]) -> str:
    names = ("case_id", "raw_relevance", "raw_confidence", "holds_answer", "closed_book_right")
    lines = [json.dumps([getattr(signal, name) for name in names]) for signal in signals]
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
