"""Does the promise of a leak hold when a person reviews the leaks, highest relevance first?

    python benchmarks/leak_review.py [--draws 1000] [--markdown OUT.md]

Of left-out questions, some are answered by another passage. Their relevance is drawn two standard
deviations above that of the others (`high`), or for one half of them like that of the others
(`mixed`). A person reviews the cases of the highest relevance. What is found answered leaves the
test; everything else counts as a leak where it passes. Each calibration is `fit_policy` at
α = .1 and δ = .1.

Printed is how often the promise breaks, which is about left-out questions without those that pass
and are answered: more than α of them pass. With a reviewer who errs, each wrong "answered" hides a
leak, and each wrong "not answered" adds one; a lenient one errs towards "answered" alone. So the
table also tells how often the share is above α / (1 − ε), and above α + ε. The last
columns are the mean share of answerable questions that are abstained from, and how often more
than α of the questions pass that nothing answers at all. That is not promised: where others are
answered and do not pass (`mixed`), the promise counts those, too.

`in steps` reviews five more cases at a time, calibrates each time and keeps the laxest threshold.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.guard.decision import Route

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ALPHA, DELTA, SHIFT = 0.1, 0.1, 2.0
QUESTIONS, STEP = 120, 5


@dataclass(frozen=True)
class World:
    """Left-out questions of which some are answered by another passage."""

    elsewhere: float
    mixed: bool

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Bools]:
        """Relevance of left-out questions, and whether another passage answers each."""
        answered = rng.random(QUESTIONS) < self.elsewhere
        high = answered & (rng.random(QUESTIONS) < (0.5 if self.mixed else 1.0))
        return rng.standard_normal(QUESTIONS) + SHIFT * high, answered

    def risk(self, threshold: float) -> float:
        """Share that passes of left-out questions without those that pass and are answered."""
        leaks = (1 - self.elsewhere) * self.unanswered(threshold)
        near = ndtr(-threshold) if self.mixed else ndtr(SHIFT - threshold)
        rightly = self.elsewhere * (ndtr(SHIFT - threshold) + near) / 2
        return float(leaks / (1 - rightly))

    @staticmethod
    def unanswered(threshold: float) -> float:
        """Share that passes of the questions that nothing answers."""
        return float(ndtr(-threshold))


@dataclass(frozen=True)
class Reviewer:
    """Reviews so many cases of the highest relevance, and errs.

    Args:
        cases: to review.
        error: share of verdicts that are wrong.
        lenient: only "answered" is wrongly said, of this share of unanswered cases.
        steps: calibrate after every few cases, and keep the laxest threshold.
    """

    cases: int
    error: float = 0.0
    lenient: bool = False
    steps: bool = False

    @property
    def name(self) -> str:
        return f"{'in steps, ' if self.steps else ''}{self.cases or 'none'}"

    @property
    def errs(self) -> str:
        return f"{self.error:.0%}{', lenient' if self.lenient else ''}"

    def threshold(self, scores: Floats, answered: Bools, rng: np.random.Generator) -> float:
        """The raw threshold that is certified; infinite where nothing is."""
        wrong = rng.random(len(scores)) < self.error
        said = (answered | wrong) if self.lenient else (answered ^ wrong)
        order = np.argsort(-scores, kind="stable")
        counts = range(0, self.cases + 1, STEP) if self.steps else [self.cases]
        found = []
        for count in counts:
            elsewhere = np.zeros(len(scores), dtype=bool)
            elsewhere[order[:count]] = said[order[:count]]
            found.append(certified(scores, elsewhere))
        return min(found)


def certified(scores: Floats, elsewhere: Bools) -> float:
    """The raw threshold of the policy that is fitted; infinite where nothing is certified."""
    records = [
        CalibrationRecord(
            str(at), score, None, bool(found), None,
            case=CalibrationRecord.ELSEWHERE if found else "left_out",
        )
        for at, (score, found) in enumerate(zip(scores.tolist(), elsewhere.tolist(), strict=True))
    ]  # fmt: skip
    # The answerable ones place the threshold within a gap, and no more.
    records.append(CalibrationRecord("in_kb", SHIFT, None, True, None, case="in_kb"))
    policy = fit_policy(records, Leak(ALPHA), delta=DELTA).policy
    low, high = -10.0, 10.0
    if policy.route(policy.relevance_calibrator.apply(high), None) is not Route.FOLLOW_CONTEXT:
        return float("inf")
    for _ in range(40):
        middle = (low + high) / 2
        passes = policy.route(policy.relevance_calibrator.apply(middle), None)
        low, high = (low, middle) if passes is Route.FOLLOW_CONTEXT else (middle, high)
    return high


@dataclass(frozen=True)
class Broken:
    """How often shares are above their bounds, over many calibrations.

    Attributes:
        alpha: the promise: more than α.
        by_error: more than α / (1 − ε).
        with_error: more than α + ε.
        unanswered: more than α of the questions that nothing answers.
        false_abstention: mean share of answerable questions below the threshold.
    """

    alpha: float
    by_error: float
    with_error: float
    unanswered: float
    false_abstention: float


def broken(world: World, reviewer: Reviewer, draws: int, seed: int = 0) -> Broken:
    """Calibrate many times, each on questions of its own."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        scores, answered = world.draw(rng)
        found.append(reviewer.threshold(scores, answered, rng))
    risks = np.asarray([world.risk(one) for one in found])
    return Broken(
        alpha=float((risks > ALPHA).mean()),
        by_error=float((risks > ALPHA / (1 - reviewer.error)).mean()),
        with_error=float((risks > ALPHA + reviewer.error).mean()),
        unanswered=float(np.mean([world.unanswered(one) > ALPHA for one in found])),
        false_abstention=float(ndtr(np.asarray(found) - SHIFT).mean()),
    )


WORLDS = (World(0.1, False), World(0.2, False), World(0.2, True), World(0.4, True))
REVIEWERS = (
    Reviewer(0),
    Reviewer(15),
    Reviewer(40),
    Reviewer(QUESTIONS),
    Reviewer(40, steps=True),
    Reviewer(40, 0.05),
    Reviewer(40, 0.05, lenient=True),
    Reviewer(40, 0.2, lenient=True),
)


def table(draws: int, worlds: Sequence[World] = WORLDS) -> list[str]:
    head = (
        "answered elsewhere", "their relevance", "reviewed", "errs (ε)", "above α",
        "above α / (1 − ε)", "above α + ε", "abstains", "of unanswered above α",
    )  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for world in worlds:
        for reviewer in REVIEWERS:
            found = broken(world, reviewer, draws)
            cells = (
                f"{world.elsewhere:.0%}", "mixed" if world.mixed else "high", reviewer.name,
                reviewer.errs, f"{found.alpha:.3f}", f"{found.by_error:.3f}",
                f"{found.with_error:.3f}", f"{found.false_abstention:.3f}",
                f"{found.unanswered:.3f}",
            )  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    lines = [
        f"{options.draws} calibrations each on {QUESTIONS} left-out questions, one per passage, "
        f"α = {ALPHA:g}, δ = {DELTA:g}:",
        "",
        *table(options.draws),
        "",
    ]
    print("\n".join(lines))
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
