"""Fit what tells a sentence that answers from one that only mentions the subject.

    python -m tools.sufficiency.fit_mentions --faq DIR --pack DIR [--out FILE]

Two logistic models over the static vectors of words in all-MiniLM-L6-v2, so that words which
no template holds are weighed like those they resemble. The first tells words of
announcements, references and forms (`mentions.txt`, `stubs.txt`) from words of passages: how much
a word tells that is not the question's. The second judges a sentence by its words besides the
question's, against sentences of passages that answer: the development part of the pack and
nine FAQ sites. The threshold is the one below which 3 % of those lie; templates are left out in
turn to print how many mentions it finds.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import file_sha256, read_jsonl, write_text
from knowgate.guard.signals.relevance import _mentions as served
from knowgate.guard.signals.relevance._mentions import ASIDE
from tools.attack.mentions import clause_of, topic_of
from tools.sufficiency.fit_told import SITES
from tools.sufficiency.pairs import read_pairs

_TEXTS = Path(__file__).parent
_WORDS, _PASSAGES, _QUESTIONS, _EACH = 16_000, 6_000, 3_000, 25
_RIDGE_WORDS, _RIDGE_SENTENCES, _SPREAD = 0.1, 33.0, 0.3
_FLAGGED, _FOLDS, _SEED = 0.03, 5, 0
_OPENING = re.compile(
    r"^(?:\W*(?:what|which|who|when|where|why|how|is|are|was|were|do|does|did|can|could|will|would"
    r"|should|i|my|the|a|you|we|many|much|long)\b)+\W*",
    re.I,
)
Floats = NDArray[np.float64]
# A question and a segment of a text.
Pair = tuple[str, served.Segment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faq", type=Path, required=True)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=served.MENTIONS_FILE)
    arguments = parser.parse_args()
    vectors = word_vectors()
    rng = Random(_SEED)
    pack = [(one.text, one.passage) for one in read_pairs([arguments.pack / "dev.jsonl.xz"])]
    rng.shuffle(pack)
    faq = [
        (row["question"], row["answer"])
        for site in SITES
        for _, row in read_jsonl(arguments.faq / f"{site}.jsonl")
    ]
    new = filling_words(vectors, [passage for _, passage in pack[:_PASSAGES]])
    blank = served.MentionModel(dict.fromkeys(vectors, 0.0), new, {}, 0.0, 0.0)
    told = [answering(pack[:-_QUESTIONS]), answering([*faq, *faq])]
    asked = [question for question, _ in [*pack[-_QUESTIONS:], *faq]]
    empty = mentioning(asked, rng)
    model = fitted(vectors, blank, told, empty)
    write_text(arguments.out, json.dumps(model, indent=0, ensure_ascii=False) + "\n")
    print(f"{arguments.out}: sha256 {file_sha256(arguments.out)}")


def word_vectors() -> dict[str, Floats]:
    """Unit vectors of the first whole words of the vocabulary, most frequent first."""
    loaded = BiEncoderScorer().loaded
    weights = load_file(loaded.folder / "encoder.safetensors")
    # Stored as whole numbers with one scale per word, which unit vectors do not depend on.
    table = weights["embeddings.word_embeddings.weight"].astype(np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    vocabulary = loaded.tokenizer.backend_tokenizer.get_vocab()
    found = sorted((place, piece) for piece, place in vocabulary.items())
    whole = [(piece, place) for place, piece in found if piece.isascii() and piece.isalpha()]
    digit = next((piece, place) for place, piece in found if piece == "7")
    return {piece: table[place] for piece, place in [*whole[:_WORDS], digit]}


def filling_words(vectors: dict[str, Floats], passages: Sequence[str]) -> dict[str, float]:
    """How much each word tells, in [0, 1]; words that tell all but everything are left out."""
    from sklearn.linear_model import LogisticRegression

    templates = [line.replace("{t}", " ") for line in _lines()]
    counted = [
        Counter(word for text in texts for word in set(served.Segment.of(text).words) - ASIDE)
        for texts in (templates, passages)
    ]
    words = [
        word
        for word in vectors
        if word not in ASIDE and (counted[0][word] or counted[1][word] >= 3)
    ]
    rows = np.stack([vectors[word] for word in words])
    weights = [np.array([side[word] for word in words], dtype=float) for side in counted]
    weights = [one * len(words) / (2 * one.sum()) for one in weights]
    fit = LogisticRegression(C=1 / _RIDGE_WORDS, max_iter=500).fit(
        np.concatenate([rows, rows]),
        np.repeat([0, 1], len(words)),
        sample_weight=np.concatenate(weights),
    )
    share = fit.predict_proba(np.stack(list(vectors.values())))[:, 1]
    found = zip(vectors, share.tolist(), strict=True)
    return {word: round(value, 2) for word, value in found if value < 0.97}


def _lines() -> list[str]:
    texts = [(_TEXTS / name).read_text(encoding="utf-8") for name in ("mentions.txt", "stubs.txt")]
    return [line for text in texts for line in text.splitlines() if line]


def answering(pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """At most two sentences of each passage that hold much of its question."""
    found = []
    for question, passage in pairs:
        parts = [one for one in served.segments_of(passage) if _judged(question, one)]
        found += [(question, one) for one in parts[:2]]
    return found


def mentioning(questions: Sequence[str], rng: Random) -> list[tuple[Pair, int]]:
    """Sentences of templates about the subjects of questions, each with its template."""
    found = []
    for place, template in enumerate((_TEXTS / "mentions.txt").read_text("utf-8").splitlines()):
        for question in rng.sample(questions, _EACH):
            span = _OPENING.sub("", question.strip().rstrip("?. "))
            topic = rng.choice([topic_of(question), span, clause_of(question)])
            parts = served.segments_of(template.replace("{t}", topic))
            found += [((question, one), place) for one in parts if _judged(question, one)]
    return found


def _judged(question: str, segment: served.Segment) -> bool:
    content = served.Segment.of(question).kinds - ASIDE
    covered = len(content & segment.kinds)
    return covered > 0 and covered >= served.COVERED * len(content)


def row(pair: Pair, vectors: dict[str, Floats], model: served.MentionModel) -> Floats:
    """The sum of the vectors of a sentence's other words, their number, and its features."""
    asked = served.read_question(pair[0], model)
    others = served.other_words(asked, pair[1])
    known = [vectors[word] for word in others if word in vectors]
    total = np.sum(known, axis=0) if known else np.zeros(len(next(iter(vectors.values()))))
    features = served.features_of(asked, pair[1], others, model)
    return np.concatenate([total, [float(len(known))], list(features.values())])


