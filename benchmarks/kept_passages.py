"""What a learned `kept_margin` saves of the prompt, and what it loses.

    OMP_NUM_THREADS=1 python benchmarks/kept_passages.py --data ../shared/data

On two PolicyBench domains, each question with the best five passages by the bi-encoder, where
its own is among them and `Guard.default()` follows them. The margin is learned on a random half
of the questions and applied to the other half, 200 times: words of passages that are left out of
the prompt, and questions whose own passage is.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from knowgate.guard import Policy
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_json
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer

TOP, SPLITS = 5, 200


@dataclass(frozen=True)
class Followed:
    """A question whose context is followed: scores and words of its passages, and its own."""

    scores: tuple[float, ...]
    words: tuple[int, ...]
    own: int


def followed(
    path: Path, retrieval: BiEncoderScorer, scorer: SufficiencyScorer, kind: str
) -> list[Followed]:
    """The questions of a domain that are followed with their own passage retrieved."""
    policy = Policy.for_scorer(scorer)
    assert policy.relevance_threshold is not None
    rows = read_json(path)["questions"]
    passages = [
        row["answer"] if kind == "answers" else f"{row['question']}\n{row['answer']}"
        for row in rows
    ]
    embedded = retrieval.embed(passages)
    found = []
    for at, row in enumerate(rows):
        similar = embedded @ retrieval.embed([row["question"]])[0]
        best = np.argsort(-similar, kind="stable")[:TOP].tolist()
        judged = scorer.score_set(row["question"], [passages[i] for i in best])
        relevance = policy.relevance_calibrator.apply(judged.joint)
        if at in best and relevance >= policy.relevance_threshold:
            words = tuple(len(passages[i].split()) for i in best)
            found.append(Followed(judged.scores, words, best.index(at)))
    return found


def halves(questions: list[Followed], policy: Policy) -> tuple[float, float]:
    """Mean share of words left out and of own passages lost, on questions not learned from."""
    saved, lost, rng = [], [], Random(0)
    for _ in range(SPLITS):
        shuffled = rng.sample(questions, len(questions))
        half = len(shuffled) // 2
        margin = Policy.kept_margin_of((one.scores, [one.own]) for one in shuffled[:half])
        tuned = policy.model_copy(update={"kept_margin": margin})
        rest = [(one, tuned.kept(one.scores)) for one in shuffled[half:]]
        kept = sum(one.words[i] for one, indices in rest for i in indices)
        saved.append(1 - kept / sum(sum(one.words) for one, _ in rest))
        lost.append(sum(one.own not in indices for one, indices in rest) / len(rest))
    return float(np.mean(saved)), float(np.mean(lost))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of public data")
    folder = parser.parse_args().data / "policybench" / "questions"
    retrieval, scorer = BiEncoderScorer(), SufficiencyScorer()
    policy = Policy.for_scorer(scorer)
    print("| set | followed | words saved | own passage lost |\n|---|---|---|---|")
    for domain in ("BTT", "CPF"):
        for kind in ("answers", "questions"):
            questions = followed(folder / f"{domain}.json", retrieval, scorer, kind)
            saved, lost = halves(questions, policy)
            print(f"| {domain}-{kind} | {len(questions)} | {saved:.1%} | {lost:.1%} |", flush=True)


if __name__ == "__main__":
    main()
