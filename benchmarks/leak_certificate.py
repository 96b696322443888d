"""Which test of the leak keeps its promise with several questions per passage, and which is sharp?

    python benchmarks/leak_certificate.py [--draws 1000] [--markdown OUT.md]

Scores of left-out questions are drawn with a correlation from 0 to 1 within a passage; four
questions a passage. Compared are five tests of "at most α pass", at δ = .1:

- one per passage: the exact binomial tail, of one question per passage
- all, averaged: the product's test, which averages that one over all ways of drawing
- p-values doubled: twice the mean of that tail over all ways of drawing
- bounded means: Hoeffding and Bentkus' bound on the mean of the passages' shares
- each question: the binomial tail of all questions, as if they were independent
- conformal: the hierarchical conformal bound, which promises the mean pass rate alone

Printed first: how often the chosen threshold lets more than α pass. Then, with the scores of
answerable questions two standard deviations higher (AUROC .92), the share of these that is
abstained from, at 30 to 300 questions on a quarter as many passages; also where half of the
passages is set aside, as an earlier version did.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, rel_entr

from knowgate.calibration.risk import LeakPlan

Floats = NDArray[np.float64]
Certified = Callable[[Floats], NDArray[np.bool_]]
DELTA, SHIFT, PER_PASSAGE = 0.1, 2.0, 4
CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
BREAKS = ((8, 0.3), (15, 0.2), (30, 0.1), (30, 0.2), (75, 0.1), (75, 0.2))
POWER = ((30, 0.3), (60, 0.2), (120, 0.1), (120, 0.2), (300, 0.1), (300, 0.2))


def binomial(passages: int, alpha: float) -> Certified:
    return lambda shares: bdtr(np.rint(shares.sum(axis=1)), passages, alpha) <= DELTA


def each_question(passages: int, alpha: float) -> Certified:
    n = PER_PASSAGE * passages
    return lambda shares: bdtr(np.rint(PER_PASSAGE * shares.sum(axis=1)), n, alpha) <= DELTA


def bounded_means(passages: int, alpha: float) -> Certified:
    def certified(shares: Floats) -> NDArray[np.bool_]:
        total = shares.sum(axis=1)
        mean = np.minimum(total / passages, alpha)
        entropy = rel_entr(mean, alpha) + rel_entr(1 - mean, 1 - alpha)
        bentkus = np.e * bdtr(np.minimum(passages, np.ceil(total - 1e-9)), passages, alpha)
        return np.asarray(np.minimum(bentkus, np.exp(-passages * entropy)) <= DELTA)

    return certified


def doubled_p_values(passages: int, alpha: float) -> Certified:
    tails = bdtr(np.arange(passages + 1), passages, alpha)
    most = int(np.searchsorted(tails, 1 - 1e-9)) + 1

    def certified(shares: Floats) -> NDArray[np.bool_]:
        chances = np.zeros((len(shares), most))
        chances[:, 0] = 1.0
        for share in shares.T[:, :, None]:
            passed = chances[:, :-1] * share
            chances *= 1.0 - share
            chances[:, 1:] += passed
        mean = chances @ tails[:most] + (1.0 - chances.sum(axis=1))
        return np.asarray(2.0 * mean <= DELTA)

    return certified


def conformal(passages: int, alpha: float) -> Certified:
    return lambda shares: (shares.sum(axis=1) + 1.0) / (passages + 1) <= alpha


METHODS: dict[str, Callable[[int, float], Certified] | None] = {
    "one per passage": binomial,
    "all, averaged": None,
    "p-values doubled": doubled_p_values,
    "bounded means": bounded_means,
    "each question": each_question,
    "conformal": conformal,
}


def thresholds(name: str, passages: int, alpha: float, rho: float, draws: int) -> Floats:
    """The laxest certified threshold of each draw, infinite where there is none."""
    size = 1 if name == "one per passage" else PER_PASSAGE
    make = METHODS[name]
    certified = None if make is None else make(passages, alpha)
    return LeakPlan.simulate(
        [size] * passages, alpha, delta=DELTA, correlation=rho, draws=draws, certified=certified
    )


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def breaks(draws: int) -> list[str]:
    rows = []
    for passages, alpha in BREAKS:
        for rho in CORRELATIONS:
            shares = []
            for name in METHODS:
                found = thresholds(name, passages, alpha, rho, draws)
                shares.append(float((ndtr(-found) > alpha).mean()))
            rows.append([str(passages), f"{alpha:g}", f"{rho:g}", *(f"{s:.3f}" for s in shares)])
    return table(["passages", "α", "correlation", *METHODS], rows)


def power(draws: int) -> list[str]:
    rows = []
    valid = ["one per passage", "all, averaged", "p-values doubled", "bounded means"]
    for questions, alpha in POWER:
        passages = -(-questions // PER_PASSAGE)
        for rho in CORRELATIONS:
            found = [thresholds(name, passages, alpha, rho, draws) for name in valid]
            half = thresholds("one per passage", passages // 2, alpha, rho, draws)
            shares = [float(ndtr(t - SHIFT).mean()) for t in (half, *found)]
            head = [str(questions), str(passages), f"{alpha:g}", f"{rho:g}"]
            rows.append([*head, *(f"{share:.3f}" for share in shares)])
    head = ["questions", "passages", "α", "correlation", "one per passage, half set aside", *valid]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    text = "\n".join(
        [
            f"Share of {options.draws} calibrations that let more than α pass (δ = {DELTA:g}):",
            "",
            *breaks(options.draws),
            "",
            "Mean false abstention at AUROC .92 (1 where nothing is certified):",
            "",
            *power(options.draws),
            "",
        ]
    )
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