def fitted(
    vectors: dict[str, Floats],
    blank: served.MentionModel,
    told: Sequence[Sequence[Pair]],
    empty: Sequence[tuple[Pair, int]],
) -> dict[str, Any]:
    """The second model as it is stored; sources of answers count the same."""
    from sklearn.linear_model import LogisticRegression

    real = [pair for side in told for pair in side]
    rows = np.stack([row(pair, vectors, blank) for pair in [*real, *(pair for pair, _ in empty)]])
    labels = np.r_[np.ones(len(real)), np.zeros(len(empty))]
    weights = np.r_[
        *(np.full(len(side), 0.25 / len(side)) for side in told),
        np.full(len(empty), 0.5 / len(empty)),
    ] * len(rows)
    folds = np.r_[np.arange(len(real)) % _FOLDS, [place % _FOLDS for _, place in empty]]
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    size = len(next(iter(vectors.values())))
    spread[:size] = _SPREAD
    scaled = (rows - centre) / spread

    def fit(chosen: NDArray[np.bool_]) -> Any:
        model = LogisticRegression(C=1 / _RIDGE_SENTENCES, max_iter=500)
        return model.fit(scaled[chosen], labels[chosen], sample_weight=weights[chosen])

    left_out = np.zeros(len(rows))
    for fold in range(_FOLDS):
        left_out[folds == fold] = fit(folds != fold).decision_function(scaled[folds == fold])
    for share in (0.01, 0.02, _FLAGGED, 0.05, 0.1):
        below = np.quantile(left_out[labels == 1], share)
        print(f"{share:.0%} of answers below: {np.mean(left_out[labels == 0] < below):.1%} found")
    whole = fit(np.ones(len(rows), dtype=bool))
    found = whole.coef_[0] / spread
    scores = whole.decision_function(scaled)
    names = list(served.features_of(served.read_question(real[0][0], blank), real[0][1], [], blank))
    return {
        "fitted_on": f"{len(real)} sentences that answer, {len(empty)} that mention",
        "bias": round(float(whole.intercept_[0] - found @ centre), 4),
        "threshold": round(float(np.quantile(scores[labels == 1], _FLAGGED)), 4),
        "features": dict(zip(names, found[size + 1 :].round(4).tolist(), strict=True)),
        "new": blank.new,
        "words": {
            word: round(float(vector @ found[:size] + found[size]), 2)
            for word, vector in vectors.items()
        },
    }


if __name__ == "__main__":
    main()
