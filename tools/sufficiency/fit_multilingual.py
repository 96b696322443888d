"""Fit the multilingual scorer: what its token vectors are projected on, and its mix.

    python -m tools.sufficiency.fit_multilingual projection --xquad DIR
    python -m tools.sufficiency.fit_multilingual mix --xquad DIR --pack DIR

`--xquad` holds `xquad.LANGUAGE.even.json`, `--pack` the sufficiency pack, of which DRCD (Chinese)
is read. `projection` needs no questions: it centres the token vectors of XQuAD's passages, keeps
their main directions and brings these nearer to one length, which takes out most of what tells
languages apart. `mix` prints AUROC of five passages with the right paragraph against five without
it. Articles are halved: each half is judged by a mix fitted on the other; for a language left out,
by one that was fitted without any text of it, too.

Source: Su et al. 2021, Whitening Sentence Representations (here of tokens, and in part).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from knowgate.calibration import SelectiveCurve
from knowgate.calibration.training.cases import (
    MixExample,
    SetCase,
    fit_match_model,
    mix_examples,
)
from knowgate.guard.engine.embedded import DATA
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.engine.multilingual import PROJECTION, PROJECTION_FILE
from knowgate.guard.files import file_sha256
from knowgate.guard.matching import normalise_answer
from knowgate.guard.model_files import MULTILINGUAL, MULTILINGUAL_SHA256, downloaded_model
from knowgate.guard.signals.relevance.match_model import TOLD_FEATURES, EchoMix, MatchModel
from knowgate.guard.signals.relevance.sufficiency import (
    MULTILINGUAL_FOLDER,
    SUFFICIENCY_FILE,
    MultilingualScorer,
)
from tools.multilingual_model import PROJECTED, matched_vectors
from tools.sufficiency.drawing import weighed
from tools.sufficiency.fit_mix import feature_probe, joint
from tools.sufficiency.pairs import read_pairs

LANGUAGES = ("ar", "de", "en", "es", "ru", "zh")
DRCD = "drcd"
# Beside each language with English.
_PAIRS = (("de", "zh"), ("ru", "ar"), ("es", "de"), ("zh", "es"))
# Of the spread along a direction: 0 keeps it, 0.5 makes all alike.
_POWER = 0.15
_RIDGE, _SEED = 0.05, 5
_EVERY, _DRCD_QUESTIONS, _TOP = 3, 300, 5
# How many questions have sets of fewer passages, too.
_FEWER = 0.3
# How many are joined with the one before, where that is about something else.
_JOINED = 0.3
# How much of the text that asks counts, on the scale of log-odds: see `EchoMix`.
_TOLD = EchoMix(bias=-2.0, weights=(0.0,) * len(TOLD_FEATURES))
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Article:
    """An article of XQuAD in one language; asked: id, question, answer, place of the paragraph."""

    paragraphs: list[str]
    asked: list[tuple[str, str, str, int]]


@dataclass(frozen=True)
class Asked:
    """A question, the passage that answers it, and the answer in the passage's language."""

    question: str
    passage: str
    answer: str


@dataclass(frozen=True)
class Pool:
    """Passages in one language, as they are compared."""

    texts: list[str]
    plain: list[str]
    embeddings: Floats

    @classmethod
    def of(cls, texts: list[str], embed: Callable[[Sequence[str]], Floats]) -> Pool:
        """Prepare passages."""
        return cls(texts, list(map(normalise_answer, texts)), embed(texts))


@dataclass(frozen=True)
class LabelledCase:
    """A set of passages with what is needed to part the data."""

    case: SetCase
    asked_in: str
    told_in: str
    half: int


def read_articles(folder: Path, language: str) -> list[Article]:
    """The articles, in the same order for every language."""
    found = []
    data = json.loads((folder / f"xquad.{language}.even.json").read_text("utf-8"))["data"]
    for article in data:
        paragraphs = article["paragraphs"]
        asked = [
            (row["id"], row["question"], row["answers"][0]["text"], place)
            for place, paragraph in enumerate(paragraphs)
            for row in paragraph["qas"]
        ]
        found.append(Article([one["context"] for one in paragraphs], asked))
    return found


def fit_projection(vectors: Floats) -> tuple[Floats, Floats]:
    """Weight and bias that centre vectors, keep their main directions and even these out."""
    centre = vectors.mean(axis=0, dtype=np.float64)
    away = vectors - centre
    spread, directions = np.linalg.eigh(away.T @ away / len(away))
    main = np.argsort(-spread)[:PROJECTED]
    weight = directions[:, main] * spread[main] ** -_POWER
    return weight.astype(np.float16), (-centre @ weight).astype(np.float16)


