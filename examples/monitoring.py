"""Watching a guard in service: `python examples/monitoring.py`, offline and in a second.

Scorer and questions are made up. In production the policy comes from calibration, with its
histograms, the guard from `Guard.load`, and the feedback from your users or annotators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from knowgate.calibration.monitoring import DecisionMonitor, calibration_histograms
from knowgate.guard import Guard, Policy
from knowgate.guard.testing import FakeScorer


@dataclass(frozen=True)
class Question:
    """The signals of one calibration question."""

    relevance: float
    confidence: None = None
    conflict: None = None


def main() -> DecisionMonitor:
    """Serve a quiet week, then one in which the knowledge base no longer has the answers."""
    rng = np.random.default_rng(0)
    levels = [level / 10 for level in range(10)]
    scorer = FakeScorer({f"level {level}": level for level in levels})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    calibration = [Question(float(rng.choice(levels))) for _ in range(500)]
    histograms = calibration_histograms(policy, calibration)
    policy = policy.model_copy(update={"histograms": histograms})

    registry = CollectorRegistry()
    monitor = DecisionMonitor(policy, window=500, risk=0.1, registry=registry)
    guard = Guard(policy, scorer=scorer, observers=[monitor], metrics=False)
    for week, (highest, errors) in {"quiet": (9, 0.05), "changed": (5, 0.3)}.items():
        for _ in range(1000):
            decision = guard.decide("When?", [f"level {rng.choice(levels[: highest + 1])}"])
            if decision.route != "abstain" and rng.random() < 0.3:  # three of ten are labelled
                monitor.feedback(decision.route, right=bool(rng.random() > errors))
        report = monitor.report()
        print(f"-- {week} week: {', '.join(report.alarms) or 'no alarm'}\n{report.words}")
    lines = generate_latest(registry).decode().splitlines()
    print("\n".join(line for line in lines if line.startswith("knowgate_alarm{")))
    return monitor


if __name__ == "__main__":
    main()
