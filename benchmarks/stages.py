"""Where the time of a score goes: tokenising, computing and shaping, each timed apart.

    python benchmarks/stages.py SCORER [--pairs 64] [--rounds 5]

SCORER is a name or folder that `knowgate.guard.signals.relevance.load_scorer` takes, of a
bi-encoder or a cross-encoder. Printed per step: the median CPU time over the rounds, first with
texts that are new, then with ids that are kept; CPU time, since a busy machine stretches wall
time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from scoring import texts

from knowgate.guard.engine import BiEncoderScorer, CrossEncoderScorer
from knowgate.guard.signals.relevance import load_scorer


def stage_seconds(
    scorer: BiEncoderScorer | CrossEncoderScorer, pairs: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """CPU seconds of each step of scoring these pairs once."""
    found: dict[str, float] = {}

    def timed(name: str, *given: Any) -> Any:
        step: Callable[..., Any] = getattr(scorer, name)
        start = time.process_time()
        done = step(*given)
        found[name] = time.process_time() - start
        return done

    if isinstance(scorer, BiEncoderScorer):
        distinct = list(dict.fromkeys(text for pair in pairs for text in pair))
        timed("encode_post", timed("encode_core", timed("encode_pre", distinct)))
    else:
        rows = timed("encode_pre", pairs)
        timed("encode_post", timed("encode_core", rows), rows)
    return found


def main() -> None:
    """Time a scorer, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scorer")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    scorer: Any = load_scorer(given.scorer, device="cpu")
    found: dict[str, list[dict[str, float]]] = {"new": [], "kept": []}
    for number in range(given.rounds + 1):
        asked = texts(given.pairs, (8, 14), 2 * number, asked=True)
        pairs = list(zip(asked, texts(given.pairs, (15, 130), 2 * number + 1), strict=True))
        for seconds in found.values():
            seconds.append(stage_seconds(scorer, pairs))
    print("| texts | tokenise, ms | compute, ms | shape, ms |\n|---|---|---|---|")
    for name, rounds in found.items():
        # The first round warms up.
        medians = [statistics.median(one[step] for one in rounds[1:]) * 1e3 for step in rounds[0]]
        print(f"| {name} | " + " | ".join(f"{one:.2f}" for one in medians) + " |")


if __name__ == "__main__":
    main()
