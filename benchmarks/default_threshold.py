"""The threshold of `Guard.default()`: how it was chosen, and what it does on other data.

    OMP_NUM_THREADS=1 python benchmarks/default_threshold.py choose --data ../shared/data
    OMP_NUM_THREADS=1 python benchmarks/default_threshold.py measure --data ../shared/data

`choose` reads 15 sites of questions and answers (`faq_pack`), at most 80 questions each. Every
question is asked once with the best three, and once with the best five answers of its site by
the bi-encoder; then again with its own answer left out. Chosen is the threshold with the highest
mean over the sites of (1 - false abstention + 1 - leak) / 2.

`measure` asks `Guard.default()` on data that the threshold was not chosen on, and to which no
weight of the scorer was fitted: leaks are insufficient sets that it follows, false abstentions
are sufficient ones that it does not. Intervals are Wilson's, at 95 %.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from sufficiency_cases import Builder, Case

from knowgate import Guard
from knowgate.calibration import wilson_interval
from knowgate.guard import GuardOptions, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_jsonl
from knowgate.guard.policy import default_calibrator
from knowgate.guard.signals.relevance import DEFAULT_SCORER, load_scorer

SITES = (
    "ada", "arxiv", "azure_management", "azure_security", "bitcoin", "btcpay",
    "business_central", "directfile", "foia", "getyourrefund", "pypi_help", "section508", "va",
    "windows_ai", "wsl",
)  # fmt: skip
MEASURED = (
    "BTT-answers", "BTT-questions", "CPF-answers", "CPF-questions", "XQuAD-en-top5", "RGB-en",
    "microworld-subject",
)  # fmt: skip
MOST, TOPS = 80, (3, 5)
GRID = tuple(step / 100 for step in range(30, 91))


@dataclass(frozen=True)
class Site:
    """Relevance on one site: with the own answer retrieved, and with it left out."""

    sufficient: np.ndarray
    left_out: np.ndarray

    def balanced(self, threshold: float) -> float:
        """Mean of the shares of both kinds that are decided rightly."""
        followed = np.mean(self.sufficient >= threshold)
        return float(followed + np.mean(self.left_out < threshold)) / 2


def site(path: Path, retrieval: BiEncoderScorer, top: int) -> Site:
    """Relevance on one file of question-answer pairs."""
    rows = [row for _, row in read_jsonl(path)]
    questions = [row["question"] for row in rows]
    answers = [row["answer"] for row in rows]
    similar = retrieval.embed(questions) @ retrieval.embed(answers).T
    order = list(range(len(rows)))
    Random(0).shuffle(order)
    scorer = load_scorer(DEFAULT_SCORER)
    calibrator = default_calibrator(scorer.fingerprint)
    sides: tuple[list[float], list[float]] = ([], [])
    for at in order[:MOST]:
        ranked = np.argsort(-similar[at], kind="stable").tolist()
        others = [i for i in ranked if answers[i] != answers[at]][:top]
        for side, chosen in zip(sides, (ranked[:top], others), strict=True):
            if side is sides[0] and at not in chosen:
                continue  # a retrieval miss says nothing about the scorer
            joint = scorer.score_set(questions[at], [answers[i] for i in chosen]).joint
            side.append(calibrator.apply(joint))
    return Site(np.asarray(sides[0]), np.asarray(sides[1]))


def choose(data: Path) -> None:
    """Print the chosen threshold, and the curve around it."""
    retrieval = BiEncoderScorer()
    sites = [
        site(data / "faq_pack" / f"{name}.jsonl", retrieval, top) for name in SITES for top in TOPS
    ]
    curve = {t: float(np.mean([one.balanced(t) for one in sites])) for t in GRID}
    best = max(curve, key=lambda t: (curve[t], -t))
    cases = sum(len(one.sufficient) + len(one.left_out) for one in sites)
    print(f"{len(SITES)} sites, {cases} cases: threshold {best:.2f}, balanced {curve[best]:.3f}")
    for threshold in GRID[10:50:5]:
        leak = np.mean([np.mean(one.left_out >= threshold) for one in sites])
        lost = np.mean([np.mean(one.sufficient < threshold) for one in sites])
        print(f"  {threshold:.2f}: leak {leak:.3f}, false abstention {lost:.3f}")


def nomiracl(data: Path) -> tuple[list[Case], list[Case]]:
    """NoMIRACL: ten retrieved passages each, judged by people."""
    rows = [row for _, row in read_jsonl(data / "nomiracl" / "en_even.jsonl")]
    sides: dict[bool, list[Case]] = {True: [], False: []}
    for row in rows:
        given = tuple(row["passages"])
        sides[bool(row["sufficient"])].append(Case(row["question"], given, given))
    return sides[True], sides[False]


def help_pages(folder: Path, retrieval: BiEncoderScorer) -> tuple[list[Case], list[Case]]:
    """The help desk of `examples/helpdesk`: its paragraphs, answerable questions, near misses."""
    texts = []
    for page in sorted((folder / "pages").glob("*.md")):
        title, *parts = page.read_text(encoding="utf-8").strip().split("\n\n")
        texts += [f"{title.lstrip('# ')}: {' '.join(part.split())}" for part in parts]
    found = []
    for name in ("questions.jsonl", "near_misses.jsonl"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        questions = [json.loads(line)["question"] for line in lines]
        similar = retrieval.embed(questions) @ retrieval.embed(texts).T
        cases = []
        for at, question in enumerate(questions):
            given = tuple(texts[i] for i in np.argsort(-similar[at], kind="stable")[:5])
            cases.append(Case(question, given, given))
        found.append(cases)
    return found[0], found[1]


def measured_sets(data: Path, helpdesk: Path) -> Iterator[tuple[str, list[Case], list[Case]]]:
    """Name, sufficient and insufficient cases of each set."""
    retrieval = BiEncoderScorer()
    builder = Builder(data, retrieval, 300)
    for name in MEASURED:
        cases = list(builder.build(name).cases)
        yield name, cases, cases
    yield ("NoMIRACL-en", *nomiracl(data))
    if helpdesk.is_dir():
        yield ("helpdesk", *help_pages(helpdesk, retrieval))


def followed(guard: Guard, questions: list[str], passages: list[tuple[str, ...]]) -> int:
    """How many of the questions the guard answers from their passages."""
    decided = guard.decide_batch(questions, passages)
    return sum(one.route is Route.FOLLOW_CONTEXT for one in decided)


def shown(count: int, of: int) -> str:
    """A share with its interval."""
    interval = wilson_interval(count, of)
    return f"{count / of:.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def measure(data: Path, helpdesk: Path) -> None:
    """Print a Markdown table of leaks and false abstentions."""
    # No deadline: how busy the machine is must not decide what counts as an abstention.
    guard = Guard.default(options=GuardOptions(deadlines={"relevance": None}), metrics=False)
    print(f"threshold {guard.policy.relevance_threshold}\n")
    print("| set | sufficient / not | leak | false abstention |\n|---|---|---|---|")
    for name, good, bad in measured_sets(data, helpdesk):
        right = followed(guard, [c.question for c in good], [c.positives for c in good])
        leaks = followed(guard, [c.question for c in bad], [c.negatives for c in bad])
        lost = shown(len(good) - right, len(good))
        print(
            f"| {name} | {len(good)} / {len(bad)} | {shown(leaks, len(bad))} | {lost} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["choose", "measure"])
    parser.add_argument("--data", type=Path, required=True, help="the folder of public data")
    parser.add_argument("--helpdesk", type=Path, default=Path("examples/helpdesk"))
    options = parser.parse_args()
    if options.what == "choose":
        choose(options.data)
    else:
        measure(options.data, options.helpdesk)


if __name__ == "__main__":
    main()
