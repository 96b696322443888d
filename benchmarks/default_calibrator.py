"""Fit the embedded scorer's default calibrator; prints the two numbers of `_registry.py`.

    python benchmarks/default_calibrator.py --data ../shared/data/sufficiency_pack/dev.jsonl.xz

The calibrator only serves until one is fitted on the user's own questions.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from pathlib import Path

from knowgate.calibration.calibrators import fit_platt
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.routing import PlattCalibrator

PAIRS = 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="JSON lines, xz-packed")
    path = parser.parse_args().data
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    rows = [row for row in rows if row["lang"] == "en"]
    random.Random(0).shuffle(rows)
    rows = rows[:PAIRS]
    scorer = BiEncoderScorer(cache_bytes=0)
    scores = scorer.score_pairs([(row["question"], row["passage"]) for row in rows])
    positives = [s for s, row in zip(scores.tolist(), rows, strict=True) if row["label"] == 1]
    negatives = [s for s, row in zip(scores.tolist(), rows, strict=True) if row["label"] == 0]
    found = fit_platt(positives, negatives)
    if not isinstance(found, PlattCalibrator):
        raise SystemExit("the scores do not rise with the label")
    sources = len({row["source"] for row in rows})
    print(f"{len(rows)} pairs from {sources} sources: a = {found.a:.3f}, b = {found.b:.3f}")


if __name__ == "__main__":
    main()
