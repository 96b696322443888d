"""Which test of the leak keeps its promise with several questions per passage, and which is sharp?

    python benchmarks/leak_certificate.py [--draws 1000] [--markdown OUT.md]

Scores of left-out questions are drawn with a correlation from 0 to 1 within a passage. Compared
are tests of "at most α pass", at δ = .1:

- one per passage: the exact binomial tail, of one question per passage
- shares: the product's test, of the share of each passage's questions that pass
- averaged bets: the former test, which bets on one question per passage twice, all or nothing,
  and averages what that pays over all ways of drawing
- p-values doubled: twice the mean of the binomial tail over all ways of drawing
- bounded means: Hoeffding and Bentkus' bound on the mean of the passages' shares
- each question: the binomial tail of all questions, as if they were independent
- conformal: the hierarchical conformal bound, which promises the mean pass rate alone

Printed first: how often the chosen threshold lets more than α pass. Then, of the product's test
and the former one, how often a threshold at which α/2 pass is certified, and the mean share of
answerable questions that pass, with scores two standard deviations higher (AUROC .92).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, rel_entr

from knowgate.calibration.risk.plan import LeakPlan

Floats = NDArray[np.float64]
Certified = Callable[[Floats], NDArray[np.bool_]]
DELTA, SHIFT = 0.1, 2.0
CORRELATIONS = (0.0, 0.3, 0.7, 1.0)
BREAKS = ((8, 0.3), (15, 0.2), (30, 0.1), (30, 0.2), (75, 0.1), (75, 0.2))
POWER = [(n, a) for n in (20, 30, 50, 100) for a in (0.1, 0.2, 0.3) if (n, a) != (20, 0.1)]


def binomial(passages: int, alpha: float, size: int) -> Certified:
    return lambda shares: bdtr(np.rint(shares.sum(axis=1)), passages, alpha) <= DELTA


def each_question(passages: int, alpha: float, size: int) -> Certified:
    n = size * passages
    return lambda shares: bdtr(np.rint(size * shares.sum(axis=1)), n, alpha) <= DELTA


def averaged(shares: Floats, payoffs: Floats) -> Floats:
    """Mean payoff over all ways of drawing one question per passage, by the errors drawn."""
    chances = np.zeros((len(shares), len(payoffs)))
    chances[:, 0] = 1.0
    for share in shares.T[:, :, None]:
        passed = chances[:, :-1] * share
        chances *= 1.0 - share
        chances[:, 1:] += passed
    return np.asarray(chances @ payoffs + (1.0 - chances.sum(axis=1)) * payoffs[-1])


def averaged_bets(passages: int, alpha: float, size: int) -> Certified:
    tails = bdtr(np.arange(passages + 1), passages, alpha)
    main, side = (max(0, int((tails <= share * DELTA).sum()) - 1) for share in (0.8, 0.2))
    weight = min(1.0, tails[main] / DELTA)
    payoffs = np.zeros(main + 2)
    payoffs[: main + 1] = weight / tails[main]
    payoffs[: side + 1] += (1.0 - weight) / tails[side]
    return lambda shares: averaged(shares, payoffs) * (1.0 + 1e-9) >= 1.0 / DELTA


def bounded_means(passages: int, alpha: float, size: int) -> Certified:
    def certified(shares: Floats) -> NDArray[np.bool_]:
        total = shares.sum(axis=1)
        mean = np.minimum(total / passages, alpha)
        entropy = rel_entr(mean, alpha) + rel_entr(1 - mean, 1 - alpha)
        bentkus = np.e * bdtr(np.minimum(passages, np.ceil(total - 1e-9)), passages, alpha)
        return np.asarray(np.minimum(bentkus, np.exp(-passages * entropy)) <= DELTA)

    return certified


def doubled_p_values(passages: int, alpha: float, size: int) -> Certified:
    tails = bdtr(np.arange(passages + 1), passages, alpha)
    most = int(np.searchsorted(tails, 1 - 1e-9)) + 1
    return lambda shares: 2.0 * averaged(shares, np.append(tails[:most], 1.0)) <= DELTA


def conformal(passages: int, alpha: float, size: int) -> Certified:
    return lambda shares: (shares.sum(axis=1) + 1.0) / (passages + 1) <= alpha


METHODS: dict[str, Callable[[int, float, int], Certified] | None] = {
    "one per passage": binomial,
    "shares": None,
    "averaged bets": averaged_bets,
    "p-values doubled": doubled_p_values,
    "bounded means": bounded_means,
    "each question": each_question,
    "conformal": conformal,
}


def thresholds(name: str, passages: int, alpha: float, size: int, rho: float, draws: int) -> Floats:
    """The laxest certified threshold of each draw, infinite where there is none."""
    size = 1 if name == "one per passage" else size
    make = METHODS[name]
    certified = None if make is None else make(passages, alpha, size)
    return LeakPlan.simulate(
        [size] * passages, alpha, delta=DELTA, correlation=rho, draws=draws, certified=certified
    )


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def breaks(draws: int) -> list[str]:
    rows = []
    for passages, alpha in BREAKS:
        for size in (2, 4):
            for rho in CORRELATIONS:
                shares = []
                for name in METHODS:
                    found = thresholds(name, passages, alpha, size, rho, draws)
                    shares.append(float((ndtr(-found) > alpha).mean()))
                head = [str(passages), str(size), f"{alpha:g}", f"{rho:g}"]
                rows.append([*head, *(f"{s:.3f}" for s in shares)])
    return table(["passages", "questions each", "α", "correlation", *METHODS], rows)


def power(draws: int, measured: Callable[[Floats, float], float]) -> list[str]:
    rows = []
    for passages, alpha in POWER:
        one = measured(thresholds("one per passage", passages, alpha, 1, 0.0, draws), alpha)
        for size in (2, 3, 6):
            row = [str(passages), f"{alpha:g}", str(size), f"{one:.3f}"]
            for rho in CORRELATIONS:
                new, former = (
                    measured(thresholds(name, passages, alpha, size, rho, draws), alpha)
                    for name in ("shares", "averaged bets")
                )
                row.append(f"{new:.3f} / {former:.3f}")
            rows.append(row)
    head = ["passages", "α", "questions each", "one per passage"]
    return table([*head, *(f"correlation {rho:g}" for rho in CORRELATIONS)], rows)


def certified_at_half(found: Floats, alpha: float) -> float:
    return float((ndtr(-found) >= alpha / 2).mean())


def passing(found: Floats, _: float) -> float:
    return float(ndtr(SHIFT - found).mean())


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
            "Share that certify a threshold at which α/2 pass, shares / averaged bets:",
            "",
            *power(options.draws, certified_at_half),
            "",
            "Mean share of answerable questions that pass at AUROC .92, shares / averaged bets:",
            "",
            *power(options.draws, passing),
            "",
        ]
    )
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
