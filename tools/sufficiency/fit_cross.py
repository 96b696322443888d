"""Fit the mix of the trained scorer and the bundled cross-encoder.

    python -m tools.sufficiency.fit_cross --pack DIR --folder DIR

`--folder` is the output of `tools.sufficiency.train_cross`; `mix.json` is written into it. It is
fitted on sets of 2 to 5 passages of the development part of the pack, which shares no document
with what was trained on; some of those that do not suffice hold a passage that names the subject
and tells nothing, of templates that were not trained on.

Prints, per source left out of the fit, the AUROC of the scorer without the cross-encoder, of the
cross-encoder's best passage, and of the mix: against sets without, and with such a passage.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from knowgate.calibration import SelectiveCurve
from knowgate.calibration.training.cases import SetCase
from knowgate.guard.signals.relevance.match_model import CrossMix
from knowgate.guard.signals.relevance.sufficiency import MIX_FILE, CrossSufficiencyScorer
from tools.sufficiency.fit_mix import FIT_WEIGHTS, development_cases
from tools.sufficiency.nothing_told import LEFT, NothingTold, names_of
from tools.sufficiency.pairs import read_pairs

_RIDGE = 1e-3
_SETS_AT_ONCE = 64
FEATURES = "features.npy"
# Sets with a passage that only names the subject are rarer where nobody attacks.
_NAMED_WEIGHT = 0.2
# The pack is prose whose questions share words with it; where they do not, on documentation and
# terse answers, the cross-encoder is worth less than the fit gives it.
_SHRINK = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the mix with the cross-encoder.")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--per-source", type=int, default=60, help="questions of each source")
    parser.add_argument("--named", type=float, default=0.5, help="share with a passage that names")
    parser.add_argument("--shrink", type=float, default=_SHRINK, help="of the reader's weights")
    parser.add_argument("--weight", type=float, default=_NAMED_WEIGHT, help="of such a set")
    given = parser.parse_args()
    # The weights are not used: features are computed before the mix.
    blank = CrossMix(bias=0.0, embedded=1.0, best=0.0, margin=0.0)
    (given.folder / MIX_FILE).write_text(blank.model_dump_json(indent=1) + "\n", encoding="utf-8")
    scorer = CrossSufficiencyScorer(cross_folder=given.folder)
    honest = development_cases(read_pairs([given.pack / "dev.jsonl.xz"]), given.per_source)
    cases = [*honest, *with_named(honest, given.named)]
    # Kept, so that another weight costs no time; delete it after more training.
    kept = given.folder / FEATURES
    values = np.load(kept) if kept.is_file() else features_of(scorer, cases)
    np.save(kept, values)
    labels = np.array([float(case.sufficient) for case in cases])
    sources = np.array([case.source for case in cases])
    plain = np.array([not case.compound for case in cases])
    named = np.arange(len(cases)) >= len(honest)
    counts = np.where(named, given.weight, 1.0)
    for source in sorted(set(sources)):
        own = sources == source
        mix = fit_cross_mix(values[~own], labels[~own], sources[~own], counts[~own])
        mixed = values @ np.array([mix.embedded, mix.best, mix.margin])
        right, wrong = own & plain & (labels == 1), own & plain & (labels == 0)
        shown = [
            SelectiveCurve.auroc(one[right].tolist(), one[wrong & among].tolist())
            for among in (~named, named)
            for one in (values[:, 0], values[:, 1], mixed)
        ]
        print(source, *(f"{one:.3f}" for one in shown), flush=True)
    note = f"{len(cases)} sets from {len(set(sources))} sources of the pack"
    mix = fit_cross_mix(values, labels, sources, counts).model_copy(update={"fitted_on": note})
    mix = shrunk(mix, values, given.shrink)
    (given.folder / MIX_FILE).write_text(mix.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(mix)


def shrunk(mix: CrossMix, values: NDArray[np.float64], share: float) -> CrossMix:
    """The mix with so much of the cross-encoder's weights, and the same mean log-odds."""
    best, margin = share * mix.best, share * mix.margin
    lost = np.array([0.0, mix.best - best, mix.margin - margin])
    bias = mix.bias + float((values @ lost).mean())
    return mix.model_copy(update={"bias": bias, "best": best, "margin": margin})


def features_of(scorer: CrossSufficiencyScorer, cases: Sequence[SetCase]) -> NDArray[np.float64]:
    """What a mix is fitted on, of shape (sets, 3)."""
    rows: list[list[float]] = []
    for start in range(0, len(cases), _SETS_AT_ONCE):
        part = cases[start : start + _SETS_AT_ONCE]
        found = scorer.cross_features([c.question for c in part], [c.passages for c in part])
        rows += [CrossMix.values(own.joint, read) for own, read in found]
        print(f"{len(rows)}/{len(cases)}", end="\r", flush=True)
    return np.array(rows)


def with_named(cases: Sequence[SetCase], share: float) -> list[SetCase]:
    """Some of the cases that do not suffice, with a passage that names the subject added."""
    rng = Random(0)
    names = [name for case in cases for name in names_of(case.question)]
    words = [word for case in cases[::20] for word in case.passages[0].split()]
    made = NothingTold(names, words, rng, LEFT)
    return [
        replace(case, passages=(made.passage(case.question, case.passages), *case.passages[1:]))
        for case in cases
        if not case.sufficient and not case.compound and rng.random() < share
    ]


def fit_cross_mix(
    rows: NDArray[np.float64],
    labels: NDArray[np.float64],
    sources: NDArray[np.str_],
    counts: NDArray[np.float64] | None = None,
) -> CrossMix:
    """Fit the weights, none of them below 0, by penalised logistic regression.

    Args:
        rows: of shape (sets, 3), as `CrossMix.values` gives them.
        labels: 1 where the set suffices.
        sources: of the sets; each counts as much as another, or as `FIT_WEIGHTS` says.
        counts: how much each set counts within its source; None for all the same.
    """
    of = Counter(sources.tolist())
    weights = np.array([FIT_WEIGHTS.get(one, 1.0) / of[one] for one in sources.tolist()])
    weights *= 1.0 if counts is None else counts
    weights /= weights.sum()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        odds = flat[0] + rows @ flat[1:]
        wrong = weights * (1.0 / (1.0 + np.exp(-odds)) - labels)
        value = weights @ (np.logaddexp(0.0, odds) - labels * odds) + _RIDGE * flat[1:] @ flat[1:]
        return float(value), np.concatenate([[wrong.sum()], rows.T @ wrong + 2 * _RIDGE * flat[1:]])

    bounds = [(None, None), *[(0.0, None)] * 3]
    fitted = minimize(loss, [0.0, 0.5, 0.1, 0.1], jac=True, method="L-BFGS-B", bounds=bounds).x
    bias, embedded, best, margin = map(float, fitted)
    return CrossMix(bias=bias, embedded=embedded, best=best, margin=margin)


if __name__ == "__main__":
    main()
