"""Find for each question the passages of its site that the current scorer places highest.

    python -m tools.sufficiency.mine --faq DIR --out FILE

The file keeps, per question, the nearest passages that are not its answer (rivals); the
embeddings of all passages are kept beside it. `tools.sufficiency.train_cross` reads both. It takes
five minutes of a core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from knowgate.calibration.training.cases import TrainingQuestion
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer
from tools.sufficiency.cross_pairs import SITES
from tools.sufficiency.pairs import rule_questions, site_questions

_RIVALS = 16
_SHORTLIST = 40
_MOST_RULES = 400


def main() -> None:
    parser = argparse.ArgumentParser(description="Find hard negatives with the current scorer.")
    parser.add_argument("--faq", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rules", type=int, default=_MOST_RULES)
    arguments = parser.parse_args()
    scorer = SufficiencyScorer(cache_bytes=3 * 2**30)
    questions = site_questions(arguments.faq, SITES)
    pools: dict[str, list[str]] = {}
    for one in questions:
        pools.setdefault(one.topic, []).append(one.passage)
    rules, rule_pools = rule_questions(arguments.faq)
    rng = np.random.default_rng(0)
    rules = [rules[i] for i in rng.permutation(len(rules))[: arguments.rules]]
    kept = {topic: _sampled(pool, rules, topic, rng) for topic, pool in rule_pools.items()}
    pools.update(kept)
    _write(scorer, [*questions, *rules], pools, arguments.out)


def _sampled(
    pool: Sequence[str], rules: Sequence[TrainingQuestion], topic: str, rng: np.random.Generator
) -> list[str]:
    """The gold passages of a document and at most 25 others."""
    gold = list(dict.fromkeys(one.passage for one in rules if one.topic == topic))
    others = [text for text in pool if text not in set(gold)]
    places = rng.permutation(len(others))[:25].tolist() if gold else []
    return gold + [others[i] for i in places]


def _write(
    scorer: SufficiencyScorer,
    questions: Sequence[TrainingQuestion],
    pools: dict[str, list[str]],
    out: Path,
) -> None:
    encoder = scorer.encoder
    texts = list(dict.fromkeys(text for pool in pools.values() for text in pool))
    started = time.monotonic()
    rows = []
    for start in range(0, len(texts), 256):
        encoded = encoder.encode(texts[start : start + 256])
        rows += [np.mean([w.embedding for w in windows], axis=0) for windows in encoded]
        print(f"{start}/{len(texts)} {time.monotonic() - started:.0f} s", flush=True)
    vectors = np.stack(rows)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    place = {text: at for at, text in enumerate(texts)}
    asked = encoder.encode_first([one.text for one in questions])
    found: dict[str, list[str]] = {}
    for number, (one, encoded_question) in enumerate(zip(questions, asked, strict=True)):
        pool = [text for text in dict.fromkeys(pools[one.topic]) if text != one.passage]
        near = vectors[[place[text] for text in pool]] @ encoded_question.embedding
        short = [pool[i] for i in np.argsort(-near)[:_SHORTLIST]]
        order = np.argsort(-scorer.score(one.text, short))
        found[one.id] = [short[i] for i in order[:_RIVALS]]
        if number % 200 == 0:
            print(f"{number}/{len(questions)} {time.monotonic() - started:.0f} s", flush=True)
    np.save(out.with_suffix(".npy"), vectors.astype(np.float16))
    document = {
        "texts": texts,
        "rivals": {key: [place[text] for text in value] for key, value in found.items()},
    }
    out.write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main()
