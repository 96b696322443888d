"""The diversity filter: the same selection as KnowOrNot's, what either costs, what it measures.

    OMP_NUM_THREADS=1 python benchmarks/diversity.py --original knowornot/src --data ../shared/data

`--original` is the folder `src` of a checkout of KnowOrNot; its filters need nltk on the path, and
nothing else that knowgate has not. Without it, the algorithm as it is described stands in, one
distance at a time in plain Python, as the original does it. CPU seconds of one run each.

- same vectors, same selection: seeded vectors of 384 dimensions, of which all are kept (drawn
  independently) or a part (drawn around fewer centres), thresholds 0.3; and the keyword formula on
  generated questions, both with the original's own preparation of texts (its stop words are
  scikit-learn's here, for NLTK's need a download);
- sizes: 4,000 and 20,000 items, all kept, the most that either stage can cost, and the nearest five
  of 100,000 vectors for a hundred of them, each in a process of its own with its peak memory;
- what is measured: correlation of either keyword score with the number of words, and the score of
  copies, on the questions of XQuAD and of PolicyBench (needs `--data`).
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from overhead import machine
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from knowgate.guard.files import write_json
from knowgate.offline_eval.data.diversity.filter import farthest_first
from knowgate.offline_eval.data.diversity.uniqueness import (
    keyword_distinct,
    words_of,
)
from knowgate.offline_eval.data.questions import KnowledgeBase, QuestionRecord
from knowgate.offline_eval.systems.retrieval import PassageIndex

DIMENSIONS, LEAST, SEED = 384, 0.3, 0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """Both sides on the same input."""

    what: str
    items: int
    kept: int
    same: bool
    ours: float
    original: float

    @property
    def ratio(self) -> float:
        return self.original / self.ours


def vectors(n: int, centres: int | None = None) -> Floats:
    """Of unit length; around so many centres, or independent."""
    rng = np.random.default_rng(SEED)
    drawn = rng.standard_normal((n, DIMENSIONS))
    if centres is not None:
        middle = 2.5 * rng.standard_normal((centres, DIMENSIONS))
        drawn += middle[rng.integers(centres, size=n)]
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def questions(n: int) -> list[str]:
    """Texts of 6 to 21 words, as frequent as words are."""
    draw = random.Random(SEED)
    words = [f"word{at}" for at in range(30_000)]
    weights = [1 / rank for rank in range(1, 30_001)]
    return [" ".join(draw.choices(words, weights, k=draw.randint(6, 21))) for _ in range(n)]


def described(rows: Floats) -> list[int]:
    """The semantic filter as it is described, one distance at a time."""
    picked, left = [0], list(range(1, len(rows)))
    while left:
        best, farthest = -1, -1.0
        for item in left:
            distance = min(1.0 - np.dot(rows[item], rows[one]) for one in picked)
            if distance > farthest:
                best, farthest = item, distance
        if farthest < LEAST:
            break
        picked.append(best)
        left.remove(best)
    return picked


class Original:
    """KnowOrNot's own filters, without a client of any provider."""

    def __init__(self, source: Path) -> None:
        # Its top package imports every provider's client; the filter needs none of them.
        package = ModuleType("knowornot")
        package.__path__ = [str(source / "knowornot")]
        sys.modules["knowornot"] = package
        from knowornot.QuestionExtractor import QuestionExtractor  # type: ignore[import-not-found]
        from nltk.stem import PorterStemmer  # type: ignore[import-not-found]
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self._extractor: Any = object.__new__(QuestionExtractor)
        self._extractor.logger = logging.getLogger("knowornot")
        self._extractor.stemmer = PorterStemmer()
        self._extractor.stop_words = set(ENGLISH_STOP_WORDS)

    def prepare(self, text: str) -> str:
        return str(self._extractor._preprocess_text(text))

    def by_meaning(self, rows: Floats) -> list[int]:
        self._extractor.default_client = SimpleNamespace(get_embedding=lambda _: rows.tolist())
        items = [SimpleNamespace(question=at) for at in range(len(rows))]
        found = self._extractor._filter_semantic_duplicates(items, LEAST)
        return [item.question for item in found]

    def by_keywords(self, texts: Sequence[str]) -> list[int]:
        items = [SimpleNamespace(question=text, at=at) for at, text in enumerate(texts)]
        found = self._extractor._filter_keyword_duplicates(items, LEAST)
        return [item.at for item in found]


