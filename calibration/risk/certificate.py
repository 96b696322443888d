"""Test the points of a declared path on questions that took no part in making it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from ...guard.artefacts import (
    Groups,
    GuaranteedRisk,
    LeakTest,
    bound_on_mean,
    counted_groups,
    hoeffding_bentkus,
    sum_of_shares,
)
from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ..records import Records
from ..statistics import Floats, errors_allowed, numbered, questions_needed
from .risks import LossTable, PathPoint, RiskTarget

Bools = NDArray[np.bool_]
ROUTE_CODES = (Route.ABSTAIN, Route.FOLLOW_CONTEXT, Route.ANSWER)
_ABSTAIN, _FOLLOW, _ANSWER = range(3)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Columns of shape (records,); a signal that failed is NaN.

    Attributes:
        relevance: in [0, 1] or NaN.
        confidence: likewise.
        conflict: 1.0, 0.0, or NaN where it was not measured.
        context_right: False where it is not known.
        closed_book_right: likewise.
        groups: number of each record's group, from 0; None: each is a group of its own.
        conflict_between: what `conflict` compares, as in `Policy`: a conflict with memory counts
            only where memory is confident.
    """

    relevance: Floats
    confidence: Floats
    conflict: Floats
    context_right: Bools
    closed_book_right: Bools
    groups: NDArray[np.intp] | None = None
    conflict_between: ConflictBetween = "memory"

    @classmethod
    def of(cls, records: Records, conflict_between: ConflictBetween = "memory") -> Evidence:
        """The columns of `records`, in their order."""
        groups = numbered(record.unit for record in records)
        return cls(
            relevance=np.asarray([r.relevance for r in records], dtype=np.float64),
            confidence=np.asarray([r.confidence for r in records], dtype=np.float64),
            conflict=np.asarray([r.conflict for r in records], dtype=np.float64),
            context_right=np.asarray([r.context_right is True for r in records], dtype=np.bool_),
            closed_book_right=np.asarray(
                [r.closed_book_right is True for r in records], dtype=np.bool_
            ),
            groups=groups if groups.max(initial=-1) + 1 < len(records) else None,
            conflict_between=conflict_between,
        )

    def __len__(self) -> int:
        return len(self.relevance)

    @property
    def largest_group(self) -> int:
        """Most records that share a group."""
        return 1 if self.groups is None else int(np.bincount(self.groups).max())

    def route_codes(self, points: Sequence[PathPoint]) -> NDArray[np.int8]:
        """Indices into `ROUTE_CODES`, exactly as policies with these thresholds route.

        Args:
            points: thresholds of p policies.

        Returns:
            Shape (p, n) for n records.
        """
        relevance, confidence = _thresholds(points)
        # Comparisons with NaN are False, so a failed signal passes no threshold, and none passes
        # that of a closed route.
        follow, confident = self.relevance >= relevance, self.confidence >= confidence
        answer = ~follow & confident & (~np.isnan(self.relevance) | np.isnan(relevance))
        checks = np.asarray([point.on_conflict == "abstain" for point in points])[:, None]
        if checks.any():
            # NaN: it failed, and the guard abstains.
            blocked = self.conflict != 0.0
            if self.conflict_between == "memory":
                blocked = blocked & confident
            if self.conflict_between != "passages":
                blocked = blocked | np.isnan(self.confidence)
            follow &= ~(checks & blocked)
        # No record takes both routes. Sums of small integers are much faster than `np.where`.
        codes: NDArray[np.int8] = follow.astype(np.int8) * np.int8(_FOLLOW)
        codes += answer.astype(np.int8) * np.int8(_ANSWER)
        return codes


def _thresholds(points: Sequence[PathPoint]) -> tuple[Floats, Floats]:
    """Those of relevance and of confidence, each of shape (points, 1); NaN for a closed route."""
    pairs = np.asarray([(one.relevance, one.confidence) for one in points], dtype=np.float64)
    relevance, confidence = pairs.reshape(-1, 2, 1).swapaxes(0, 1)
    return relevance, confidence


