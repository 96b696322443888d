"""Questions by rules against questions as users put them, on the same documentation.

    OMP_NUM_THREADS=1 python benchmarks/generated_questions.py flask borg

For each documentation (see `documents.py`): the path of the README for those who have documents
only (`kb build`, `measure`, `calibrate` at α = .2 and δ = .1), with what the policy
claims to abstain from, cross-fitted. Then the same policy on the questions that were written by
hand, with the five best of all chunks as context: how many it abstains from although the chunk
with the answer is among the five, and how many near misses, answered nowhere, it lets pass. Also
the content words that a question shares with the chunk that answers it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import numpy as np
from documents import Asked, documentation, pages_of, questions_of
from overhead import machine

from knowgate.calibration import Interval
from knowgate.calibration.risk import Leak
from knowgate.guard import Guard, Policy
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import DEFAULT_SCORER
from knowgate.offline_eval.data.diversity import filter_questions_file
from knowgate.offline_eval.data.facts import build_questions, load_chunks
from knowgate.offline_eval.data.questions import mean_shared_words
from knowgate.offline_eval.policies import calibrate_run
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb.instruments import Instruments

TOP, RISK, DELTA = 5, 0.2, 0.1


def by_rules(pages: Path, folder: Path, encoder: BiEncoderScorer) -> Policy:
    """The policy that questions by rules give; prints what it claims."""
    kb = folder / "kb"
    build_questions([pages], kb)
    kept = filter_questions_file(
        kb / "questions.jsonl", kb / "kept.jsonl", kb / "gone.jsonl", encoder
    )
    settings = MEASURE.settings(questions=kb / "kept.jsonl")
    measuring = Instruments(load_scorer(DEFAULT_SCORER), encoder)
    run = run_suite(MEASURE, settings, folder / "run", systems=(measuring,)).folder
    found = calibrate_run(
        run, folder / "policy.json", Leak(RISK), delta=DELTA, accept_generated=True
    )
    shared = mean_shared_words((one.question, one.passage or "") for one in kept.kept)
    made = sum(bool(one.made_by) for one in kept.kept)
    print(
        f"  by rules: {len(kept.kept)} questions ({made} by rules), {shared:.0%} of their words "
        f"shared; claims to abstain from {shown(found.false_abstention)}"
    )
    for problem in found.problems:
        print(f"    {problem.kind}: {problem.what}")
    return found.policy


def by_people(
    questions: Sequence[Asked], pages: Path, policy: Policy, encoder: BiEncoderScorer
) -> list[float]:
    """Shares of words of the hand-written questions; prints what the policy does to them."""
    chunks = load_chunks(pages)
    texts = [chunk.page_content for chunk in chunks]
    embedded, guard = encoder.embed(texts), Guard.load(policy, metrics=False)
    shares: list[float] = []
    found = abstained = missed = near = passed = 0
    for one in questions:
        best = np.argsort(-(embedded @ encoder.embed([one.question])[0]), kind="stable")[:TOP]
        decision = guard.decide(one.question, [texts[i] for i in best])
        follows = decision.route.value == "follow_context"
        if one.page is None:
            near, passed = near + 1, passed + follows
            continue
        own = [
            i
            for i, chunk in enumerate(chunks)
            if chunk.metadata["source"] == one.page and plain(one.anchor) in plain(texts[i])
        ]
        assert own, f"{one.question_id}: no chunk holds the anchor"
        share = mean_shared_words([(one.question, texts[own[0]])])
        shares += [] if share is None else [share]
        if set(own) & set(best.tolist()):
            found, abstained = found + 1, abstained + (not follows)
        else:
            missed += 1
    print(
        f"  by hand: {len(questions)} questions; abstains from "
        f"{shown(Interval.wilson(abstained, found))} with the answer retrieved ({missed} not "
        f"retrieved); lets {shown(Interval.wilson(passed, near))} of the near misses pass"
    )
    return shares


def plain(text: str) -> str:
    return " ".join(text.split()).lower()


def shown(rate: Interval) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "-"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.n}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="DOCUMENTATION")
    given = parser.parse_args()
    print(machine())
    encoder, shares = BiEncoderScorer(), []
    for name in given.names:
        print(name, flush=True)
        pages = pages_of(documentation(name))
        with tempfile.TemporaryDirectory() as folder:
            policy = by_rules(pages, Path(folder), encoder)
            shares += by_people(questions_of(name), pages, policy, encoder)
    print(
        f"words shared by hand: mean {np.mean(shares):.0%}, 95th percentile "
        f"{quantiles(shares, n=20)[-1]:.0%}, of {len(shares)}"
    )


if __name__ == "__main__":
    main()
