"""Does one scorer tell sufficient passages better than another? A paired bootstrap over questions.

    OMP_NUM_THREADS=1 python benchmarks/paired_scorers.py sufficiency late_interaction \
        --data ../shared/data [--only NAMES] [--scores DIR] [--markdown OUT.md]

Both scorers judge the same passages of the same questions: the sets of `sufficiency.py` in
English, and the sites and regulations of `default_threshold.py` (the best five with the
own passage against the best five without it). Printed per set: the AUROC of both, the first
minus the second with a 95 % interval, and the false abstention of both where 10 % of the
insufficient sets pass. Questions are drawn with replacement, the same for both; of several sites
the mean over sites is taken, and sites are drawn, too. The scores of each set are kept in
`--scores`, so that a run which ended early goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from default_threshold import REGULATIONS, SITES, KnowledgeBase, faq_site, regulation
from numpy.typing import NDArray
from sufficiency_cases import Builder, Case, top_sets
from sufficiency_measures import aggregator_of, progress, scored

from knowgate.calibration.selective_metrics import SelectiveCurve
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_json, write_json, write_text
from knowgate.guard.signals.relevance import load_scorer

SETS = (
    "BTT-answers", "BTT-questions", "CPF-answers", "CPF-questions", "XQuAD-en", "XQuAD-en-tfidf",
    "XQuAD-en-top5", "RGB-en", "RGB-en-passages", "microworld-subject", "microworld-relation",
    "NoMIRACL-en",
)  # fmt: skip
DRAWS, LEAK = 2000, 0.10
HEAD = (
    "| set | questions | {} | {} | difference | false abstention at 10 % leak |\n"
    "|---|---|---|---|---|---|"
)
Floats = NDArray[np.float64]
# Per question the scores of its sufficient and of its insufficient passages.
Scores = list[tuple[list[float], list[float]]]


@dataclass(frozen=True)
class Paired:
    """The scores of one scorer on one site.

    Attributes:
        wins: of shape (questions, questions): pairs in which a sufficient case of the first
            scores above an insufficient one of the second, ties half.
        sufficient, insufficient: cases of each question.
        lost: false abstention at the leak.
    """

    wins: Floats
    sufficient: Floats
    insufficient: Floats
    lost: float

    @classmethod
    def of(cls, scores: Scores) -> Paired:
        """From the scores of each question."""
        good, bad = ([np.asarray(one[side]) for one in scores] for side in (0, 1))
        wins = np.zeros((len(scores), len(scores)))
        rest = np.concatenate(bad)
        owner = np.repeat(np.arange(len(bad)), [len(one) for one in bad])
        for row, own in enumerate(good):
            for value in own:
                above = (value > rest) + 0.5 * (value == rest)
                wins[row] += np.bincount(owner, above, minlength=len(bad))
        lost = SelectiveCurve.false_abstention(np.concatenate(good).tolist(), rest.tolist(), LEAK)
        counts = (np.asarray([float(len(one)) for one in side]) for side in (good, bad))
        return cls(wins, *counts, float("nan") if lost is None else lost)

    def auroc(self, drawn: Floats) -> float:
        """With each question counted as often as it was drawn."""
        pairs = (drawn @ self.sufficient) * (drawn @ self.insufficient)
        return float(drawn @ self.wins @ drawn / pairs) if pairs else float("nan")


def row(name: str, first: Sequence[Paired], second: Sequence[Paired]) -> str:
    """A row of the table for one set of one or more sites."""
    rng = np.random.default_rng(0)
    sizes = [len(one.wins) for one in first]

    def values(places: Sequence[int], drawn: Sequence[Floats]) -> tuple[float, float]:
        pairs = list(zip(places, drawn, strict=True))
        means = [np.nanmean([side[at].auroc(d) for at, d in pairs]) for side in (first, second)]
        return float(means[0]), float(means[1])

    differences = []
    for _ in range(DRAWS):
        places = rng.integers(len(sizes), size=len(sizes)).tolist()
        drawn = [rng.multinomial(sizes[at], [1 / sizes[at]] * sizes[at]) for at in places]
        one, other = values(places, [np.asarray(d, dtype=np.float64) for d in drawn])
        differences.append(one - other)
    low, high = np.quantile(differences, [0.025, 0.975])
    one, other = values(range(len(sizes)), [np.ones(size) for size in sizes])
    lost = [float(np.mean([paired.lost for paired in side])) for side in (first, second)]
    return (
        f"| {name} | {sum(sizes)} | {one:.3f} | {other:.3f} | {one - other:+.3f} "
        f"[{low:+.3f}, {high:+.3f}] | {lost[0]:.1%} / {lost[1]:.1%} |"
    )


def site_cases(base: KnowledgeBase, retrieval: BiEncoderScorer) -> list[Case]:
    """The best five passages with the own one, and without it."""
    embedded, cases = retrieval.embed(base.passages), []
    for question, own in base.questions:
        similar = (embedded @ retrieval.embed([question])[0]).astype(np.float64)
        others = [i for i, text in enumerate(base.passages) if text != base.passages[own]]
        cases.append(top_sets(question, base.passages, own, others, similar))
    return cases


def sides(cases: Sequence[Case], *, each: bool) -> list[tuple[str, bool, int, tuple[str, ...]]]:
    """Question, whether its passages suffice, its number, and the passages judged together."""
    rows = []
    for at, case in enumerate(cases):
        for sufficient, passages in ((True, case.positives), (False, case.negatives)):
            lists = [(text,) for text in passages] if each else [passages] if passages else []
            rows += [(case.question, sufficient, at, part) for part in lists]
    return rows


def judged(scorer: Any, cases: Sequence[Case], *, each: bool) -> Scores:
    """The scores of every question."""
    found: Scores = [([], []) for _ in cases]
    rows = sides(cases, each=each)
    values = scored(scorer, [(one[0], one[3]) for one in rows], aggregator_of(scorer))
    for (_, sufficient, at, _), (value, _) in zip(rows, values, strict=True):
        found[at][0 if sufficient else 1].append(value)
    return found


def all_cases(
    data: Path, retrieval: BiEncoderScorer, only: Sequence[str]
) -> Iterator[tuple[str, str, list[Case], bool]]:
    """Set, site, cases, and whether each passage is judged by itself; all sets without `only`."""

    def wanted(names: Iterable[Any], prefix: str = "") -> list[Any]:
        return [name for name in names if not only or f"{prefix}{name}" in only]

    builder = Builder(data, retrieval)
    for name in wanted(SETS):
        found = builder.build(name)
        yield name, name, list(found.cases), found.unit == "passage"
    sites, documents = wanted(SITES, "faq-"), wanted(REGULATIONS, "obliqa-")
    for name in sites:
        base = faq_site(data / "faq_pack" / f"{name}.jsonl")
        yield f"FAQ pack, {len(sites)} sites", f"faq-{name}", site_cases(base, retrieval), False
    for document in documents:
        base = regulation(data / "faq_pack", document)
        label = f"ObliQA, {len(documents)} regulations"
        yield label, f"obliqa-{document}", site_cases(base, retrieval), False


def main() -> None:
    """Score every set by both scorers, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scorers", nargs=2, help="names or folders")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", help="comma-separated, e.g. CPF-answers,faq-bitcoin")
    parser.add_argument("--scores", type=Path, help="keep the scores of each set in this folder")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    given = parser.parse_args()
    retrieval = BiEncoderScorer(device="cpu", cache_bytes=200 * 2**20)
    only = [name for name in given.only.split(",") if name]
    known = {*SETS, *(f"faq-{one}" for one in SITES), *(f"obliqa-{one}" for one in REGULATIONS)}
    if unknown := sorted({*only} - known):
        parser.error(f"--only: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    scorers = [(name, load_scorer(name)) for name in given.scorers]
    sets: dict[str, tuple[list[Paired], list[Paired]]] = {}
    for label, site, cases, each in all_cases(given.data, retrieval, only):
        for side, (name, scorer) in enumerate(scorers):
            progress(f"{name} on {site}")
            kept = given.scores and given.scores / f"{Path(name).name}-{site}.json"
            found = read_json(kept) if kept and kept.is_file() else None
            if found is None:
                found = judged(scorer, cases, each=each)
                if kept:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    write_json(kept, found)
            sets.setdefault(label, ([], []))[side].append(Paired.of(found))
    table = "\n".join([HEAD.format(*given.scorers), *(row(name, *sets[name]) for name in sets)])
    print(table)
    if given.markdown is not None:
        write_text(given.markdown, f"{table}\n")


if __name__ == "__main__":
    main()
