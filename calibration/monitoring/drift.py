"""Do live signals still look like those that the policy was calibrated on?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import to_jsonable_python

from ...guard.contracts import finite_or_none
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Policy
from ._distance import (
    DRAWS,
    Distance,
    bin_of,
    compare,
    compare_with_mixture,
)
from ._streams import Count

SIGNALS = ("relevance", "confidence")
# Of a cascade: whether the costly scorer was asked.
_ASKED = "asked"
LEAST_VALUES = 100
LEAST_ALPHA = 0.001
_MATERIAL = 0.1
_NEARLY_ALL = 0.99
_MOST_CALIBRATED = 100_000_000


# What a comparison of one signal comes to.
DriftVerdict = Literal[
    "no drift seen", "slight drift", "drifted", "not judged yet", "too few", "not comparable"
]


@dataclass(frozen=True, slots=True)
class SignalDrift:
    """One signal, live against calibration.

    Attributes:
        signal: `relevance`, `confidence`, or `asked`: of a cascade, whether its costly scorer was.
        reference: names of the policy's histograms it was compared with.
        n: live values.
        missing: live decisions without a value: not asked for, or failed.
        psi: population stability index; None where nothing could be compared.
        ks: Kolmogorov–Smirnov distance, likewise.
        share_in_kb: share of live questions whose answer is in the knowledge base, where
            the reference is such a mixture; None otherwise.
        p_value: of both distances together (twice the smaller one).
        verdict: in a word.
        words: in a sentence.
    """

    signal: str
    reference: tuple[str, ...]
    n: int
    missing: int
    psi: Distance | None
    ks: Distance | None
    share_in_kb: float | None
    p_value: float | None
    verdict: DriftVerdict
    words: str

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        found: dict[str, Any] = to_jsonable_python(self)
        if self.psi is not None:
            found["psi"]["excess"] = self.psi.excess
        return found


@dataclass(frozen=True, slots=True)
class DriftReport:
    """All signals, live against calibration.

    Attributes:
        decisions: live decisions looked at.
        signals: one entry per signal that the policy uses or has a histogram of.
        alpha: probability of a false verdict on any signal where nothing has changed.
    """

    decisions: int
    signals: tuple[SignalDrift, ...]
    alpha: float

    @property
    def drifted(self) -> bool:
        """Whether some signal has drifted by more than a trifle."""
        return any(signal.verdict == "drifted" for signal in self.signals)

    @property
    def words(self) -> str:
        """One sentence per signal."""
        return " ".join(signal.words for signal in self.signals)

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return {
            "decisions": self.decisions,
            "drifted": self.drifted,
            "alpha": self.alpha,
            "signals": [signal.to_dict() for signal in self.signals],
        }

    @classmethod
    def of(
        cls,
        policy: Policy,
        decisions: Iterable[Any],
        *,
        alpha: float = 0.05,
        least: int = LEAST_VALUES,
        seed: int = 0,
    ) -> DriftReport:
        """Compare the signals of live decisions with the policy's calibration histograms.

        Per signal the p-values of PSI and KS are combined (twice the smaller one) and held
        against `alpha` divided by the number of signals tested: where nothing has changed,
        any verdict of drift has probability `alpha` at most (exact for questions drawn
        independently, where the reference is a single histogram). It holds for one look:
        looking every hour gives a false one sooner or later. "Drifted" further asks
        for an effect: PSI or KS at least .1 above what chance gives; less is "slight drift".

        Which histogram a signal is compared with:

        - relevance: `relevance` where the policy has it; else the mixture of
          `relevance.in_kb` and `relevance.left_out` (or `relevance.unanswerable`) that fits best.
        - confidence: `confidence.asked` where the policy has it. A guard measures confidence
          only where the decision needs it, so live values are a selection, and a histogram
          of all calibration questions (`confidence`) serves only where nearly every
          live decision has a value. Otherwise the verdict is "not comparable".
        - asked, for the policy of a cascade: the mixture of `asked.in_kb` and
          `asked.left_out` that fits best.

        Args:
            policy: with histograms.
            decisions: Decisions, or anything with their signals.
            alpha: in [.001, 1).
            least: fewer live or calibration values give no verdict.
            seed: of the random draws behind the p-values.

        Raises:
            InputError: `alpha` or `least` is out of range, or a histogram cannot be used.
        """
        counter = SignalCounter().bound_to(policy)
        for decision in decisions:
            counter.add(decision)
        return compare_counts(policy, counter, alpha=alpha, least=least, seed=seed)


@checked_dataclass
class SignalCounter:
    """Live values in the bins of a policy's histograms: a few whole numbers, whatever the traffic.

    A monitor saves it as it is.

    Attributes:
        decisions: how many were counted.
        abstained: how many of them abstained.
        counts: signal → values per bin.
    """

    decisions: Count = 0
    abstained: Count = 0
    counts: dict[str, list[Count]] = field(default_factory=dict)

    def bound_to(self, policy: Policy) -> SignalCounter:
        """Return itself, ready to count in the bins of a policy.

        Raises:
            InputError: a histogram of the policy has no bins, absurdly many questions, or other
                bins than the one that it is mixed with; or the values counted so far are in
                other bins, or more than the decisions.
        """
        self._edges = {name: _edges(policy, name) for name in _signals(policy)}
        empty = {name: [0] * (len(edges) - 1) for name, edges in self._edges.items()}
        counts = self.counts or empty
        bins, own = ({name: len(one) for name, one in all_.items()} for all_ in (counts, empty))
        if bins != own or max(self.abstained, *map(sum, counts.values())) > self.decisions:
            raise InputError("the saved state counts more than its decisions, or other bins")
        self.counts = counts
        return self

    def add(self, decision: Any) -> None:
        """Count one decision; a signal that is None, or NaN, was not measured."""
        self.decisions += 1
        self.abstained += getattr(decision, "route", None) is Route.ABSTAIN
        for name in SIGNALS:
            value = finite_or_none(getattr(decision, name))
            if value is not None:
                self.counts[name][bin_of(self._edges[name], value)] += 1
        stage = getattr(decision, "relevance_stage", None)
        if stage is not None and _ASKED in self.counts:
            self.counts[_ASKED][stage != "cheap"] += 1


def compare_counts(
    policy: Policy,
    counter: SignalCounter,
    *,
    alpha: float,
    least: int,
    seed: int,
    judge: bool = True,
) -> DriftReport:
    """As `DriftReport.of`, for signals already counted; without `judge`, no verdicts."""
    # Below it no p-value of random splits could be so small.
    if not LEAST_ALPHA <= alpha < 1.0 or least < 1:
        raise InputError(f"alpha must be from {LEAST_ALPHA} to 1, and one value needed at least")
    compared = [
        _compared(policy, name, counter, least, (alpha, seed))
        for name in _signals(policy)
        if _references(policy, name)
        or (policy.may_follow if name == "relevance" else policy.needs_estimator)
    ]
    tested = max(1, sum(signal.p_value is not None for signal in compared))
    return DriftReport(
        counter.decisions,
        tuple(_judged(signal, alpha / tested if judge else None) for signal in compared),
        alpha,
    )


def _edges(policy: Policy, signal: str) -> Sequence[float]:
    """The edges of a signal's bins.

    Raises:
        InputError: the policy's histograms of it cannot be used.
    """
    names = _references(policy, signal)
    found = [policy.histograms[name] for name in names]
    sizes = [sum(one.counts) if one.counts else math.inf for one in found]
    if max(sizes, default=0) > _MOST_CALIBRATED or len({one.edges for one in found}) > 1:
        raise InputError(
            f"the policy's histograms {' and '.join(names)} have no bins, different ones, or more "
            f"than {_MOST_CALIBRATED:,} questions",
            hint="calibrate again, or take them out of the policy",
        )
    return found[0].edges if found else (0.0, 1.0)


def _signals(policy: Policy) -> tuple[str, ...]:
    return (*SIGNALS, _ASKED) if _references(policy, _ASKED) else SIGNALS


_CANDIDATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "relevance": (
        ("relevance",),
        ("relevance.in_kb", "relevance.left_out"),
        ("relevance.in_kb", "relevance.unanswerable"),
    ),
    "confidence": (("confidence.asked",), ("confidence",)),
    _ASKED: (("asked.in_kb", "asked.left_out"), ("asked.in_kb", "asked.unanswerable")),
}


def _references(policy: Policy, signal: str) -> tuple[str, ...]:
    candidates = _CANDIDATES[signal]
    return next((names for names in candidates if policy.histograms.keys() >= {*names}), ())


def _compared(
    policy: Policy, signal: str, counter: SignalCounter, least: int, settings: tuple[float, int]
) -> SignalDrift:
    """The numbers of one signal; its verdict is final only where there is no p-value."""
    counts = counter.counts[signal]
    n, names = sum(counts), _references(policy, signal)
    histograms = [policy.histograms[name] for name in names]
    smallest = min((sum(histogram.counts) for histogram in histograms), default=0)
    psi, ks, share, p_value = None, None, None, None
    verdict: DriftVerdict = "not comparable"
    words = "the policy has no histogram of it to compare with."
    if names == ("confidence",) and n < _NEARLY_ALL * counter.decisions:
        words = (
            f"the guard asked for it in {n} of {counter.decisions} decisions only, and the "
            "policy has no histogram of such a selection (confidence.asked)."
        )
    elif names:
        verdict = "too few"
        words = f"too few: {n} live and {smallest} calibration values; from {least} on both sides."
        if n and smallest:
            alpha, seed = settings
            # The smallest p-value possible is 1 / (1 + draws): well below its share of alpha.
            draws = max(DRAWS, math.ceil(4 * len(SIGNALS) / alpha))
            measure: Any = compare_with_mixture if len(histograms) == 2 else compare
            psi, ks, share = measure(*histograms, counts, draws=draws, seed=seed)
            if n >= least and smallest >= least:
                p_value = min(1.0, 2 * min(psi.p_value, ks.p_value))
    missing = counter.decisions - n
    words = f"{signal}: {words}"
    return SignalDrift(signal, names, n, missing, psi, ks, share, p_value, verdict, words)


def _judged(signal: SignalDrift, alpha: float | None) -> SignalDrift:
    if signal.p_value is None or signal.psi is None or signal.ks is None:
        return signal
    excess = max(signal.psi.excess, signal.ks.excess)
    verdict: DriftVerdict = "not judged yet" if alpha is None else "no drift seen"
    if alpha is not None and signal.p_value <= alpha:
        verdict = "drifted" if excess >= _MATERIAL else "slight drift"
    words = (
        f"{signal.signal}: {verdict} in {signal.n} values (PSI {signal.psi.value:.3f}, of "
        f"which {signal.psi.without_drift:.3f} is chance; KS {signal.ks.value:.3f}; "
        f"p {signal.p_value:.3f})."
    )
    if signal.share_in_kb is not None:
        words += (
            f" The best mixture has {100 * signal.share_in_kb:.0f}% of questions with "
            "their answer in the knowledge base."
        )
    return replace(signal, verdict=verdict, words=words)