def let_through_wrongly(evidence: Evidence, codes: NDArray[np.int8]) -> Bools:
    """Whether each record is let through to a wrong answer, the shape of `codes`."""
    return np.asarray(
        ((codes == _FOLLOW) & ~evidence.context_right)
        | ((codes == _ANSWER) & ~evidence.closed_book_right)
    )


def answerable(evidence: Evidence, points: Sequence[PathPoint]) -> Bools:
    """Whether a route that each point leaves open would have been right, shape (p, n)."""
    relevance, confidence = _thresholds(points)
    return np.asarray(
        (~np.isnan(relevance) & evidence.context_right)
        | (~np.isnan(confidence) & evidence.closed_book_right)
    )


def costs(
    evidence: Evidence, codes: NDArray[np.int8], points: Sequence[PathPoint], losses: LossTable
) -> Floats:
    """Cost of each record in [0, 1], the shape of `codes`."""
    found = np.zeros(codes.shape, dtype=np.float64)
    found[(codes == _FOLLOW) & ~evidence.context_right] = losses.wrong_follow
    found[(codes == _ANSWER) & ~evidence.closed_book_right] = losses.wrong_answer
    found[(codes == _ABSTAIN) & answerable(evidence, points)] = losses.false_abstention
    return found


def evidence_of(
    target: RiskTarget,
    n: int,
    loss: float,
    p_value: float,
    groups: Groups = (),
    largest: int = 0,
) -> GuaranteedRisk:
    """The test of one target at one point.

    Args:
        target: the bound that was asked for.
        n: questions that count for it.
        loss: errors among them, or the sum of their costs.
        p_value: of "the risk is above the bound"; 1.0 where no question counts, 0.0
            where the route that it bounds is closed, so that nothing can go wrong.
        groups: what each group counts; empty where no two questions share one.
        largest: most questions that a group has, counted or not.
    """
    return GuaranteedRisk(
        kind=target.kind,
        bound=target.bound,
        n=n,
        loss=loss,
        p_value=p_value,
        losses=asdict(target.losses) if target.kind == "cost" else None,
        groups=groups,
        largest_group=largest if groups else 0,
    )


def counted_units(result: GuaranteedRisk) -> int:
    """Independent units that count for a bound: groups, or questions."""
    return counted_groups(result.groups) if result.groups else result.n


