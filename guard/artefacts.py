"""The parts of a stored policy: veto bindings, guarantees with the test of a leak, histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from .decision import Route
from .errors import FingerprintMismatchError, PolicyError
from .fingerprint import Artefact, Fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]


def whole(loss: float) -> int:
    """Round a loss up to whole questions; sums such as .1 + .2 do not cost a whole one."""
    return math.ceil(loss - 1e-9)


def binomial_tail(errors: int, n: int, risk: float) -> float:
    """P(Bin(n, risk) ≤ errors): the exact p-value of so many errors; 1.0 where `n` is 0.

    Example:
        >>> round(binomial_tail(5, 100, 0.1), 4)
        0.0576
    """
    import numpy as np

    if not n or errors >= n:
        return 1.0
    k = np.arange(errors, dtype=np.float64)
    # Logarithms of the chances of 0, 1, … errors, so that no term is lost.
    steps = np.log((n - k) / (k + 1.0)) + (math.log(risk) - math.log1p(-risk))
    terms = n * math.log1p(-risk) + np.append(0.0, np.cumsum(steps))
    return min(1.0, float(np.exp(terms).sum()))


def hoeffding_bentkus(loss: float, n: int, risk: float) -> float:
    """P-value of the mean of losses in [0, 1]; 1.0 where `n` is 0.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets.

    Example:
        >>> round(hoeffding_bentkus(2.0, 100, 0.1), 4)
        0.0053
    """
    if not n:
        return 1.0
    mean = min(loss / n, risk)
    entropy = sum(
        seen * math.log(seen / bound)
        for seen, bound in ((mean, risk), (1.0 - mean, 1.0 - risk))
        if seen > 0.0
    )
    bentkus = math.e * binomial_tail(min(n, whole(loss)), n, risk)
    return min(1.0, bentkus, math.exp(-n * max(0.0, entropy)))


# Shares above 0 that are told apart at most, and parts that a whole passage is counted in.
_MAX_LEVELS, _WHOLE = 20, 48
# The stake λ that weights come from, times √(passages · α (1 − α)), and its largest part of what
# would lose everything. Chosen by simulation: hardly a loss where the questions of a passage all
# go alike, most of the gain where they do not (`benchmarks/leak_certificate.py`).
_STAKE, _LARGEST_STAKE = 1.6, 0.95


@dataclass(frozen=True, slots=True)
class LeakTest:
    """A test that a passage's share of passing questions has a mean above a bound.

    A passage of which a share s passes counts w(s), between 0 and 1, and P is the largest chance
    of so small a total among independent passages whose mean shares are at or above the bound.
    The weight is the loss of a gambler who stakes λ against the bound, as a part of what a
    whole passage costs him: log((1 + λα) / (1 + λ(α − s))) / log((1 + λα) / (1 − λ(1 − α))). So
    two passages that half pass count less than one that passes: that tells more of a mean.

    For a given total the chance is linear in the distribution of each passage, so it is largest
    where each has two shares a ≤ α < b only. Passages that pass as a whole or not at all are
    counted over all numbers of them. For the others, taken from the most to the least spread, it
    is bounded by the chance of one who sees the total as it grows and goes on to less spread
    ones when it suits him. Where shares are 0 or 1 only the test is the exact binomial tail.

    Attributes:
        MOST_STEPS: of a computation that ends in some tenths of a second. Beyond, Hoeffding and
            Bentkus' bound on the mean share takes its place: it certifies nearly as much, since
            there are many passages.
        passages: independent ones, each with a question.
        bound: α on the mean share, in (0, 1).
        levels: shares that are told apart, ascending from 0 to 1; another counts as the next.
        weights: of each level, in parts of a whole passage, which is the last.

    Source: Hoeffding 1956, On the distribution of the number of successes in independent
    trials, for two-point extremes; Waudby-Smith & Ramdas 2024, Estimating means of bounded
    random variables by betting, for the stake.

    Example:
        >>> test = LeakTest.of([2] * 27, 0.2)
        >>> test.levels, test.weights
        ((0.0, 0.5, 1.0), (0, 18, 48))
        >>> [round(test.p_values(total)[total].item(), 4) for total in (0, 18, 48, 96)]
        [0.0024, 0.0032, 0.0187, 0.0718]
    """

    MOST_STEPS: ClassVar = 40_000_000

    passages: int
    bound: float
    levels: tuple[float, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Iterable[int], bound: float) -> LeakTest:
        """Choose the test by the questions of each passage, at least 1, and the bound."""
        given = [int(size) for size in sizes]
        return cls._of_parts(len(given), {1, *given}, bound)

    @classmethod
    def of_groups(cls, groups: int, largest: int, bound: float) -> LeakTest:
        """Choose the test of groups of which any number of questions may count.

        Args:
            groups: independent ones, each with a question that counts.
            largest: most questions that a group has.
            bound: α on the mean share.

        Example:
            >>> LeakTest.of_groups(27, 2, 0.2) == LeakTest.of([2] * 27, 0.2)
            True
        """
        return cls._of_parts(groups, range(1, min(largest, _MAX_LEVELS + 1) + 1), bound)

    @classmethod
    def _of_parts(cls, passages: int, parts: Iterable[int], bound: float) -> LeakTest:
        # One passage of more questions than that alone has too many shares.
        sizes = {max(1, min(size, _MAX_LEVELS + 1)) for size in parts}
        levels = sorted({part / size for size in sizes for part in range(size + 1)})
        if len(levels) > _MAX_LEVELS + 1:
            levels = [part / _MAX_LEVELS for part in range(_MAX_LEVELS + 1)]
        spread = math.sqrt(bound * (1.0 - bound) * max(1, passages))
        stake = min(_STAKE / spread, _LARGEST_STAKE / (1.0 - bound))
        losses = [math.log1p(stake * bound) - math.log1p(stake * (bound - s)) for s in levels]
        weights = [math.ceil(_WHOLE * loss / losses[-1] - 1e-9) for loss in losses]
        return cls(passages, bound, tuple(levels), tuple(weights))

    @property
    def takes_long(self) -> bool:
        """Whether p-values up to the bound take more steps than `MOST_STEPS`."""
        rows = int(self.bound * self.passages) + 1
        whole = self.weights[-1]
        steps = len(self._pairs()) * (rows * whole + 2000) + rows * rows * whole // 8
        return self.passages * steps > self.MOST_STEPS

    def totals(self, shares: Floats) -> Counts:
        """Weight of all passages, of shares of shape (…, passages)."""
        import numpy as np

        # A share that rounding puts a little above a level is at that level.
        places = np.searchsorted(self.levels, shares - 1e-9)
        return np.asarray(np.asarray(self.weights)[places].sum(axis=-1), dtype=np.int64)

    def total_of(self, counts: Sequence[tuple[int, int, int]]) -> int:
        """Weight of all passages, of `(questions, of those that pass, how many such passages)`."""
        import numpy as np

        shares = np.asarray([[passing / size] for size, passing, _ in counts])
        return int(self.totals(shares) @ np.asarray([count for _, _, count in counts]))

    def p_value_of(self, counts: Groups) -> float:
        """P-value of counts as in `total_of`; 1.0 where their mean share is above the bound."""
        if any(passing > size or not size for size, passing, _ in counts):
            # No passage has such counts.
            return 1.0
        total = sum_of_shares(counts)
        if total > self.bound * self.passages:
            return 1.0
        if self.takes_long:
            return hoeffding_bentkus(total, self.passages, self.bound)
        return float(self.p_values(self.total_of(counts))[-1])

    def p_values(self, most: int) -> Floats:
        """P-values of the totals 0, …, `most`, ascending."""
        import numpy as np

        whole = self.weights[-1]
        rows = most // whole + 1
        # Chances of 0, 1, … whole passages among 0, 1, … of those that go all one way.
        chances = np.zeros((self.passages + 1, rows))
        chances[0, 0] = 1.0
        for n in range(self.passages):
            chances[n + 1] = chances[n] * (1.0 - self.bound)
            chances[n + 1, 1:] += chances[n, :-1] * self.bound
        before = np.subtract.outer(np.arange(rows), np.arange(rows))
        found = np.zeros((rows, whole))
        for others, worst in enumerate(self._worst_of_others(rows * whole)):
            wholes = np.where(before >= 0, chances[self.passages - others][before], 0.0)
            np.maximum(found, wholes @ worst.reshape(rows, whole), out=found)
        return np.asarray(np.minimum(1.0, found.ravel()[: most + 1]))

    def _worst_of_others(self, totals: int) -> Iterator[Floats]:
        """Largest chances of at most 0, 1, … in all, for 0, 1, … passages with other shares."""
        import numpy as np

        yield np.ones(totals)
        whole, pairs = self.weights[-1], self._pairs()
        # By the most spread pair that may still be taken; nothing remains below 0.
        remaining = np.zeros((len(pairs) + 1, whole + totals))
        remaining[:-1, whole:] = 1.0
        for _ in range(self.passages):
            for row in range(len(pairs) - 1, -1, -1):
                low, high, chance = pairs[row]
                now = remaining[row]
                after = now[whole - low : len(now) - low] * (1.0 - chance)
                after += now[whole - high : len(now) - high] * chance
                np.maximum(after, remaining[row + 1, whole:], out=now[whole:])
            yield remaining[0, whole:]

    def _pairs(self) -> list[tuple[int, int, float]]:
        """Weights of two shares and the chance of the larger, where the mean is the bound.

        From the most to the least spread; that of 0 and 1 is left out.
        """
        known = list(zip(self.levels, self.weights, strict=True))
        pairs = [
            ((self.bound - a) * (b - self.bound), low, high, (self.bound - a) / (b - a))
            for a, low in known
            for b, high in known
            if a <= self.bound < b and (a, b) != (0.0, 1.0)
        ]
        pairs.sort(key=lambda pair: -pair[0])
        return [pair[1:] for pair in pairs]


Probability = Annotated[float, Field(ge=0, le=1)]
_Inside = Annotated[float, Field(gt=0, lt=1)]
# Of questions; what a stored policy claims is computed anew, which must not take long.
MOST_QUESTIONS = 1_000_000
Count = Annotated[int, Field(ge=0, le=MOST_QUESTIONS)]


def added_up(groups: Groups) -> tuple[int, int]:
    """How many questions groups have together, and how many of them went wrong."""
    questions = sum(size * count for size, _, count in groups)
    return questions, sum(wrong * count for _, wrong, count in groups)


def _possible(groups: Groups) -> Groups:
    if added_up(groups)[0] > MOST_QUESTIONS:
        raise ValueError(f"more than {MOST_QUESTIONS:,} questions")
    if any(not size for size, _, _ in groups):
        raise ValueError("a group without questions")
    return groups


# Of one bound at one point, how the questions that count went by group: `(questions that count, of
# those that went wrong, how many such groups)`; of a cost `(20, twentieths of the mean cost, …)`.
#
# A group of which no question counts says nothing. Each other one counts once, by its share of
# questions that went wrong, whatever its size: shares of different groups are independent, those of
# its questions need not be. The chance of so small shares is that of `LeakTest`.
Groups = Annotated[
    tuple[tuple[Count, Count, Count], ...], Field(max_length=10_000), AfterValidator(_possible)
]

# The share of δ that a first attempt is tested at; the rest is divided among all later ones.
_FIRST_SHARE = 0.75


def counted_groups(groups: Groups) -> int:
    """Groups with a question that counts."""
    return sum(count for *_, count in groups)


def sum_of_shares(groups: Groups) -> float:
    """Sum of the groups' shares."""
    return math.fsum(count * wrong / size for size, wrong, count in groups)


