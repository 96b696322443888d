"""Fit the mix of the trained scorer and the bundled cross-encoder.

    python -m tools.sufficiency.fit_cross --pack DIR --folder DIR

`--folder` is the output of `tools.sufficiency.train_cross`; `mix.json` is written into it. It is
fitted on sets of 2 to 5 passages of the development part of the pack, which shares no document
with what was trained on. Prints, per source left out of the fit, the AUROC without and with the
cross-encoder.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from knowgate.calibration import SelectiveCurve
from knowgate.guard.signals.relevance.match_model import CrossMix
from knowgate.guard.signals.relevance.sufficiency import MIX_FILE, CrossSufficiencyScorer
from tools.sufficiency.fit_mix import FIT_WEIGHTS, development_cases
from tools.sufficiency.pairs import read_pairs

_RIDGE = 1e-3
_SETS_AT_ONCE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the mix with the cross-encoder.")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--per-source", type=int, default=60, help="questions of each source")
    given = parser.parse_args()
    # The weights are not used: features are computed before the mix.
    blank = CrossMix(bias=0.0, embedded=1.0, best=0.0)
    (given.folder / MIX_FILE).write_text(blank.model_dump_json(indent=1) + "\n", encoding="utf-8")
    scorer = CrossSufficiencyScorer(cross_folder=given.folder)
    cases = development_cases(read_pairs([given.pack / "dev.jsonl.xz"]), given.per_source)
    found: list[tuple[float, list[float]]] = []
    for start in range(0, len(cases), _SETS_AT_ONCE):
        part = cases[start : start + _SETS_AT_ONCE]
        found += scorer.cross_features([c.question for c in part], [c.passages for c in part])
        print(f"{len(found)}/{len(cases)}", end="\r", flush=True)
    labels = np.array([float(case.sufficient) for case in cases])
    sources = np.array([case.source for case in cases])
    plain = np.array([not case.compound for case in cases])
    rows = np.array([[embedded, max(read)] for embedded, read in found])
    for source in sorted(set(sources)):
        own = sources == source
        mix = fit_cross_mix(rows[~own], labels[~own], sources[~own])
        mixed = np.array([mix.joint(*found[place]) for place in range(len(found))])
        before, after = (
            SelectiveCurve.auroc(
                values[own & plain & (labels == 1)].tolist(),
                values[own & plain & (labels == 0)].tolist(),
            )
            for values in (rows[:, 0], mixed)
        )
        print(f"{source}: {before:.3f} -> {after:.3f}", flush=True)
    note = f"{len(cases)} sets from {len(set(sources))} sources of the pack"
    mix = fit_cross_mix(rows, labels, sources).model_copy(update={"fitted_on": note})
    (given.folder / MIX_FILE).write_text(mix.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(mix)


def fit_cross_mix(
    rows: NDArray[np.float64], labels: NDArray[np.float64], sources: NDArray[np.str_]
) -> CrossMix:
    """Fit the weights, none of them below 0, by penalised logistic regression.

    Args:
        rows: of shape (sets, 2): joint log-odds of the trained scorer, and the best of those of
            the cross-encoder.
        labels: 1 where the set suffices.
        sources: of the sets; each counts as much as another, or as `FIT_WEIGHTS` says.
    """
    counts = Counter(sources.tolist())
    weights = np.array([FIT_WEIGHTS.get(one, 1.0) / counts[one] for one in sources.tolist()])
    weights /= weights.sum()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        odds = flat[0] + rows @ flat[1:]
        wrong = weights * (1.0 / (1.0 + np.exp(-odds)) - labels)
        value = weights @ (np.logaddexp(0.0, odds) - labels * odds) + _RIDGE * flat[1:] @ flat[1:]
        return float(value), np.concatenate([[wrong.sum()], rows.T @ wrong + 2 * _RIDGE * flat[1:]])

    bounds = [(None, None), (0.0, None), (0.0, None)]
    fitted = minimize(loss, [0.0, 0.5, 0.1], jac=True, method="L-BFGS-B", bounds=bounds).x
    bias, embedded, best = map(float, fitted)
    return CrossMix(bias=bias, embedded=embedded, best=best)


if __name__ == "__main__":
    main()
