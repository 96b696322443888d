"""A path of operating points, learned on questions that take no part in the certificate.

    P(context answer right | relevance) ─┐
                                         ├─► equal thresholds on both, t = 1 … 0 ─► points
    P(memory right | confidence)        ─┘
    for each kind of router: which point is most surely certified, how far will it get? ─► path

With probabilities of being right, the threshold that lets the most through at a given risk is
the same for both routes, so one number orders the points. The path begins where the
certificate is expected most surely, not at the strictest point: there the few highest scores
may be wrong. It goes on to laxer points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...guard.contracts import ConflictBetween
from ..records import Records
from ..statistics import Floats, errors_allowed_up_to
from .certificate import Evidence, let_through_wrongly
from .risks import ConflictRule, PathPoint, RiskTarget, as_targets

_LEVELS = 200
# Standard errors by which a forecast from few questions may be too rosy, and a floor for them.
_CAUTION, _LEAST_RISK = 0.5, 0.02
# Below this chance of a certificate it matters more to see all points.
_HOPELESS = 0.005
# Questions that the model's forecast is worth beside those observed, at most and at least.
_MODEL_WEIGHT, _LEAST_WEIGHT = 40.0, 1.0
# Squared standard errors from which on the questions contradict the model, and the least variance
# of a count: one wrong answer at the strict end contradicts nothing.
_CONTRADICTED, _LEAST_VARIANCE = 6.0, 0.25
# Where the laxest steps lie so close that they are one.
_NEAR_END = 1e-4


_EDGE = 0.005
# A prior worth about one question: few data keep to "the signal is what it says".
_PRIOR: Floats = np.asarray([1.0, 0.3])
_FLATTEST = 0.02


# The slope and shift of P(right | signal s) = sigmoid(slope · logit(s) + shift).
CorrectnessModel = tuple[float, float]
_AS_IT_IS: CorrectnessModel = (1.0, 0.0)


def chance_right(model: CorrectnessModel, signal: Floats) -> Floats:
    """The probability of being right, same shape; NaN (a failed signal) gives 0."""
    slope, shift = model
    found = _sigmoid(slope * log_odds(signal) + shift)
    return np.where(np.isnan(signal), 0.0, found)


def signal_from(model: CorrectnessModel, probability: float) -> float:
    """The signal from which on the probability of being right is at least this."""
    slope, shift = model
    odds = math.log(probability / (1.0 - probability))
    place = (odds - shift) / slope
    found = 1.0 / (1.0 + math.exp(-min(40.0, max(-40.0, place))))
    # Beyond the clipped ends the model is flat: there the whole end passes, or none of it.
    if found > 1.0 - _EDGE:
        return 1.0
    return 0.0 if found < _EDGE else found


def fit_correctness(signal: Floats, right: Floats, weights: Floats) -> CorrectnessModel:
    """The two numbers that fit best, or the signal as it is where they gain too little.

    Gains are judged by Akaike's criterion, so that a signal which is calibrated already
    is left alone and noise in few questions does not bend it.

    Args:
        signal: in [0, 1] or NaN, shape (n,); NaN has no say.
        right: 1.0 or 0.0, shape (n,).
        weights: at least 0, shape (n,).
    """
    usable = ~np.isnan(signal) & (weights > 0.0)
    x, y, w = log_odds(signal[usable]), right[usable], weights[usable]
    if len(x) < 2:
        return _AS_IT_IS
    slope, shift = _newton(x, y, w)
    if _loss(x, y, w, slope, shift) + 2.0 >= _loss(x, y, w, *_AS_IT_IS):
        return _AS_IT_IS
    if slope < _FLATTEST:
        # A signal that says nothing, or the contrary: nearly flat, at the right height.
        share = float((w @ y + 0.5) / (w.sum() + 1.0))
        centre = float((w @ x) / w.sum())
        return _FLATTEST, float(np.log(share / (1 - share))) - _FLATTEST * centre
    return slope, shift


def log_odds(probability: Floats) -> Floats:
    """Natural-log odds, of probabilities pulled away from 0 and 1."""
    inside = np.clip(probability, _EDGE, 1.0 - _EDGE)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _newton(x: Floats, y: Floats, w: Floats) -> tuple[float, float]:
    """Penalised maximum likelihood by damped Newton steps."""
    place = np.asarray([1.0, 0.0])
    objective = _penalised(x, y, w, place)
    for _ in range(30):
        p = _sigmoid(place[0] * x + place[1])
        v = w * p * (1.0 - p)
        residual = w * (p - y)
        gradient = np.asarray([residual @ x, residual.sum()]) + _PRIOR * (place - _AS_IT_IS)
        hessian = np.asarray([[v @ (x * x), v @ x], [v @ x, v.sum()]]) + np.diag(_PRIOR)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-6 and _penalised(x, y, w, place - size * step) > objective:
            size /= 2.0
        place = place - size * step
        before, objective = objective, _penalised(x, y, w, place)
        if before - objective < 1e-8:
            break
    return float(place[0]), float(place[1])


def _penalised(x: Floats, y: Floats, w: Floats, place: Floats) -> float:
    slope, shift = place
    prior = _PRIOR[0] * (slope - 1.0) ** 2 + _PRIOR[1] * shift**2
    return _loss(x, y, w, float(slope), float(shift)) + float(prior) / 2.0


def _loss(x: Floats, y: Floats, w: Floats, slope: float, shift: float) -> float:
    z = slope * x + shift
    return float(w @ (np.logaddexp(0.0, z) - y * z))


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -500.0, 500.0))))


# What the learning questions say of a point: the share of questions that it lets through, and the
# probability that all targets are certified there.
Forecast = tuple[PathPoint, float, float]


def from_surest(best: Sequence[Forecast]) -> tuple[PathPoint, ...]:
    """The points from the one that is most surely certified to the laxest."""
    points, _, powers = zip(*best, strict=True)
    # Where it is hopeless, all points show how far off they are.
    surest = 0 if max(powers) < _HOPELESS else powers.index(max(powers))
    return points[surest:]


def forecast_path(
    records: Records,
    risk: float | RiskTarget | Sequence[RiskTarget],
    *,
    delta: float,
    questions: int,
    may_follow: bool = True,
    may_answer: bool = True,
    conflict_between: ConflictBetween = "memory",
) -> list[Forecast]:
    """All points from strict to lax of the router that promises most, with forecasts.

    Args:
        records: of the learning questions only, all their variants.
        risk: what will be certified, as for `fit_policy`.
        delta: at which level.
        questions: how many questions the certificate will rest on.
        may_follow: whether the context may be followed at all.
        may_answer: whether memory may answer.
        conflict_between: as in `Policy`.

    Returns:
        At least one point; see `from_surest` for those that are tested.
    """
    evidence, weights = Evidence.of(records, conflict_between), _weights(records)
    right = evidence.context_right.astype(float)
    model = fit_correctness(evidence.relevance, right, weights)
    targets = as_targets(risk)
    follow = may_follow and any(r.relevance is not None for r in records)
    answer = may_answer and any(r.confidence is not None for r in records)
    if not (follow or answer):
        # Nothing to learn from: what is allowed, with thresholds as the signals stand.
        follow, answer = may_follow, may_answer
    routers: list[_Router] = []
    conflicts = any(r.conflict is not None for r in records)
    if follow and conflicts and (answer or conflict_between == "passages"):
        routers.append((follow, answer, "abstain"))
    routers.append((follow, answer, "ignore"))
    if follow and answer:
        routers += [(False, True, "ignore"), (True, False, "ignore")]
    forecasts = [
        _forecasts(evidence, weights, model, router, targets, delta, questions)
        for router in routers
    ]
    # The simplest router comes last and wins ties: fewer routes, no conflict to measure.
    return max(
        reversed(forecasts), key=lambda found: max(coverage * power for _, coverage, power in found)
    )


# Whether the context is followed, whether memory answers, and what a conflict leads to.
_Router = tuple[bool, bool, ConflictRule]


def _forecasts(
    evidence: Evidence,
    weights: Floats,
    relevance_model: CorrectnessModel,
    router: _Router,
    targets: Sequence[RiskTarget],
    delta: float,
    questions: int,
) -> list[Forecast]:
    follow, answer, on_conflict = router
    context = chance_right(relevance_model, evidence.relevance)
    # Memory is asked where the context does not suffice, so such questions count for more.
    memory_weights = weights * (1.0 - context) if follow else weights
    confidence_model = fit_correctness(
        evidence.confidence, evidence.closed_book_right.astype(float), memory_weights
    )
    memory = chance_right(confidence_model, evidence.confidence)
    if on_conflict == "abstain" or (evidence.conflict == 1.0).any():
        context = _after_conflicts(evidence, context, weights)
    levels = _levels([context] * follow + [memory] * answer, len(context))
    points = dict.fromkeys(
        PathPoint(
            signal_from(relevance_model, t) if follow else None,
            signal_from(confidence_model, t) if answer else None,
            on_conflict,
        )
        for t in levels
    )
    codes = evidence.route_codes([*points])
    coverage = (codes != 0) @ weights / max(float(weights.sum()), 1e-12)
    power = np.ones(len(points))
    for target in targets:
        share, risk = _expected_risk(evidence, weights, router, context, memory, codes, target)
        # Raised the more the fewer learning questions it rests on; only a closed route has none.
        seen = np.maximum(share * len(weights), 1.0)
        spread = np.sqrt(np.maximum(risk, _LEAST_RISK) * (1.0 - risk) / seen)
        feared = np.where(risk > 0.0, risk + _CAUTION * spread, 0.0)
        power = np.minimum(power, _power(share, feared, target, delta, questions))
    return list(zip(points, coverage.tolist(), power.tolist(), strict=True))


def _weights(records: Records) -> Floats:
    """Each question counts by its mean weight, however many variants it has."""
    counts = Counter(record.question_id for record in records)
    raw = np.asarray([r.weight / counts[r.question_id] for r in records], dtype=np.float64)
    return raw * (len(counts) / raw.sum()) if len(raw) else raw


def _levels(chances: Sequence[Floats], questions: int) -> list[float]:
    """Probabilities from high to low, about equally many questions between neighbours."""
    best = np.max([np.zeros(questions), *chances], axis=0)
    if not len(best) or best.max() == best.min():
        spread = 1.0 - np.arange(1, _LEVELS) / _LEVELS
    else:
        spread = np.quantile(best, 1.0 - np.arange(1, _LEVELS + 1) / _LEVELS)
    inside = np.clip(spread, _NEAR_END, 1.0 - _NEAR_END)
    return [float(t) for t in np.unique(inside)[::-1]]


def _after_conflicts(evidence: Evidence, context: Floats, weights: Floats) -> Floats:
    """`context`, shifted for questions with and without a conflict to what was observed."""
    found = context.copy()
    for there in (evidence.conflict == 1.0, evidence.conflict == 0.0):
        usable = there & (context > 0.0)
        if not usable.any():
            continue
        # As if two more questions had gone just as forecast.
        w = weights[usable]
        stated = float(w @ context[usable])
        observed = float(w @ evidence.context_right[usable])
        mean = stated / float(w.sum())
        ratio = (observed + 2.0 * mean) / (stated + 2.0 * mean)
        found[usable] = np.clip(context[usable] * ratio, 0.0, 1.0)
    return found


def _expected_risk(
    evidence: Evidence,
    w: Floats,
    router: _Router,
    context: Floats,
    memory: Floats,
    codes: NDArray[np.int8],
    target: RiskTarget,
) -> tuple[Floats, Floats]:
    """By point: the share of questions that count for a target, and its risk among them.

    Where the route that the target bounds is closed the risk is 0 of all questions.
    """
    follow, answer, _ = router
    if (target.kind == "follow" and not follow) or (target.kind == "answer" and not answer):
        return np.ones(len(codes)), np.zeros(len(codes))
    total = max(float(w.sum()), 1e-12)
    fails = (1.0 - follow * context) * (1.0 - answer * memory)
    there = np.broadcast_to(1.0 - fails, codes.shape)
    missed = ((codes == 0) * there) @ w
    # What a target counts of questions that are let through.
    through = {"follow": codes == 1, "answer": codes == 2}.get(target.kind, codes > 0)
    wrong_follow = ((codes == 1) & through) @ (w * (1.0 - context))
    wrong_answer = ((codes == 2) & through) @ (w * (1.0 - memory))
    if target.kind == "cost":
        table = target.losses
        cost = table.wrong_follow * wrong_follow + table.wrong_answer * wrong_answer
        return np.ones(len(codes)), (cost + table.false_abstention * missed) / total
    wrong, counted = wrong_follow + wrong_answer, through @ w
    if target.kind == "false_abstention":
        wrong, counted = missed, there @ w
    risk = np.divide(wrong, counted, out=np.ones(len(codes)), where=counted > 0.0)
    if target.kind != "false_abstention":
        seen = let_through_wrongly(evidence, codes) & through
        risk = _corrected(risk, seen @ w, counted)
    return counted / total, risk


def _corrected(risk: Floats, wrong: Floats, counted: Floats) -> Floats:
    """Correct the model's risk by point by what was seen there.

    The model only knows signals that rise with being right. Where the highest go wrong it says
    little, so once the questions contradict it at any point it counts for less everywhere: its
    error there, in standard errors, is taken for its error elsewhere.

    Args:
        risk: by the model, shape (points,).
        wrong: questions let through wrongly, by weight.
        counted: questions that count for the target, by weight.
    """
    inside = np.clip(risk, _LEAST_RISK, 1.0 - _LEAST_RISK)
    variance = np.maximum(counted * inside * (1.0 - inside), _LEAST_VARIANCE)
    most = float(((wrong - counted * risk) ** 2 / variance).max())
    weight = np.full_like(risk, _MODEL_WEIGHT)
    if most > _CONTRADICTED:
        weight = np.clip(counted / most, _LEAST_WEIGHT, _MODEL_WEIGHT)
    return np.asarray((wrong + weight * risk) / (counted + weight))


def _power(share: Floats, risk: Floats, target: RiskTarget, delta: float, questions: int) -> Floats:
    """Probability that the exact test certifies the target, were the forecast true."""
    from scipy.special import bdtr

    # Hoeffding–Bentkus costs a factor e against the exact tail.
    exact = target.kind != "cost" or target.losses.all_or_nothing
    level = delta if exact else delta / math.e
    n = np.minimum(np.rint(share * questions).astype(np.int64), questions)
    allowed = errors_allowed_up_to(questions, target.bound, level)[n]
    # With few learning questions a forecast of no risk at all is worth little.
    forecast = np.minimum(1.0, np.maximum(risk, 0.5 / max(questions, 1)))
    return np.where(allowed < 0, 0.0, bdtr(np.maximum(allowed, 0), np.maximum(n, 1), forecast))
