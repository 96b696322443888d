"""Does the promise of `fit_policy` hold, and what does it cost in coverage?

    python benchmarks/risk_control.py [--draws 1000] [--markdown OUT.md]

Calibration sets are drawn from known populations of questions: in one both signals are
calibrated probabilities, in one they are strongly distorted, and in one, with relevance alone,
the highest 2 % of the scores are always wrong. Printed per number of
questions and bound: how often a certified policy breaks its bound (at most δ = .1 is
promised), the mean share of questions that it lets through, and the same for Holm and
Bonferroni over a 21 × 21 grid of thresholds on the same draws, beside the oracle, which
knows the population.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import RiskTarget, certify, fit_policy
from knowgate.calibration.risk.certificate import Evidence
from knowgate.calibration.risk.risks import PathPoint
from knowgate.calibration.statistics import holm_adjusted

Floats = NDArray[np.float64]
DELTA = 0.1
SIZES, RISKS = (100, 300, 1000), (0.05, 0.1, 0.2)
LEVELS = np.linspace(0.0, 1.0, 21).tolist()


@dataclass(frozen=True)
class Sample:
    """Signals of n questions, and whether each route would be right."""

    relevance: Floats
    confidence: Floats
    context_right: NDArray[np.bool_]
    memory_right: NDArray[np.bool_]

    def records(self) -> list[CalibrationRecord]:
        columns = (self.relevance, self.confidence, self.context_right, self.memory_right)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [CalibrationRecord(str(number), *row) for number, row in enumerate(rows)]

    def outcome(self, relevance: float | None, confidence: float | None) -> tuple[float, float]:
        """Share let through, and share of those answered wrongly."""
        follow = self.relevance >= (2.0 if relevance is None else relevance)
        answer = ~follow & (self.confidence >= (2.0 if confidence is None else confidence))
        wrong = (follow & ~self.context_right) | (answer & ~self.memory_right)
        through = int((follow | answer).sum())
        return through / len(follow), float(wrong.sum()) / through if through else 0.0


def calibrated(n: int, rng: np.random.Generator) -> Sample:
    """Signals that are probabilities."""
    relevance, confidence = rng.beta(1.2, 1.0, n), rng.beta(0.8, 1.0, n)
    return Sample(relevance, confidence, rng.random(n) < relevance, rng.random(n) < confidence)


def distorted(n: int, rng: np.random.Generator) -> Sample:
    """Signals that rise with being right and are no probabilities."""
    relevance, confidence = rng.random(n), rng.random(n)
    context = rng.random(n) < 1 / (1 + np.exp(3 - 8 * relevance))
    memory = rng.random(n) < 1 / (1 + np.exp(4 - 6 * confidence))
    return Sample(relevance, confidence, context, memory)


def highest_wrong(n: int, rng: np.random.Generator) -> Sample:
    """Relevance says much, but its highest 2 % are wrong; memory knows nothing."""
    relevance, nothing = rng.random(n), np.zeros(n)
    shares = np.select([relevance > 0.98, relevance > 0.45], [0.0, 0.97], 0.3)
    return Sample(relevance, nothing, rng.random(n) < shares, nothing > 0.0)


def oracle(truth: Sample, risk: float) -> float:
    levels = np.linspace(0.0, 1.0, 51).tolist()
    found = [truth.outcome(r, p) for r in levels for p in levels]
    return max((coverage for coverage, wrong in found if wrong <= risk), default=0.0)


def measure(
    population: Callable[[int, np.random.Generator], Sample], n: int, risk: float, draws: int
) -> list[str]:
    truth = population(200_000, np.random.default_rng(1))
    grid = PathPoint.grid(LEVELS, LEVELS)
    broken, coverage = 0, []
    others: dict[str, list[float]] = {"Holm": [], "Bonferroni": []}
    for draw in range(draws):
        records = population(n, np.random.default_rng((draw, n))).records()
        policy = fit_policy(records, risk=risk, delta=DELTA).policy
        share, wrong = truth.outcome(policy.relevance_threshold, policy.confidence_threshold)
        coverage.append(share)
        broken += wrong > risk
        if draw % 10 == 0:  # the grid is slower, and its mean needs no thousand draws
            tested = certify(
                Evidence.of(records), grid, [RiskTarget("selective", risk)], delta=DELTA
            ).points
            p_values = [point.p_value for point in tested]
            adjusted = {
                "Holm": holm_adjusted(p_values),
                "Bonferroni": [p * len(p_values) for p in p_values],
            }
            for name, values in adjusted.items():
                passed = [point for point, p in zip(tested, values, strict=True) if p <= DELTA]
                best = max(passed, key=lambda point: point.let_through, default=None)
                chosen = PathPoint(None, None) if best is None else best.point
                others[name].append(truth.outcome(chosen.relevance, chosen.confidence)[0])
    means = [np.mean(coverage), np.mean(others["Holm"]), np.mean(others["Bonferroni"])]
    values = [broken / draws, oracle(truth, risk), *means]
    return [population.__name__, str(n), f"{risk:g}", *(f"{value:.3f}" for value in values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", help="a population")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    head = ["population", "n", "α", "breaks the bound", "oracle", "knowgate", "Holm", "Bonferroni"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    settings = [(p, n, a) for p in (calibrated, distorted) for n in SIZES for a in RISKS]
    settings += [(highest_wrong, n, 0.1) for n in (300, 1000)]
    settings = [one for one in settings if options.only in (None, one[0].__name__)]
    with Progress() as progress:
        for population, n, risk in progress.track(settings, description="drawing"):
            lines.append("| " + " | ".join(measure(population, n, risk, options.draws)) + " |")
    print("\n".join(lines))
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