def bound_on_mean(groups: Groups, bound: float) -> float:
    """Hoeffding and Bentkus' p-value of "the mean share is above `bound`": falls with it."""
    return hoeffding_bentkus(sum_of_shares(groups), counted_groups(groups), bound)


def require_fingerprint(expected: Fingerprint, found: Fingerprint, what: str, hint: str) -> None:
    """Reject a part other than the one that a policy is bound to.

    Raises:
        FingerprintMismatchError: naming the fields that differ.
    """
    differences = expected.differences(found)
    if differences:
        fault = f"the policy was calibrated on another {what} ({'; '.join(differences)})"
        raise FingerprintMismatchError(fault, hint=hint)


def require_schema_version(value: Any, newest: int, *, where: str) -> None:
    """Reject parsed JSON that is not a policy of a known schema version.

    Raises:
        PolicyError: a newer knowgate wrote it, it is no object, or names no version.
    """
    fault, hint = "", "write it with `knowgate calibrate`"
    version = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(value, dict):
        fault = f"expected a JSON object, found {type(value).__name__}"
    elif isinstance(version, bool) or not isinstance(version, int) or version < 1:
        fault = "field 'schema_version' is missing or not a positive number"
    elif version > newest:
        fault = f"policy schema {version} is newer than {newest}, the newest known here"
        hint = "upgrade knowgate or calibrate again"
    if fault:
        raise PolicyError(fault, where=where, hint=hint)


