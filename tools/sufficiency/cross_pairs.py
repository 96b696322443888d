"""Questions with passages of the sufficiency pack, the FAQ pack and ObliQA, for a cross-encoder.

A passage that is longer than a cross-encoder should read in training is cut to a run of whole
sentences: the run that shares most with the question, and that holds the answer where the
passage suffices.
"""

from __future__ import annotations

import json
import lzma
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from knowgate.calibration.training.cases import TrainingQuestion
from tools.sufficiency.nothing_told import NothingTold, names_of
from tools.sufficiency.pairs import read_pairs, rule_questions, site_questions

# Six sites of the FAQ pack are left for evaluation.
SITES = (
    "ada", "arxiv", "azure_security", "business_central", "directfile", "pypi_help", "va",
    "windows_ai", "wsl",
)  # fmt: skip
# Share of the questions of a source in one pass; sources that are not named count in full.
SHARES = {
    "boolq": 0.25,
    "policyqa": 0.3,
    "fairytaleqa": 0.5,
    "medquad": 0.5,
    "squad11_dev": 0.8,
    "covid_faq": 2.0,
    "selqa": 0.7,
    "faq": 2.0,
    "obliqa": 0.7,
    "documentation": 1.0,
}
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
# Two passages this alike may both suffice.
_SAME = 0.9
_FEWEST_WORDS, _MOST_WORDS = 45, 105
# Share of the questions whose passages are short, and how short: terse answers are answers.
_SHORT, _SHORT_WORDS = 0.25, (12, 40)
# Share of the questions in small letters, without a question mark.
_CARELESS = 0.15
_NEGATIVES = 3
# Shares of the questions: with a passage that names the subject and tells nothing, with such text
# around or beside the answer, and with the answer about another name or number, where it names one.
_NAMED, _BESIDE, _SWAPPED = 0.6, 0.25, 0.35


@dataclass(frozen=True)
class Group:
    """One question with one passage that suffices, or none, and passages that do not."""

    source: str
    question: str
    passages: tuple[str, ...]
    labels: tuple[int, ...]


class Cutter:
    """Cuts passages to the sentences that share most with a question."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        counts = Counter(word for text in texts for word in set(_words(text)))
        self._idf = {word: math.log(len(texts) / count) for word, count in counts.items()}
        self._rng = random.Random(seed)

    def words(self) -> int:
        """How many words the passages of one question may have."""
        if self._rng.random() < _SHORT:
            return self._rng.randint(*_SHORT_WORDS)
        return self._rng.randint(_FEWEST_WORDS, _MOST_WORDS)

    def cut(self, text: str, question: str, answer: str | None, most: int) -> str:
        """At most about `most` words of a text; with the answer, where it is given."""
        words = text.split()
        if len(words) <= most:
            return text
        sentences = [part for part in _SENTENCE.split(text) if part.strip()]
        asked = set(_words(question))
        best, best_value = " ".join(words[:most]), -math.inf
        for start in range(len(sentences)):
            run: list[str] = []
            for sentence in sentences[start:]:
                if run and sum(len(one.split()) for one in run) + len(sentence.split()) > most:
                    break
                run.append(sentence)
            joined = " ".join(run)
            if answer is not None and answer.lower() not in joined.lower():
                continue
            value = sum(self._idf.get(word, 3.0) for word in asked & set(_words(joined)))
            value += self._rng.gauss(0.0, 2.0)
            if value > best_value:
                best, best_value = joined, value
        return " ".join(best.split()[: most + 30])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def unanswered(folder: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Source, question and passages of the pack's questions that no passage answers."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    answered = set()
    for path in sorted(folder.glob("train-*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                if row["lang"] != "en":
                    continue
                if row["label"]:
                    answered.add(row["qid"])
                else:
                    found[row["source"], f"{row['qid']}\0{row['question']}"].append(row["passage"])
    return [
        (source, key.partition("\0")[2], tuple(passages))
        for (source, key), passages in found.items()
        if key.partition("\0")[0] not in answered
    ]


def documented(path: Path) -> list[TrainingQuestion]:
    """The questions of `tools.sufficiency.documentation`; half of the sections with headings."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    return [
        TrainingQuestion(
            id=row["id"],
            text=row["question"],
            passage=f"{row['heading']}\n{row['answer']}" if number % 2 else row["answer"],
            topic=row["site"],
            source="documentation",
            negatives=tuple(row["rivals"]),
        )
        for number, row in enumerate(rows)
    ]