def timed(job: Callable[[], Iterable[int]]) -> tuple[list[int], float]:
    """What a side selects, and its CPU seconds."""
    started = time.process_time()
    found = list(job())
    return found, time.process_time() - started


def compared(
    what: str, n: int, ours: Callable[[], Iterable[int]], other: Callable[[], Iterable[int]]
) -> Compared:
    """Both sides, and whether they select the same."""
    mine, seconds = timed(ours)
    theirs, their_seconds = timed(other)
    same = sorted(int(at) for at in mine) == sorted(theirs)
    one = Compared(what, n, len(mine), same, seconds, their_seconds)
    print(
        f"{what:<28}{n:>6}{one.kept:>8} kept   {'same' if same else 'OTHER':<6}"
        f"{seconds:9.3f} s{their_seconds:10.2f} s{one.ratio:10.0f}×",
        flush=True,
    )
    return one


def compare(sizes: Sequence[int], original: Original | None) -> list[Compared]:
    """Both filters on the same input, size by size."""
    by_meaning = described if original is None else original.by_meaning
    found = []
    for n in sizes:
        for what, rows in (("all kept", vectors(n)), ("a part kept", vectors(n, n // 3))):
            ours = partial(farthest_first, rows, min_distance=LEAST)
            found.append(compared(f"meaning, {what}", n, ours, partial(by_meaning, rows)))
        if original is not None:
            texts = questions(n)
            formula = partial(by_formula, texts, original)
            theirs = partial(original.by_keywords, texts)
            found.append(compared("original keyword formula", n, formula, theirs))
    return found


def original_keyword_scores(
    texts: Sequence[str], *, prepare: Callable[[str], str] | None = None
) -> NDArray[np.float64]:
    """The sum of each text's TF-IDF weights, as KnowOrNot computes its "uniqueness".

    Args:
        texts: at least one with a word in it.
        prepare: applied to each text first. By default case, punctuation and English stop words go;
            KnowOrNot also stems and takes NLTK's stop words: give a function that does so for the
            very same numbers.
    """

    def plain(text: str) -> str:
        words = re.sub(r"[^\w\s]", " ", text.lower()).split()
        return " ".join(word for word in words if word not in ENGLISH_STOP_WORDS)

    vectoriser = TfidfVectorizer(
        strip_accents="unicode", min_df=1, max_df=0.9, sublinear_tf=True, dtype=np.float64
    )
    weights = vectoriser.fit_transform([(prepare or plain)(text) for text in texts])
    return np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()


def by_formula(texts: Sequence[str], original: Original) -> NDArray[np.int64]:
    """Our form of the original's keyword filter, with its own preparation of texts."""
    scores = original_keyword_scores(texts, prepare=original.prepare)
    return np.flatnonzero(scores >= scores.min() + LEAST * (scores.max() - scores.min()))


def measure(what: str, n: int) -> dict[str, Any]:
    """CPU seconds of one job in this process, and the process's peak memory."""
    if what == "meaning":
        rows = vectors(n).astype(np.float32)
        found, seconds = timed(lambda: farthest_first(rows, min_distance=LEAST))
        kept = len(found)
    elif what == "keywords":
        texts = questions(n)
        found, seconds = timed(lambda: keyword_distinct(texts, min_uniqueness=LEAST)[0])
        kept = len(found)
    else:
        rows = vectors(n).astype(np.float32)
        names = {str(at): str(at) for at in range(n)}
        encoder = SimpleNamespace(embed=lambda texts: rows[[int(text) for text in texts]])
        index = PassageIndex(KnowledgeBase(names, {}), encoder)
        found, seconds = timed(lambda: [index.nearest(row, 5) for row in rows[:100]])
        kept = len(found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"what": what, "items": n, "kept": kept, "cpu_seconds": seconds, "peak_mib": peak}


def measure_apart(what: str, n: int) -> dict[str, Any]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", what, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{what:<28}{n:>6}{found['kept']:>8} kept   {found['cpu_seconds']:9.2f} s"
        f"{found['peak_mib']:10.0f} MiB",
        flush=True,
    )
    return found


def question_sets(data: Path) -> dict[str, list[str]]:
    """Real questions by name."""
    value = json.loads((data / "xquad" / "xquad.en.even.json").read_text(encoding="utf-8"))
    found = {
        "XQuAD en": [
            qa["question"]
            for document in value["data"]
            for paragraph in document["paragraphs"]
            for qa in paragraph["qas"]
        ]
    }
    for name in ("BTT", "CPF"):
        records = QuestionRecord.read(data / "policybench" / "questions" / f"{name}.json")
        found[name] = [record.question for record in records]
    return found


def keyword_uniqueness(texts: Sequence[str]) -> list[float]:
    """How far each text is from its nearest neighbour by words, as `keyword_distinct` tells it."""
    words = [set(words_of(text)) or {text} for text in texts]
    counts = Counter(word for some in words for word in some)
    information = {word: math.log((len(texts) + 1) / count) for word, count in counts.items()}
    said = [sum(map(information.__getitem__, some)) for some in words]
    return [
        1.0
        - max(
            2 * sum(map(information.__getitem__, some & words[other])) / (said[own] + said[other])
            for other in range(len(words))
            if other != own
        )
        for own, some in enumerate(words)
    ]


def what_is_measured(data: Path, original: Original | None) -> list[dict[str, Any]]:
    """Correlation with length of both scores, and what a copy of the first question gets."""
    prepare = None if original is None else original.prepare
    rows = []
    for name, texts in question_sets(data).items():
        lengths = [len(text.split()) for text in texts]
        words = [len((prepare or str)(text).split()) for text in texts]
        ours, theirs = keyword_uniqueness(texts), original_keyword_scores(texts, prepare=prepare)
        copied = [*texts, texts[0]]
        row = {
            "questions": name,
            "n": len(texts),
            "ours_words": float(np.corrcoef(ours, lengths)[0, 1]),
            "original_words": float(np.corrcoef(theirs, lengths)[0, 1]),
            "original_prepared_words": float(np.corrcoef(theirs, words)[0, 1]),
            "ours_copy": float(keyword_uniqueness(copied)[0]),
            "original_copy": float(original_keyword_scores(copied, prepare=prepare)[0]),
        }
        rows.append(row)
        print(
            f"{name:<10}{len(texts):>5}   r with words: ours {row['ours_words']:+.3f}, original "
            f"{row['original_words']:+.3f} (prepared words {row['original_prepared_words']:+.3f})"
            f"   a copy: ours {row['ours_copy']:.3f}, original {row['original_copy']:.3f}"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--original", type=Path, help="folder src of a checkout of KnowOrNot")
    parser.add_argument("--data", type=Path, help="folder with xquad and policybench")
    parser.add_argument("--compare", type=int, nargs="*", default=[500, 1000], metavar="N")
    parser.add_argument("--sizes", type=int, nargs="*", default=[4000, 20000], metavar="N")
    parser.add_argument("--nearest", type=int, nargs="*", default=[100_000], metavar="N")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(given.measure[0], int(given.measure[1]))))
        return
    original = None if given.original is None else Original(given.original)
    print(f"{machine()}\nother side: {'as described' if original is None else 'KnowOrNot'}\n")
    sides = compare(given.compare, original)
    print()
    jobs = [(what, n) for what in ("meaning", "keywords") for n in given.sizes]
    measured = [measure_apart(*job) for job in [*jobs, *(("nearest", n) for n in given.nearest)]]
    print()
    scores = [] if given.data is None else what_is_measured(given.data, original)
    if given.json is not None:
        compared_rows = [{**asdict(one), "ratio": one.ratio} for one in sides]
        write_json(given.json, {"compared": compared_rows, "measured": measured, "scores": scores})


if __name__ == "__main__":
    main()
