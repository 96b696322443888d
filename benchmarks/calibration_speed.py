"""What calibrating a three-way policy costs: 2,000 questions, 441 pairs of thresholds.

    OMP_NUM_THREADS=1 python benchmarks/calibration_speed.py

A seeded population: relevance and confidence are uniform, the context's answer is right with
probability relevance^0.3, the closed-book answer with confidence^0.3, independently. Both sides get
the same 21 × 21 thresholds, the same questions and the same promise: with confidence 1 − δ, at most
a share α of the questions that are answered is answered wrongly. CPU seconds, the least of some
rounds, and how the chosen thresholds do on 200,000 fresh questions.

- knowgate, grid declared: `knowgate.calibration.risk.fit_policy` with all pairs as its
  path, those with the larger sum first, on all questions;
- knowgate, path learned: `fit_policy` as it is, its path learned on a part of the questions;
- MAPIE, split_fixed_sequence: the order of the pairs learned on one half, tested on the other;
- MAPIE, bonferroni_holm: all pairs tested on all questions; no order to learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from overhead import machine

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import fit_policy
from knowgate.calibration.risk.risks import PathPoint
from knowgate.guard import Policy
from knowgate.guard.files import write_json

STEPS, RISK, DELTA, SEED = 21, 0.1, 0.1, 0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timed:
    """One side: CPU seconds, and the share of a fresh population that it answers."""

    name: str
    seconds: float
    thresholds: tuple[float, float] | None
    answered: float | None
    wrong: float | None


def population(n: int, seed: int) -> Floats:
    """Columns relevance, confidence, right with the context, right without."""
    rng = np.random.default_rng(seed)
    signals = rng.random((n, 2))
    right = rng.random((n, 2)) < signals**0.3
    return np.column_stack([signals, right])


def thresholds() -> Floats:
    """Of either signal; the strictest still lets some questions through, as MAPIE needs."""
    return np.linspace(0.0, 0.95, STEPS)


def outcome(drawn: Floats, relevance: float, confidence: float) -> Floats:
    """1 where the reply is right, 0 where it is wrong, NaN where there is none."""
    follow = drawn[:, 0] >= relevance
    answer = ~follow & (drawn[:, 1] >= confidence)
    right = np.where(follow, drawn[:, 2], drawn[:, 3])
    return np.where(follow | answer, right, np.nan)


def least(job: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the fastest round."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        job()
        taken.append(time.process_time() - started)
    return min(taken)


def timed(name: str, job: Callable[[], tuple[float, float] | None], rounds: int) -> Timed:
    """A side's time, and how it does on 200,000 fresh questions."""
    chosen = job()
    seconds = least(job, rounds)
    if chosen is None:
        return Timed(name, seconds, None, None, None)
    found = outcome(population(200_000, SEED + 1), *chosen)
    given = ~np.isnan(found)
    return Timed(name, seconds, chosen, float(given.mean()), float(1 - found[given].mean()))


def chosen_by(policy: Policy) -> tuple[float, float] | None:
    """Thresholds of a policy as `outcome` takes them; never reached where there is none."""
    if policy.relevance_threshold is None and policy.confidence_threshold is None:
        return None
    values = (policy.relevance_threshold, policy.confidence_threshold)
    relevance, confidence = (2.0 if value is None else value for value in values)
    return relevance, confidence


def ours(drawn: Floats, *, declared: bool) -> Callable[[], tuple[float, float] | None]:
    """`fit_policy` on these questions."""
    records = [
        CalibrationRecord(
            question_id=str(at),
            relevance=float(relevance),
            confidence=float(confidence),
            context_right=bool(with_context),
            closed_book_right=bool(without),
        )
        for at, (relevance, confidence, with_context, without) in enumerate(drawn)
    ]
    ends = thresholds().tolist()

    def job() -> tuple[float, float] | None:
        path = PathPoint.grid(ends, ends) if declared else None
        return chosen_by(fit_policy(records, risk=RISK, delta=DELTA, path=path).policy)

    return job


def mapie(drawn: Floats, method: str) -> Callable[[], tuple[float, float] | None]:
    """MAPIE's controller on the same questions and thresholds."""
    from mapie.risk_control import BinaryClassificationController, BinaryRisk, abstention_rate

    # The outcome itself is what is predicted, and every label says "right".
    wrong = BinaryRisk(
        risk_occurrence=lambda _, found: found == 0,
        risk_condition=lambda _, found: ~np.isnan(found),
        higher_is_better=False,
    )
    ends = thresholds()
    labels = np.ones(len(drawn), dtype=int)
    half = len(drawn) // 2 if method == "split_fixed_sequence" else 0

    def job() -> tuple[float, float] | None:
        controller = BinaryClassificationController(
            outcome,
            wrong,
            target_level=RISK,
            confidence_level=1 - DELTA,
            best_predict_param_choice=abstention_rate,
            list_predict_params=np.asarray([(r, c) for r in ends for c in ends]),
            fwer_method=method,
        )
        if half:
            controller.learn_fixed_sequence_order(drawn[:half], labels[:half])
        controller.calibrate(drawn[half:], labels[half:])
        found = controller.best_predict_param
        return None if found is None else (float(found[0]), float(found[1]))

    return job


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    if given.questions < 2 or given.rounds < 1:
        parser.error("--questions must be at least 2 and --rounds at least 1")
    drawn = population(given.questions, SEED)
    jobs = {
        "knowgate, grid declared": ours(drawn, declared=True),
        "knowgate, path learned": ours(drawn, declared=False),
        "MAPIE, split_fixed_sequence": mapie(drawn, "split_fixed_sequence"),
        "MAPIE, bonferroni_holm": mapie(drawn, "bonferroni_holm"),
    }
    print(f"{machine()}\n{given.questions} questions, {STEPS**2} pairs, α {RISK}, δ {DELTA}\n")
    found = []
    for name, job in jobs.items():
        one = timed(name, job, given.rounds)
        found.append(one)
        answers = "nothing certified"
        if one.answered is not None:
            answers = f"answers {one.answered:.3f}, wrong {one.wrong:.4f}"
        print(f"{name:<30}{one.seconds:8.4f} s   {answers}", flush=True)
    seconds = {one.name: one.seconds for one in found}
    peer = seconds["MAPIE, split_fixed_sequence"] / seconds["knowgate, path learned"]
    holm = seconds["MAPIE, bonferroni_holm"] / seconds["knowgate, grid declared"]
    print(f"\nMAPIE / knowgate: order learned {peer:.1f}×, no order learned {holm:.2f}×")
    if given.json is not None:
        write_json(
            given.json,
            {"sides": [asdict(one) for one in found], "learned_ratio": peer, "grid_ratio": holm},
        )


if __name__ == "__main__":
    main()
