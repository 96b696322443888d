"""How well `SameMeaning` tells equal answers from different ones; chooses its threshold.

    python benchmarks/same_meaning.py --data ../shared/data --json same_meaning.json

Equal: two aliases of one answer in NQ-open. Many of these lists hold different right
answers ("red", "white"), so the share found equal is a lower bound. Different: answers
to other questions of the same kind (who, when, where, how many, other), one at random
and the one of ten with the closest embedding; answer and false answer of RGB; memory
and counter answer of ConflictQA. The threshold is chosen on the first NQ-open file and
reported on the second.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.conflict.meaning_rules import Rule

Pair = tuple[str, str]
MOST_FALSE = 0.01
THRESHOLDS = [round(0.5 + 0.05 * step, 2) for step in range(10)]


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def kind(question: str) -> str:
    for name in ("how many", "how much", "how old", "how long", "who", "when", "where"):
        if name in question.casefold():
            return name
    return "other"


def nq_pairs(path: Path, encoder: BiEncoderScorer) -> dict[str, list[Pair]]:
    rng = random.Random(0)
    rows = lines(path)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_kind.setdefault(kind(row["question"]), []).append(row)
    pairs: dict[str, list[Pair]] = {"aliases": [], "random": [], "closest of ten": []}
    for row in rows:
        aliases = list(dict.fromkeys(row["answer"]))
        if len(aliases) > 1:
            first, second = rng.sample(aliases, 2)
            pairs["aliases"].append((first, second))
        others = [r for r in by_kind[kind(row["question"])] if r is not row]
        others = rng.sample(others, min(10, len(others)))
        answers = [rng.choice(other["answer"]) for other in others]
        near = encoder.score(aliases[0], answers)
        pairs["random"].append((aliases[0], answers[0]))
        pairs["closest of ten"].append((aliases[0], answers[int(near.argmax())]))
    return pairs


def verdicts(pairs: Sequence[Pair], encoder: BiEncoderScorer) -> tuple[list[Rule], np.ndarray]:
    rules = [Rule.between(first, second) for first, second in pairs]
    return rules, encoder.score_pairs(pairs)


def latin(first: str, second: str) -> bool:
    return all(not character.isalpha() or ord(character) < 0x250 for character in first + second)


def shares(pairs: Sequence[Pair], threshold: float, encoder: BiEncoderScorer) -> dict[str, Any]:
    """Share of `pairs` judged the same: by rules, with the embedding, by embedding alone."""
    rules, cosines = verdicts(pairs, encoder)
    same = np.array([rule is Rule.SAME for rule in rules])
    # As `SameMeaning("bi_encoder")` does, whose model reads English only.
    left_open = np.array(
        [rule is Rule.OPEN and latin(*pair) for rule, pair in zip(rules, pairs, strict=True)]
    )
    both = same | (left_open & (cosines >= threshold))
    return {
        "pairs": len(pairs),
        "rules": round(float(same.mean()), 4),
        "rules_and_embedding": round(float(both.mean()), 4),
        "embedding_alone": round(float((cosines >= threshold).mean()), 4),
        "decided_by_rule": round(float(np.mean([rule is not Rule.OPEN for rule in rules])), 4),
    }


def chosen(pairs: dict[str, list[Pair]], encoder: BiEncoderScorer) -> float:
    """The lowest threshold at which at most `MOST_FALSE` of the close pairs become the same."""
    rules, cosines = verdicts(pairs["closest of ten"], encoder)
    left_open = np.array([rule is Rule.OPEN for rule in rules])
    for threshold in THRESHOLDS:
        if float((left_open & (cosines >= threshold)).mean()) <= MOST_FALSE:
            return threshold
    return THRESHOLDS[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of public data")
    parser.add_argument("--json", type=Path, help="where the numbers go too")
    given = parser.parse_args()
    encoder = BiEncoderScorer(cache_bytes=400 * 2**20)
    nq = given.data / "nq_open"
    dev = nq_pairs(nq / "NQ-open.dev.jsonl", encoder)
    threshold = chosen(dev, encoder)
    test = nq_pairs(nq / "NQ-open.efficientqa.dev.1.1.jsonl", encoder)
    sets = {f"NQ-open dev, {name}": pairs for name, pairs in dev.items()}
    sets |= {f"EfficientQA dev, {name}": pairs for name, pairs in test.items()}
    for language in ("en", "zh"):
        rows = lines(given.data / "rgb" / f"{language}_fact.first_half.jsonl")
        sets[f"RGB {language}, answer and false answer"] = [
            (str(row["answer"]), str(row["fakeanswer"])) for row in rows
        ]
    for path in sorted((given.data / "conflictqa").glob("*.jsonl")):
        sets[f"ConflictQA {path.stem}, memory and counter answer"] = [
            (row["memory_answer"], row["counter_answer"]) for row in lines(path)
        ]
    found = {name: shares(pairs, threshold, encoder) for name, pairs in sets.items()}
    along = {
        str(t): {
            name: shares(pairs, t, encoder)["rules_and_embedding"] for name, pairs in test.items()
        }
        for t in THRESHOLDS
    }
    print(f"threshold {threshold}")
    for name, row in found.items():
        print(f"{name}: {row}")
    for name, at in along.items():
        print(f"EfficientQA dev at {name}: {at}")
    if given.json is not None:
        text = json.dumps(
            {"threshold": threshold, "judged_the_same": found, "along_the_threshold": along},
            indent=2,
        )
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
