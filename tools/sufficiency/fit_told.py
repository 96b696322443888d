"""Fit what tells an answer from a stub beside a copy of the question.

    python -m tools.sufficiency.fit_told --faq DIR --pack DIR --folder DIR

`--faq` is the folder of question–answer pairs, `--pack` the sufficiency pack, `--folder` holds the
adapter and the mix, into which the weights are written. Questions stand before, in and after
their own answer, the answer to another question, a phrase of `stubs.txt` and indexes of questions;
what is left beside the question is to be told apart. Six sites of the FAQ folder are left for
evaluation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_jsonl
from knowgate.guard.signals.relevance.match_model import EchoMix, MatchModel
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer, beyond, told_values
from tools.sufficiency.fit_mix import LENGTH_PENALTY, feature_probe
from tools.sufficiency.pairs import read_pairs

SITES = (
    "ada", "azure_security", "btcpay", "business_central", "directfile", "foia", "va",
    "windows_ai", "wsl",
)  # fmt: skip
SOURCES = ("clapnq_dev", "covid_faq", "fairytaleqa", "medquad", "selqa", "squad2_dev")
FORMS = (
    "{q}\n{a}", "Q: {q} A: {a}", "{q} {a}", "Question: {q}\nAnswer: {a}", "# {q}\n\n{a}",
    "FAQ 3. {q} - {a}",
)  # fmt: skip
_STUBS = Path(__file__).with_name("stubs.txt")
_QUESTIONS, _PAIRS = 40, 200
_FAR, _INDEX, _OTHERS = 0.3, 10, 4
_SEED = 0
_RIDGE = 0.5
# Taken off the log-odds: in doubt a copy of the question counts less.
_CAUTION = 0.4


@dataclass(frozen=True, slots=True)
class Echo:
    """A passage that holds a question and something else.

    Attributes:
        answers: whether the rest answers the question.
        weight: in the fit.
        others: what is retrieved beside it, none of which answers.
    """

    question: str
    passage: str
    answers: bool
    weight: float
    others: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit what tells an answer from a stub.")
    parser.add_argument("--faq", type=Path, required=True)
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    embedder, rng = BiEncoderScorer(), Random(_SEED)
    cases = [
        case
        for pairs in knowledge_bases(arguments.faq, arguments.pack)
        for case in echoes(pairs, embedder, rng)
    ]
    scorer = SufficiencyScorer(arguments.folder, model=feature_probe(LENGTH_PENALTY))
    rows, kept = [], []
    for case in cases:
        values = told_features(scorer, case)
        if values is not None:
            rows.append(values)
            kept.append(case)
    mix = fitted(rows, kept)
    path = arguments.folder / "sufficiency.json"
    MatchModel.load(path).model_copy(update={"told": mix}).save(path)
    print(f"{len(kept)} of {len(cases)} passages with a rest: {mix}")


def told_features(scorer: SufficiencyScorer, case: Echo) -> list[float] | None:
    """The values that `model.told` is fitted on, of a passage beside others.

    None where there is nothing to weigh: the passage has no text that asks, or tells nothing
    after the question.
    """
    parts = scorer.stated(case.question, (case.passage, *case.others))
    if not parts[0].stated or parts[0].replied == "":
        return None
    # Only what they tell is needed, and of its own what it tells after the question.
    told = [parts[0].texts[-1], *(one.texts[:2][-1] for one in parts[1:] if one.texts)]
    plain = [replace(parts[0], kept=one, stated=None, replied=None) for one in told]
    [(tokens, matches)] = scorer.matched([case.question], [plain])
    own, *rest = (told_values(tokens, told) for _, told, _ in matches)
    return beyond(own, rest)


def knowledge_bases(faq: Path, pack: Path) -> Iterator[list[tuple[str, str]]]:
    """Pairs of a question and its answer, of a site or a source."""
    for site in SITES:
        yield [(row["question"], row["answer"]) for _, row in read_jsonl(faq / f"{site}.jsonl")]
    rng = Random(_SEED)
    questions = read_pairs([pack / "dev.jsonl.xz"])
    for source in SOURCES:
        pairs = list({q.text: q.passage for q in questions if q.source == source}.items())
        rng.shuffle(pairs)
        yield pairs[:_PAIRS]


def echoes(
    pairs: Sequence[tuple[str, str]], embedder: BiEncoderScorer, rng: Random
) -> Iterator[Echo]:
    """Passages with a question of these pairs."""
    stubs, praise = (
        part.split("\n") for part in _STUBS.read_text(encoding="utf-8").strip().split("\n\n")
    )
    questions, answers = [q for q, _ in pairs], [a for _, a in pairs]
    similar = embedder.embed(questions) @ embedder.embed(answers).T
    for place in rng.sample(range(len(pairs)), min(_QUESTIONS, len(pairs))):
        question, answer = pairs[place]
        order = np.argsort(-similar[place], kind="stable").tolist()
        others = [i for i in order if answers[i] != answer]
        far = [i for i in others if similar[place][i] < _FAR] or others[-5:]
        middle = others[len(others) // 10 :]
        nearest = tuple(answers[i] for i in others[:_OTHERS])
        index = [questions[i] for i in rng.sample(others, min(_INDEX - 1, len(others)))]
        for text, answered, weight in (
            (answer, True, 6.0),
            (answers[rng.choice(far)], False, 1.0),
            (answers[rng.choice(middle)], False, 0.5),
            (rng.choice(stubs), False, 1.0),
        ):
            yield Echo(
                question, rng.choice(FORMS).format(q=question, a=text), answered, weight, nearest
            )
        yield Echo(question, f"{rng.choice(praise)} {question}", False, 0.5, nearest)
        listed = rng.sample([*index, question], len(index) + 1)
        yield Echo(question, "\n".join(listed), False, 0.3, nearest)
        yield Echo(question, answer, True, 1.0, nearest)


def fitted(rows: Sequence[Sequence[float]], cases: Sequence[Echo]) -> EchoMix:
    """Logistic regression with a ridge on standardised weights."""
    from sklearn.linear_model import LogisticRegression

    x = np.asarray(rows)
    centre, spread = x.mean(axis=0), x.std(axis=0)
    found = LogisticRegression(C=1 / (2 * _RIDGE)).fit(
        (x - centre) / spread,
        [case.answers for case in cases],
        sample_weight=[case.weight for case in cases],
    )
    weights = found.coef_[0] / spread
    bias = float(found.intercept_[0] - weights @ centre) - _CAUTION
    return EchoMix(bias=round(bias, 5), weights=tuple(round(float(w), 5) for w in weights))


if __name__ == "__main__":
    main()