@dataclass(frozen=True, slots=True)
class PointResult:
    """One point of the path, tested.

    Attributes:
        point: the thresholds.
        counts: questions by route.
        wrong: questions let through to a wrong answer.
        results: one per target.
    """

    point: PathPoint
    counts: dict[Route, int]
    wrong: int
    results: tuple[GuaranteedRisk, ...]

    @property
    def p_value(self) -> float:
        """Of "some target is broken": the largest, as all must hold together."""
        return max(result.p_value for result in self.results)

    @property
    def main(self) -> GuaranteedRisk:
        """The target on wrong answers let through, if there is one; else the first."""
        return min(self.results, key=lambda result: result.kind != "selective")

    @property
    def let_through(self) -> int:
        """Questions not abstained from."""
        return self.counts[Route.FOLLOW_CONTEXT] + self.counts[Route.ANSWER]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The outcome of fixed-sequence testing.

    Attributes:
        points: every point of the path, in order.
        first: index of the first point that was tested; those before let through too few
            questions for any certificate.
        chosen: index of the laxest certified point, None where none is.
        questions: that the tests rest on.
    """

    points: tuple[PointResult, ...]
    first: int
    chosen: int | None
    questions: int

    @property
    def best(self) -> PointResult | None:
        """The laxest certified point, None where none is."""
        return None if self.chosen is None else self.points[self.chosen]


def certify(
    evidence: Evidence, path: Sequence[PathPoint], targets: Sequence[RiskTarget], *, delta: float
) -> Certificate:
    """Test the points in order at level `delta`, until one is not certified.

    Where questions share groups, a point has to pass twice: with each question as a unit, and
    with each group as one, which counts by its share of the questions that count (`Groups`).

    Points at the strict end that let too few questions through to be certified even without
    an error are passed over. The level is then exact up to the chance that the first point
    which breaks a target lets hardly any question through: P(false) ≤ δ + P(that point lets
    through fewer than certify). For regions that thresholds can form it stayed below δ in
    7,000 simulated populations.

    Args:
        evidence: one row per question, none of which took part in making the path.
        path: from strict to lax, declared before.
        targets: all must hold; the p-value of a point is their largest.
        delta: probability that the chosen point breaks a target by bad luck.
    """
    codes = evidence.route_codes(path)
    counts = np.stack([(codes == code).sum(axis=1) for code in range(len(ROUTE_CODES))], axis=1)
    wrong = let_through_wrongly(evidence, codes).sum(axis=1).tolist()
    results = [_results(evidence, codes, path, target, delta) for target in targets]
    points = tuple(
        PointResult(point, dict(zip(ROUTE_CODES, row, strict=True)), mistaken, of_point)
        for point, row, mistaken, of_point in zip(
            path, counts.tolist(), wrong, zip(*results, strict=True), strict=True
        )
    )
    return sequence_certificate(points, len(evidence), delta)


def sequence_certificate(
    points: tuple[PointResult, ...],
    questions: int,
    delta: float,
) -> Certificate:
    """Test the points in order, from the first that lets enough questions through."""
    # One more than an error-free run needs: the count itself decided where testing begins.
    hopeless = [
        any(
            r.kind in ("selective", "follow", "answer")
            and r.p_value > 0.0
            and counted_units(r) <= questions_needed(r.bound, delta)
            for r in point.results
        )
        for point in points
    ]
    first = hopeless.index(False) if False in hopeless else len(points)
    passed = fixed_sequence([point.p_value for point in points[first:]], delta)
    chosen = first + passed[-1] if passed else None
    return Certificate(points, first, chosen, questions)


def _results(
    evidence: Evidence,
    codes: NDArray[np.int8],
    path: Sequence[PathPoint],
    target: RiskTarget,
    delta: float,
) -> list[GuaranteedRisk]:
    """The test of one target at each point."""
    kind, abstains, exact = target.kind, codes == _ABSTAIN, True
    # Which questions count, and what is lost on them, shape (points, n).
    counted = {"follow": codes == _FOLLOW, "answer": codes == _ANSWER}.get(kind, ~abstains)
    if kind in ("abstention", "cost"):
        counted = np.ones_like(abstains)
    elif kind == "false_abstention":
        counted = answerable(evidence, path)
    if kind == "cost":
        losses, exact = costs(evidence, codes, path, target.losses), target.losses.all_or_nothing
    else:
        wrong = abstains if "abstention" in kind else let_through_wrongly(evidence, codes)
        losses = (counted & wrong).astype(np.float64)
    n, loss = counted.sum(axis=1), losses.sum(axis=1)
    if exact:
        p_values = binomial_p_values(loss, n, target.bound)
    else:
        p_values = hoeffding_bentkus_p_values(loss, len(evidence), target.bound)
    by_group: list[Groups] = [()] * len(path)
    largest = evidence.largest_group
    if evidence.groups is not None:
        largest = max(largest, _COST_PARTS) if kind == "cost" else largest
        by_group = groups_at(evidence.groups, counted, losses, cost=kind == "cost")
        further = _p_values_by_group(by_group, largest, target.bound, delta)
        p_values = np.maximum(p_values, further)
    # Where the route that a target bounds is closed, nothing can go wrong.
    if kind in ("follow", "answer"):
        opened_by = "relevance" if kind == "follow" else "confidence"
        p_values[[getattr(point, opened_by) is None for point in path]] = 0.0
    return [
        evidence_of(target, int(number), float(total), float(p_value), groups, largest)
        for number, total, p_value, groups in zip(n, loss, p_values, by_group, strict=True)
    ]


def hoeffding_bentkus_p_values(total_losses: Floats, n: int, risk: float) -> Floats:
    """P-values of "the mean loss is above `risk`" after total losses in `n` questions.

    For losses anywhere in [0, 1]. 0/1 losses have the exact binomial tail
    (`binomial_p_value`), which is never larger. 1.0 when `n` is 0: no evidence certifies nothing.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets;
    Angelopoulos et al. 2021, Learn then Test.
    """
    return np.asarray([hoeffding_bentkus(total, n, risk) for total in total_losses.tolist()])


def binomial_p_values(errors: Floats, n: NDArray[np.int64], risk: float) -> Floats:
    """`binomial_p_value` of many counts at once; arguments are not checked."""
    from scipy.special import bdtr

    return np.asarray(np.where(n > 0, bdtr(errors, n, risk), 1.0), dtype=np.float64)


def fixed_sequence(p_values: Sequence[float], delta: float) -> list[int]:
    """Indices rejected when testing in the given order, each at the full δ, until one holds.

    The order must not depend on the data that the p-values come from.

    Source: Angelopoulos et al. 2021, Learn then Test, section on fixed-sequence testing.

    Example:
        >>> fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.1)
        [0, 1]
    """
    # NaN rejects nothing.
    return [index for index, _ in takewhile(lambda one: one[1] <= delta, enumerate(p_values))]


# A group's mean cost is told in so many parts, rounded up.
_COST_PARTS = 20


def groups_at(
    groups: NDArray[np.intp],
    counted: NDArray[np.bool_],
    losses: Floats,
    *,
    cost: bool = False,
) -> list[Groups]:
    """Count the questions of each group at each point.

    Args:
        groups: of each question, shape (n,).
        counted: which questions count, shape (points, n).
        losses: what went wrong among those, the same shape.
        cost: losses are shares of a question, and all questions count.

    Example:
        >>> which = np.ones((1, 3), dtype=bool)
        >>> groups_at(np.asarray([0, 0, 1]), which, np.asarray([[1.0, 0.0, 0.0]]))
        [((1, 0, 1), (2, 1, 1))]
    """
    number, found = int(groups.max()) + 1, []
    for which, loss in zip(counted, losses, strict=True):
        sizes = np.bincount(groups[which], minlength=number)
        wrong = np.bincount(groups, weights=loss * which, minlength=number).astype(np.float64)
        if cost:
            wrong = _COST_PARTS * wrong / np.maximum(sizes, 1)
            sizes = np.where(sizes > 0, _COST_PARTS, 0)
        found.append(group_counts(sizes, np.ceil(wrong - 1e-9).astype(np.int64)))
    return found


def _p_values_by_group(
    points: Sequence[Groups], largest: int, bound: float, delta: float
) -> Floats:
    """P-values of "the groups' mean share is above `bound`", along a path that is tested.

    The exact test up to the first point that fails at level `delta`, Hoeffding and Bentkus'
    bound, which is cheap, at those that come after it or have too few groups to pass.
    """
    found, failed = np.ones(len(points)), False
    for place, groups in enumerate(points):
        if failed or counted_groups(groups) < questions_needed(bound, delta):
            found[place] = bound_on_mean(groups, bound)
        else:
            found[place] = group_p_value(groups, largest, bound, delta)
            failed = found[place] > delta
    return found


def group_p_value(groups: Groups, largest: int, bound: float, delta: float) -> float:
    """Compute the p-value by group; one well above `delta` may be given as 1.

    Example:
        >>> round(group_p_value(((2, 0, 26), (2, 1, 1)), 2, 0.2, 0.1), 4)
        0.0032
    """
    number = counted_groups(groups)
    test = LeakTest.of_groups(number, largest, bound)
    if test.takes_long or sum_of_shares(groups) > bound * number:
        return test.p_value_of(groups)
    known = known_p_values(test, delta)
    return float(known[min(test.total_of(groups), len(known) - 1)])


def group_counts(sizes: NDArray[np.integer], parts: NDArray[np.integer]) -> Groups:
    """`(size, part, how many such groups)` of groups that are not empty, in order."""
    pairs = Counter(zip(sizes.tolist(), parts.tolist(), strict=True))
    return tuple((size, part, count) for (size, part), count in sorted(pairs.items()) if size)


@lru_cache(maxsize=512)
def known_p_values(test: LeakTest, delta: float) -> Floats:
    """P-values of totals, up to those that are certainly above `delta`, and then 1.

    They are never smaller than where each group goes wrong as a whole or not at all.
    """
    most = (2 + (errors_allowed(test.passages, test.bound, delta) or 0)) * test.weights[-1]
    return np.append(test.p_values(most), 1.0)