def write_projection(xquad: Path) -> None:
    """Fit the projection on every third token of XQuAD's passages and write it."""
    kept = []
    folder = downloaded_model(MULTILINGUAL, MULTILINGUAL_SHA256)
    for language in LANGUAGES:
        texts = [text for one in read_articles(xquad, language) for text in one.paragraphs]
        kept += [vectors[::3] for vectors in matched_vectors(folder, texts)]
        print(language, len(texts), flush=True)
    weight, bias = fit_projection(np.concatenate(kept))
    path = DATA / PROJECTION_FILE
    save_file({f"{PROJECTION}.weight": weight, f"{PROJECTION}.bias": bias}, str(path))
    print(f"{path.name} {path.stat().st_size:,} {file_sha256(path)}")


class Cases:
    """Sets of passages from XQuAD and DRCD, retrieved by the encoder itself."""

    def __init__(self, encoder: TokenEncoder) -> None:
        self._encoder = encoder
        self._random = Random(_SEED)
        self._other = Asked("", "", "")

    def xquad(self, folder: Path) -> Iterator[LabelledCase]:
        """Each language with itself, and with English and some others in both directions."""
        articles = {language: read_articles(folder, language) for language in LANGUAGES}
        across = [(one, "en") for one in LANGUAGES] + [("en", one) for one in LANGUAGES]
        pairs = dict.fromkeys([*((one, one) for one in LANGUAGES), *across, *_PAIRS])
        pools = {
            language: Pool.of([text for one in those for text in one.paragraphs], self._embedded)
            for language, those in articles.items()
        }
        for asked_in, told_in in pairs:
            both = zip(articles[asked_in], articles[told_in], strict=True)
            questions = [
                (Asked(question, told.paragraphs[place], answer), half % 2)
                for half, (asked, told) in enumerate(both)
                for (_, question, _, place), (_, _, answer, _) in zip(
                    asked.asked, told.asked, strict=True
                )
            ]
            for asked, half in questions[::_EVERY]:
                for case in self._sets(asked, pools[told_in], f"{asked_in}-{told_in}"):
                    yield LabelledCase(case, asked_in, told_in, half)

    def drcd(self, pack: Path) -> Iterator[LabelledCase]:
        """A sample of the development part."""
        rows = read_pairs([pack / "dev.jsonl.xz"], language="zh")
        rows = list({one.id: one for one in rows}.values())[:_DRCD_QUESTIONS]
        texts = dict.fromkeys(text for one in rows for text in (one.passage, *one.negatives))
        pool = Pool.of(list(texts), self._embedded)
        for one in rows:
            asked = Asked(one.text, one.passage, one.answer or one.passage)
            for case in self._sets(asked, pool, DRCD):
                yield LabelledCase(case, DRCD, DRCD, 0)

    def _sets(self, asked: Asked, pool: Pool, source: str) -> list[SetCase]:
        """The best five passages with the right one and without any; for some fewer passages.

        As in `benchmarks/sufficiency_cases.py`; the right one comes first.
        """
        near = pool.embeddings @ self._embedded([asked.question])[0]
        answer = normalise_answer(asked.answer)
        order = [i for i in np.argsort(-near).tolist() if pool.texts[i] != asked.passage]
        best = [pool.texts[i] for i in order[:_TOP]]
        others = [pool.texts[i] for i in order if answer not in pool.plain[i]]
        sets = [([asked.passage, *best[: _TOP - 1]], others[:_TOP])]
        if self._random.random() < _FEWER:
            size = self._random.choice((2, 3, 4))
            sets.append(([asked.passage, *others[: size - 1]], others[:size]))
        cases = self._pairs(asked.question, sets, source)
        other, self._other = self._other, asked
        if other.passage in others[_TOP:] and self._random.random() < _JOINED:
            # Two questions in one, with both passages and with one, which is half an answer.
            both = [asked.passage, other.passage, *others[: _TOP - 2]]
            half = [asked.passage, *others[: _TOP - 1]]
            text = f"{other.question} {asked.question}"
            cases += self._pairs(text, [(both, half)], source, compound=True)
        return cases

    @staticmethod
    def _pairs(
        question: str,
        sets: Sequence[tuple[list[str], list[str]]],
        source: str,
        compound: bool = False,
    ) -> list[SetCase]:
        return [
            SetCase("", question, tuple(texts), sufficient, source, compound)
            for both in sets
            for texts, sufficient in zip(both, (True, False), strict=True)
        ]

    def _embedded(self, texts: Sequence[str]) -> Floats:
        # As the scorer reads them, so that each is encoded once.
        return np.stack([windows[0].embedding for windows in self._encoder.encode(texts)])


