"""The suite's numbers: who abstains when, what is right, what is known and put to use.

    R_ua   abstentions among unanswerable questions      R_ab   among answerable ones
    RΔ     R_ua − R_ab                                 Acc    right among answerable ones
    KPR    share of unanswerable questions whose linked facts are all known (task 2)
    KRR    1 / (1 + exp(−RΔ / KPR)): knowledge put to use in abstaining

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....calibration import Interval, QuestionResamples

_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A reply with its verdicts.

    Attributes:
        key: of the question.
        cluster: shared by a question and its twins in other kinds and languages, which are
            no independent evidence.
        unanswerable: of the question.
        refused: the reply abstains.
        correct: it names a right answer; None for an unanswerable question.
    """

    key: str
    cluster: str
    unanswerable: bool
    refused: bool
    correct: bool | None


@dataclass(frozen=True, slots=True)
class RefusalMetrics:
    """Rates of one system on one set of questions; undefined ones have the value None.

    Attributes:
        questions: with a reply.
        r_ua, r_ab, r_delta, accuracy: see the module.
        kpr: None where task 2 was not asked.
        krr: likewise, or where KPR is 0.
    """

    questions: int
    r_ua: Interval
    r_ab: Interval
    r_delta: Interval
    accuracy: Interval
    kpr: Interval = field(default_factory=Interval)
    krr: Interval = field(default_factory=Interval)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        return {
            "questions": self.questions,
            "r_ua": self.r_ua.to_dict(),
            "r_ab": self.r_ab.to_dict(),
            "r_delta": self.r_delta.to_dict(),
            "accuracy": self.accuracy.to_dict(),
            "kpr": self.kpr.to_dict(),
            "krr": self.krr.to_dict(),
        }


def krr_value(r_delta: float, kpr: float) -> float | None:
    """KRR of RΔ and KPR, both as shares or both as percentages; None where KPR is 0.

    Example:
        >>> round(100 * krr_value(20.89, 73.11), 2)   # Llama3-8B, published
        57.1
    """
    if kpr == 0:
        return None
    return 1.0 / (1.0 + math.exp(-r_delta / kpr))


def passed_questions(
    right: Mapping[str, bool], links: Mapping[str, Iterable[str]]
) -> dict[str, bool]:
    """For every question whether all its linked facts are known.

    Args:
        right: four-option question → answered rightly; those not asked are missing.
        links: question → the four-option questions on its facts. One of which any was
            not asked, or failed, is left out.
    """
    found = {}
    for question, facts in links.items():
        answers = [right.get(fact) for fact in facts]
        if answers and None not in answers:
            found[question] = all(answers)
    return found


def refusal_metrics(
    replies: Sequence[ScoredReply],
    passed: Mapping[str, bool] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> RefusalMetrics:
    """The metrics with 95 % intervals.

    Rates have Wilson intervals; RΔ and KRR percentile bootstrap intervals over clusters,
    in which a question stays together with its twins.

    Args:
        replies: of one system; one per question.
        passed: unanswerable question → all its facts are known.
        resamples: of the bootstrap.
        seed: likewise.
    """
    ua = [reply for reply in replies if reply.unanswerable]
    ab = [reply for reply in replies if not reply.unanswerable]
    r_ua = _rate([reply.refused for reply in ua])
    r_ab = _rate([reply.refused for reply in ab])
    accuracy = _rate([bool(reply.correct) for reply in ab])
    chosen = {} if passed is None else {r.key: passed[r.key] for r in ua if r.key in passed}
    kpr = _rate(list(chosen.values()))
    counts = _cluster_counts(replies, chosen)
    draws = _draws(counts, resamples, seed)
    return RefusalMetrics(
        questions=len(replies),
        r_ua=r_ua,
        r_ab=r_ab,
        r_delta=_bootstrapped(counts, draws, _r_delta),
        accuracy=accuracy,
        kpr=kpr,
        krr=_bootstrapped(counts, draws, _krr),
    )


Counts = NDArray[np.float64]
"""Columns: unanswerable abstained from and in all, answerable likewise, passed and all asked."""


def _cluster_counts(replies: Sequence[ScoredReply], passed: Mapping[str, bool]) -> Counts:
    rows: dict[str, list[float]] = {}
    for reply in replies:
        row = rows.setdefault(reply.cluster, [0.0] * 6)
        at = 0 if reply.unanswerable else 2
        row[at] += reply.refused
        row[at + 1] += 1
        if reply.key in passed:
            row[4] += passed[reply.key]
            row[5] += 1
    return np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), 6)


def _draws(counts: Counts, resamples: int, seed: int) -> Counts:
    """Column sums of each resample, shape (resamples, 6)."""
    if not len(counts):
        return np.zeros((0, 6))
    return QuestionResamples(range(len(counts)), resamples=resamples, seed=seed).totals(counts)


def _r_delta(sums: Counts) -> float | None:
    if not sums[1] or not sums[3]:
        return None
    return float(sums[0] / sums[1] - sums[2] / sums[3])


def _krr(sums: Counts) -> float | None:
    delta = _r_delta(sums)
    if delta is None or not sums[5]:
        return None
    return krr_value(delta, float(sums[4] / sums[5]))


def _bootstrapped(
    counts: Counts, draws: Counts, statistic: Callable[[Counts], float | None]
) -> Interval:
    value = statistic(counts.sum(axis=0)) if len(counts) else None
    if value is None:
        return Interval()
    seen = [found for found in map(statistic, draws) if found is not None]
    if not seen or min(seen) == max(seen):
        # All draws agree: resampling says nothing about chance.
        return Interval(value, None, None, len(counts))
    low, high = np.quantile(seen, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(value, min(value, float(low)), max(value, float(high)), len(counts))


def _rate(flags: Sequence[bool]) -> Interval:
    return Interval.wilson(sum(flags), len(flags))