def with_rivals(
    questions: Sequence[TrainingQuestion], pools: Mapping[str, Sequence[str]]
) -> list[TrainingQuestion]:
    """The questions with the passages of their documents that share most words with them."""
    found = []
    for topic, pool in pools.items():
        vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        rows = vectors.fit_transform(pool)
        for one in (one for one in questions if one.topic == topic):
            near = (rows @ vectors.transform([one.text]).T).toarray()[:, 0].argsort()[::-1]
            rivals = [pool[place] for place in near[:10] if pool[place] != one.passage]
            found.append(replace(one, negatives=tuple(rivals[:8])))
    return found


class Groups:
    """Every question with its passages, cut anew in each pass."""

    def __init__(self, pack: Path, faq: Path, mined: Path, documentation: Path) -> None:
        kept = json.loads(mined.read_text(encoding="utf-8"))
        texts = kept["texts"]
        rows = np.load(mined.with_suffix(".npy")).astype(np.float32)
        self._vectors = dict(zip(texts, rows, strict=True))
        self._rivals = {key: [texts[i] for i in found] for key, found in kept["rivals"].items()}
        rules = with_rivals(*rule_questions(faq))
        pairs = read_pairs(sorted(pack.glob("train-*.jsonl.xz")))
        sections = documented(documentation)
        self._questions = [*pairs, *site_questions(faq, SITES), *rules, *sections]
        self._unanswered = unanswered(pack)
        self._texts = [one.passage for one in self._questions]
        self._names = [name for one in self._questions for name in names_of(one.text)]

    def one_pass(self, seed: int) -> Iterator[Group]:
        """All questions in random order, each source by its share."""
        rng = random.Random(seed)
        cutter = Cutter(self._texts, seed)
        words = [word for text in rng.sample(self._texts, 200) for word in text.split()]
        told = NothingTold(self._names, words, rng)
        plan: list[TrainingQuestion | tuple[str, str, tuple[str, ...]]] = []
        everything: list[TrainingQuestion | tuple[str, str, tuple[str, ...]]] = [
            *self._questions,
            *self._unanswered,
        ]
        for one in everything:
            source = one.source if isinstance(one, TrainingQuestion) else one[0]
            share = SHARES.get(source, 1.0)
            plan += [one] * (int(share) + (rng.random() < share % 1))
        rng.shuffle(plan)
        for one in plan:
            if isinstance(one, TrainingQuestion):
                group = self._answered(one, cutter, rng)
            else:
                source, question, passages = one
                most = cutter.words()
                chosen = rng.sample(passages, min(_NEGATIVES, len(passages)))
                cut = tuple(cutter.cut(text, question, None, most) for text in chosen)
                group = Group(source, question, cut, (0,) * len(cut))
            group = _with_named(group, told, rng)
            if rng.random() < _CARELESS:
                group = replace(group, question=group.question.lower().rstrip("? "))
            yield group

    def _answered(self, one: TrainingQuestion, cutter: Cutter, rng: random.Random) -> Group:
        most = cutter.words()
        if one.id in self._rivals:
            own = self._vectors[one.passage]
            near = [t for t in self._rivals[one.id][:8] if float(own @ self._vectors[t]) < _SAME]
            chosen = rng.sample(near, min(_NEGATIVES, len(near)))
        else:
            chosen = rng.sample(list(one.negatives), min(_NEGATIVES, len(one.negatives)))
        # Where the answer's place is not known, every passage is cut at its end.
        placed = one.answer is not None and one.answer.lower() in one.passage.lower()
        texts = [
            cutter.cut(text, one.text, one.answer if placed and text is one.passage else None, most)
            if placed
            else " ".join(text.split()[:_MOST_WORDS])
            for text in [one.passage, *chosen]
        ]
        return Group(one.source, one.text, tuple(texts), (1, *(0 for _ in chosen)))


def _with_named(group: Group, told: NothingTold, rng: random.Random) -> Group:
    """The group with passages that name what is asked and tell nothing, in place of others."""
    passages, labels = list(group.passages), list(group.labels)
    others = [text for text, label in zip(passages, labels, strict=True) if not label]
    if labels[0] and rng.random() < _SWAPPED:
        swapped = told.swapped(group.question, passages[0], others)
        if swapped is not None:
            passages[len(passages) - 1 if len(passages) > _NEGATIVES else len(passages) :] = [
                swapped
            ]
            labels = [1, *[0] * (len(passages) - 1)]
    if rng.random() < _NAMED:
        made = told.passage(group.question, others)
        if len(passages) > _NEGATIVES:
            passages[1] = made
        else:
            passages.append(made)
            labels.append(0)
    if labels[0] and rng.random() < _BESIDE:
        passages[0] = told.beside(group.question, passages[0], others)
    return Group(group.source, group.question, tuple(passages), tuple(labels))
