"""The defaults of `Guard.default()`: how they were chosen, and what they do on other data.

    OMP_NUM_THREADS=1 python benchmarks/default_threshold.py documents --data ../shared/data
    OMP_NUM_THREADS=1 python benchmarks/default_threshold.py answers --data ../shared/data
    OMP_NUM_THREADS=1 python benchmarks/default_threshold.py measure --data ../shared/data

`documents` fits the calibrator and the threshold for retrieved chunks, on the documentations of
`documents.py` that are there to fit on, and on articles of SQuAD 2.0: every question with the best
one, four and eight chunks of 94 and of 150 words by the bi-encoder. Each documentation, size and
number counts the same. It then prints what this does on the documentations that are kept back.
`alone` says by how much one passage is scored lower than five of the same questions, from which
the bias of the mix for one passage follows.

`answers` reads `faq_pack`: 15 sites of questions and answers, at most 80 questions each, and nine
regulations, at most 40 questions each. Every question is asked once with the best three, and once
with the best five passages of its site or regulation by the bi-encoder; then again with its own
passage left out. Chosen is the threshold with the highest mean over sites and regulations of
(1 - false abstention + 1 - leak) / 2, as it is for documents.

`measure` asks `Guard.default()` on data that the threshold was not chosen on, and to which no
weight of the scorer was fitted: leaks are insufficient sets that it follows, false abstentions
are sufficient ones that it does not. Intervals are Wilson's, at 95 %.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from documents import DOCUMENTATIONS, Retrieved, prose, retrieved
from sufficiency_cases import Builder, Case

from knowgate import Guard
from knowgate.calibration import Interval
from knowgate.calibration.calibrators import fit_platt
from knowgate.guard import GuardOptions, Route
from knowgate.guard.contracts import SetRelevanceScorer
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_jsonl
from knowgate.guard.policy import default_calibrator
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import DEFAULT_SCORER

SITES = (
    "ada", "arxiv", "azure_management", "azure_security", "bitcoin", "btcpay",
    "business_central", "directfile", "foia", "getyourrefund", "pypi_help", "section508", "va",
    "windows_ai", "wsl",
)  # fmt: skip
MEASURED = (
    "BTT-answers", "BTT-questions", "CPF-answers", "CPF-questions", "XQuAD-en-top5", "RGB-en",
    "microworld-subject",
)  # fmt: skip
REGULATIONS = (36, 31, 5, 34, 33, 30, 4, 40, 19)
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


@dataclass(frozen=True)
class KnowledgeBase:
    """Passages, and questions with the passage that answers each."""

    passages: list[str]
    questions: list[tuple[str, int]]


def faq_site(path: Path) -> KnowledgeBase:
    """Question-answer pairs: the answers are the passages."""
    rows = [row for _, row in read_jsonl(path)]
    questions = [(row["question"], at) for at, row in enumerate(rows)]
    Random(0).shuffle(questions)
    return KnowledgeBase([row["answer"] for row in rows], questions[:MOST])


def regulation(folder: Path, document: int) -> KnowledgeBase:
    """One regulation of ObliQA: questions with a single gold passage."""
    rows = {}
    for name in ("obliqa", "obliqa_passages"):
        with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as stream:
            rows[name] = [row for row in map(json.loads, stream) if row["document"] == document]
    passages = list(dict.fromkeys(row["text"] for row in rows["obliqa_passages"]))
    questions = [
        (row["question"], passages.index(row["passages"][0]))
        for row in rows["obliqa"]
        if len(row["passages"]) == 1 and row["passages"][0] in passages and "documents" not in row
    ]
    Random(0).shuffle(questions)
    return KnowledgeBase(passages, questions[: MOST // 2])


def asked(
    base: KnowledgeBase, retrieval: BiEncoderScorer, scorer: SetRelevanceScorer, top: int
) -> Site:
    """Relevance on one knowledge base."""
    calibrator = default_calibrator(scorer.fingerprint)
    embedded = retrieval.embed(base.passages)
    sides: tuple[list[float], list[float]] = ([], [])
    for question, own in base.questions:
        similar = embedded @ retrieval.embed([question])[0]
        ranked = np.argsort(-similar, kind="stable").tolist()
        others = [i for i in ranked if base.passages[i] != base.passages[own]][:top]
        for side, chosen in zip(sides, (ranked[:top], others), strict=True):
            if side is sides[0] and own not in chosen:
                continue  # a retrieval miss says nothing about the scorer
            joint = scorer.score_set(question, [base.passages[i] for i in chosen]).joint
            side.append(calibrator.apply(joint))
    return Site(np.asarray(sides[0]), np.asarray(sides[1]))


WORDS, COUNTS = (94, 150), (1, 4, 8)


@dataclass(frozen=True)
class Scored:
    """Raw values of one documentation, cut and retrieved in one way.

    Attributes:
        name: of the documentation, with the words of a chunk and the passages retrieved.
        sufficient: of questions whose answer was retrieved.
        near_misses: of questions that nothing answers.
    """

    name: str
    sufficient: np.ndarray
    near_misses: np.ndarray

    def rates(self, threshold: float) -> tuple[float, float]:
        """False abstention and leak at a raw threshold."""
        return (
            float(np.mean(self.sufficient < threshold)),
            float(np.mean(self.near_misses >= threshold)),
        )


def scored(name: str, cases: list[Retrieved], scorer: SetRelevanceScorer) -> list[Scored]:
    """Score the best passages of each question, for every number of passages."""
    found = []
    for count in COUNTS:
        sides: tuple[list[float], list[float]] = ([], [])
        for case in cases:
            if case.asked.page is not None and not any(case.holds[:count]):
                continue  # a retrieval miss says nothing about the scorer
            joint = scorer.score_set(case.asked.question, case.passages[:count]).joint
            sides[case.asked.page is None].append(joint)
        found.append(Scored(f"{name}, {count}", *map(np.asarray, sides)))
    return found


def documents(data: Path, scorer: SetRelevanceScorer) -> None:
    """Print calibrator and threshold for retrieved chunks, and rates on what is kept back."""
    retrieval = BiEncoderScorer()
    parts: dict[str, list[Scored]] = {"fit": [], "check": []}
    for one in DOCUMENTATIONS:
        for words in WORDS:
            cases = retrieved(one, retrieval, words=words, most=max(COUNTS))
            parts[one.part] += scored(f"{one.name}, {words} words", cases, scorer)
            print(f"{one.name}, {words} words: {len(cases)} questions", flush=True)
    parts["fit"] += scored("articles", prose(data, retrieval, most=max(COUNTS)), scorer)
    fit = parts["fit"]
    # Each set counts the same: as many values of each side, spread over its range.
    levels = (np.arange(100) + 0.5) / 100
    good = [float(v) for one in fit for v in np.quantile(one.sufficient, levels)]
    bad = [float(v) for one in fit for v in np.quantile(one.near_misses, levels)]
    calibrator = fit_platt(good, bad)
    grid = np.arange(-1.5, 1.5, 0.01)
    errors = [np.mean([sum(one.rates(t)) for one in fit]) for t in grid]
    best = float(grid[int(np.argmin(errors))])
    print(f"calibrator {calibrator!r}")
    print(f"raw threshold {best:.2f}: relevance {calibrator.apply(best):.3f}")
    for part, sets in parts.items():
        print(f"\n{part}: false abstention / leak at the raw threshold, AUROC")
        for one in sets:
            lost, leak = one.rates(best)
            above = one.sufficient[:, None] > one.near_misses[None]
            print(f"  {one.name:40} {lost:.2f} / {leak:.2f}  {above.mean():.3f}")
    print("\nmean over the fit sets, by raw threshold: relevance, false abstention / leak")
    for threshold in grid[::10]:
        lost, leak = np.mean([one.rates(threshold) for one in fit], axis=0)
        print(f"  {threshold:+.2f}: {calibrator.apply(threshold):.2f}, {lost:.2f} / {leak:.2f}")


def alone(data: Path, scorer: SetRelevanceScorer) -> None:
    """Print by how much one passage is scored lower than five, on the same questions."""
    retrieval = BiEncoderScorer()
    sets = {
        f"{one.name}, {words} words": retrieved(one, retrieval, words=words, most=5)
        for one in DOCUMENTATIONS
        if one.part == "fit"
        for words in WORDS
    }
    sets["articles"] = prose(data, retrieval, most=5)
    for name, cases in sets.items():
        gaps: tuple[list[float], list[float]] = ([], [])
        for case in cases:
            if case.asked.page is not None and not case.holds[0]:
                continue
            one, five = (
                scorer.score_set(case.asked.question, case.passages[:count]).joint
                for count in (1, 5)
            )
            gaps[case.asked.page is None].append(five - one)
        print(f"{name:32} answered {np.mean(gaps[0]):+.3f}, near misses {np.mean(gaps[1]):+.3f}")


def answers(data: Path, scorer: SetRelevanceScorer) -> None:
    """Print the threshold for answers of FAQs, and the curve around it."""
    folder, retrieval = data / "faq_pack", BiEncoderScorer()
    bases = [faq_site(folder / f"{name}.jsonl") for name in SITES]
    bases += [regulation(folder, document) for document in REGULATIONS]
    sites = [asked(base, retrieval, scorer, top) for base in bases for top in TOPS]
    curve = {t: float(np.mean([one.balanced(t) for one in sites])) for t in GRID}
    best = max(curve, key=lambda t: (curve[t], -t))
    cases = sum(len(one.sufficient) + len(one.left_out) for one in sites)
    print(f"{len(bases)} bases, {cases} cases: threshold {best:.2f}, balanced {curve[best]:.3f}")
    for threshold in GRID[20:41:5]:
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
    interval = Interval.wilson(count, of)
    return f"{count / of:.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def measure(data: Path, helpdesk: Path, *, accurate: bool) -> None:
    """Print a Markdown table of leaks and false abstentions."""
    # No deadline: how busy the machine is must not decide what counts as an abstention.
    options = GuardOptions(deadlines={"relevance": None})
    guard = Guard.default(content="answers", accurate=accurate, options=options, metrics=False)
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
    parser.add_argument("what", choices=["documents", "alone", "answers", "measure"])
    parser.add_argument("--data", type=Path, required=True, help="the folder of public data")
    parser.add_argument("--scorer", default=DEFAULT_SCORER, help="or sufficiency_cross")
    parser.add_argument("--helpdesk", type=Path, default=Path("examples/helpdesk"))
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.data, options.helpdesk, accurate=options.scorer != DEFAULT_SCORER)
    else:
        scorer = load_scorer(options.scorer)
        assert isinstance(scorer, SetRelevanceScorer)
        run = {"documents": documents, "alone": alone, "answers": answers}[options.what]
        run(options.data, scorer)


if __name__ == "__main__":
    main()