class VetoBinding(Artefact):
    """A veto that a policy is bound to.

    Attributes:
        name: of the veto.
        fingerprint: of the veto; its settings hold all parameters.
        threshold: the guard abstains from this strength on (inclusive).
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    fingerprint: Fingerprint
    threshold: FiniteFloat


class Retrieval(Artefact):
    """What the calibration questions were retrieved by, as far as that is known.

    Attributes:
        k: the most passages that a question had.
        passage: what a passage holds: `answer`, `question_answer`, `passage` or `chunk`.
        longest: characters of the longest passage.
        details: retriever, chain and chunking, as in the manifest of the run.
    """

    k: PositiveInt | None = None
    passage: str = ""
    longest: PositiveInt | None = None
    details: dict[str, JsonValue] = Field(default_factory=dict)


class SupportPolicy(Artefact):
    """From which support on a reply is delivered, and what is promised of those that are.

    The promise: of the replies that are delivered, at most a share `risk` are unsupported, with
    probability 1 - `delta` over the draw of the replies that it was calibrated on.

    Attributes:
        check: fingerprint of the check.
        threshold: replies with a sentence of less support are unsupported; None: none is
            delivered, because nothing could be certified.
        risk: the promised bound; None for a threshold without a promise.
        delta: of the test.
        replies: with a known verdict that it was calibrated on.
        delivered: of them at the threshold.
        unsupported: of those.
        groups: `(delivered, of them unsupported, how many such questions)`.
        p_value: of "the bound is broken".
        note: what the promise rests on, or that there is none.
    """

    check: Fingerprint
    threshold: Probability | None
    risk: _Inside | None = None
    delta: _Inside | None = None
    replies: Count = 0
    delivered: Count = 0
    unsupported: Count = 0
    groups: Groups = ()
    p_value: Probability | None = None
    note: str = ""

    @property
    def certified(self) -> bool:
        """Whether something is promised."""
        return self.threshold is not None and self.risk is not None

    @model_validator(mode="after")
    def _borne_out(self) -> SupportPolicy:
        """Check the promise against its counts."""
        if not self.certified:
            return self
        if self.delta is None or self.p_value is None or not self.groups or self.risk is None:
            raise ValueError("a promise on replies names no counts")
        if added_up(self.groups) != (self.delivered, self.unsupported):
            raise ValueError("the counts by question do not add up to the replies")
        found = self.p_value_of(self.groups, self.risk)
        if abs(found - self.p_value) > 1e-6 * max(found, 1e-6) or found > self.delta:
            raise ValueError(f"its counts give p-value {found:.3g}, which does not certify it")
        return self

    @staticmethod
    def p_value_of(groups: Groups, risk: float) -> float:
        """P-value of "more than `risk` of what is delivered is unsupported".

        The larger one of two exact tests: each reply by itself, and each question by the share of
        its replies.
        """
        delivered, wrong = added_up(groups)
        if not delivered:
            return 1.0
        largest = max(size for size, _, _ in groups)
        test = LeakTest.of_groups(counted_groups(groups), largest, risk)
        by_question = test.p_value_of(groups)
        return max(binomial_tail(wrong, delivered, risk), by_question)


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
            `abstention`, `leak`; `first_stage` for the leak of a cascade whose costly scorer
            fails.
        bound: in (0, 1).
        n: questions that count for it.
        loss: how much went wrong among them: errors, or the sum of costs.
        p_value: of "the bound is broken".
        losses: cost of each mishap, for `cost`.
        groups: where several questions share a group: `(questions that count, of those that went
            wrong, how many such groups)`. Each group counts once, by that share; of a cost it is
            the mean of its questions, in twentieths. The p-value is then the larger one of the
            tests by question and by group.
        largest_group: most questions that a group has, counted for this bound or not; 0: of each
            one.
    """

    LEFT_OUT = ("groups", "largest_group")

    kind: str
    bound: _Inside
    n: Count
    loss: Annotated[FiniteFloat, Field(ge=0, le=MOST_QUESTIONS)]
    p_value: Probability
    losses: dict[str, Probability] | None = None
    groups: Groups = ()
    largest_group: Count = 0