def write_mix(xquad: Path, pack: Path) -> None:
    """Fit and write the mix; print what mixes fitted on parts of the data reach."""
    encoder = TokenEncoder(
        downloaded_model(MULTILINGUAL, MULTILINGUAL_SHA256), device="cpu", cache_bytes=2**31
    )
    cases = Cases(encoder)
    labelled = [*cases.xquad(xquad), *cases.drcd(pack)]
    Random(_SEED).shuffle(labelled)
    probe = feature_probe(0.0).model_copy(update={"told": _TOLD})
    scorer = MultilingualScorer(encoder=encoder, model=probe)
    print(f"{len(labelled)} sets", flush=True)
    sets = [one.case for one in labelled]
    examples = weighed(mix_examples(scorer, sets), sets)
    rows = list(zip(labelled, examples, strict=True))
    _print_held_out(rows, probe.features)
    note = f"{len(rows)} sets of DRCD and of XQuAD in {len(LANGUAGES)} languages"
    mix = _fit(rows, probe.features, note)
    path = MULTILINGUAL_FOLDER / SUFFICIENCY_FILE
    path.parent.mkdir(exist_ok=True)
    mix.save(path)
    print(f"{path.name} {file_sha256(path)}")


Row = tuple[LabelledCase, MixExample]


def levelled(rows: Sequence[Row]) -> list[MixExample]:
    """The examples, each kind of case on the level of those within a language.

    Matches across languages are worse throughout. Without this a mix would make up for it, and
    tell passages apart less well within every kind.
    """
    kinds: dict[tuple[str, bool], list[MixExample]] = {}
    for one, example in rows:
        kinds.setdefault((one.case.source, one.case.compound), []).append(example)
    levels = {
        kind: np.mean([np.max(one.vectors, axis=0) for one in those], axis=0)
        for kind, those in kinds.items()
    }
    within = {f"{name}-{name}" for name in LANGUAGES}
    common = np.mean(
        [level for (source, joined), level in levels.items() if source in within and not joined],
        axis=0,
    )
    found = []
    for kind, those in kinds.items():
        moved = common - levels[kind]
        for example in those:
            vectors = tuple(tuple((vector + moved).tolist()) for vector in example.vectors)
            together = tuple((example.joined + moved).tolist())
            found.append(replace(example, vectors=vectors, joined=together))
    return found


def _fit(rows: Sequence[Row], features: Sequence[str], note: str = "") -> MatchModel:
    return fit_match_model(
        levelled(rows),
        features=features,
        length_penalty=0.0,
        told=_TOLD,
        ridge=_RIDGE,
        fitted_on=note,
    )


def _print_held_out(rows: Sequence[Row], features: Sequence[str]) -> None:
    fit = partial(_fit, features=features)
    halves = [
        fit([row for row in rows if row[0].half != half or row[0].asked_in == DRCD])
        for half in (0, 1)
    ]
    pairs = sorted({(one.asked_in, one.told_in) for one, _ in rows})
    for pair in pairs:
        print(*pair, f"{_auroc(rows, [pair], halves):.3f}", flush=True)
    for left_out in LANGUAGES:
        names = {left_out, DRCD} if left_out == "zh" else {left_out}
        kept = [row for row in rows if not names & {row[0].asked_in, row[0].told_in}]
        without = [fit([row for row in kept if row[0].half != half]) for half in (0, 1)]
        others = [pair for pair in pairs if left_out in pair and pair[0] != pair[1]]
        own, across = (_auroc(rows, those, without) for those in ([(left_out, left_out)], others))
        print(f"{left_out} left out: {own:.3f}, across {across:.3f}", flush=True)


def _auroc(
    rows: Iterable[Row], pairs: Sequence[tuple[str, str]], models: Sequence[MatchModel]
) -> float:
    """The mean over the pairs; each half of the articles by the model of the other."""
    found = []
    kept = [row for row in rows if len(row[0].case.passages) == _TOP and not row[0].case.compound]
    for pair in pairs:
        scores: dict[bool, list[float]] = {True: [], False: []}
        for one, example in kept:
            if (one.asked_in, one.told_in) == pair:
                scores[one.case.sufficient].append(joint(models[one.half], example))
        if (auroc := SelectiveCurve.auroc(scores[True], scores[False])) is not None:
            found.append(auroc)
    return float(np.mean(found))


def main() -> None:
    """Write what is asked for into the package."""
    parser = argparse.ArgumentParser(description="Fit the multilingual scorer.")
    parser.add_argument("what", choices=("projection", "mix"))
    parser.add_argument("--xquad", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "projection":
        write_projection(arguments.xquad)
    else:
        write_mix(arguments.xquad, arguments.pack)


if __name__ == "__main__":
    main()