# Which questions must not pass.
Missing = Literal["left_out", "unanswerable", "both"]


class Guarantee(Artefact):
    """What is guaranteed, and the evidence for it.

    Attributes:
        statement: the guarantee in words.
        risk: the bound α that was asked for, in (0, 1).
        delta: probability δ in (0, 1) that the guarantee fails because of the sample drawn.
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
        population: whom the guarantee covers.
        not_covered: what it says nothing about.
        more_questions: about how many more would be needed, where nothing was certified
            and more could help.
        attempt: which calibration on the same data this is, from 1; None: no part of a series.
        passages: of a leak with several questions per passage: `(questions, of those let
            through, how many such passages)`, which its p-value follows from.
        first_stage_passages: likewise, of the leak of a cascade's first stage alone.
        unanswerable_topics: likewise, of unanswerable questions, several of which share a topic.
        missing: of a leak, which questions must not pass: those whose source was left out, the
            user's own unanswerable ones, or both, each by itself; None in other guarantees, and
            in those written before it was noted, which are about the first.
        candidates: scorers that were calibrated on these questions together, of which this is the
            chosen one.
        measured_by: SHA-256 of the scorer, aggregator and relevance calibrator that the certified
            thresholds are of, and but for a leak of the estimator and its calibrator, too. A policy
            with others promises nothing.
    """

    LEFT_OUT = ("first_stage_passages", "unanswerable_topics", "missing")

    statement: str
    risk: _Inside
    delta: _Inside
    certified: bool
    loss: str
    unit: Literal["question"] = "question"
    n: Count
    errors: Count
    method: str = ""
    questions: Count | None = None
    routes: dict[Route, Count] = Field(default_factory=dict)
    risks: Annotated[tuple[GuaranteedRisk, ...], Field(max_length=20)] = ()
    path: tuple[PolicyPoint, ...] = ()
    chosen: Count | None = None
    population: str = ""
    not_covered: tuple[str, ...] = ()
    more_questions: Count | None = None
    attempt: PositiveInt | None = None
    passages: Groups = ()
    first_stage_passages: Groups = ()
    unanswerable_topics: Groups = ()
    missing: Missing | None = None
    candidates: PositiveInt = 1
    measured_by: str = ""

    @property
    def kinds(self) -> frozenset[str]:
        """Of all its risks."""
        return frozenset(risk.kind for risk in self.risks)

    @property
    def level(self) -> float:
        """The level of the test: δ, or this attempt's part of it, divided among the candidates."""
        return self.level_of(self.delta, self.attempt) / self.candidates

    @staticmethod
    def level_of(delta: float, attempt: int | None) -> float:
        """Compute the level that a calibration is tested at, as one of a series on the same data.

        The first attempt has ¾ of δ, the k-th δ / (4 k (k − 1)). However many there are, and
        whichever is kept, their levels sum to δ at most.

        Args:
            delta: probability that the promise of any of them fails by bad luck.
            attempt: its number, from 1; None for a calibration that is no part of a series,
                which has all of δ.

        Source: alpha-spending, as in Tian & Ramdas 2021, Online control of the familywise error
        rate; a union bound over the attempts.

        Example:
            >>> [round(Guarantee.level_of(0.1, attempt), 4) for attempt in (None, 1, 2)]
            [0.1, 0.075, 0.0125]
        """
        if attempt is None:
            return delta
        if attempt == 1:
            return _FIRST_SHARE * delta
        return (1.0 - _FIRST_SHARE) * delta / (attempt * (attempt - 1))

    @model_validator(mode="after")
    def _counted(self) -> Guarantee:
        if self.errors > self.n:
            raise ValueError("errors must not exceed n")
        if self.chosen is not None and self.chosen >= len(self.path):
            raise ValueError("chosen must be an index of path")
        return self


class Histogram(Artefact):
    """Counts of a signal over the calibration set, for watching drift.

    Attributes:
        edges: increasing bin edges, one more than `counts`.
        counts: questions per bin; the last bin includes its right edge.
    """

    edges: tuple[FiniteFloat, ...]
    counts: tuple[NonNegativeInt, ...]

    @model_validator(mode="after")
    def _shape(self) -> Histogram:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError("edges must be one longer than counts")
        if any(b <= a for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must increase")
        return self
