"""Closed book or RAG? Routing per question from logged confidence scores.

    python benchmarks/routing_logs.py --data FILE --json OUT

FILE is JSON lines: `question`, `gold` (aliases), `closed_book` (`answer`, `perplexity`,
`energy_score`, `ln_entropy`, `eigen_score`) and `rag_answer`. An answer is right when a gold
alias occurs in it, letter case aside; `--label normalised` drops punctuation and articles too.

The router sees the scores, both answers and the question, never the gold. Only questions of
which exactly one answer is right tell the choices apart, so a ridge-penalised logistic
regression learns from those alone which answer it is. Its penalty is chosen by cross-validation
inside the training folds; where routing does not beat the better fixed choice there, the fixed
choice stays. Each prediction comes from folds without its question; the accuracy is the mean
over repeated foldings, its interval a bootstrap over questions, which leaves out the chance in
the training itself.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import Interval
from knowgate.guard import InputError, KnowgateError
from knowgate.guard.files import read_jsonl, write_json
from knowgate.guard.matching import is_refusal, normalise_answer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

SCORES = ("perplexity", "energy_score", "ln_entropy", "eigen_score")
# Inverse ridge penalties on offer: from hardly more than the base rate to hardly penalised.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
# Fewer questions than this for either choice teach nothing worth a cross-validation.
FEWEST_TO_LEARN = 5
OUTER_FOLDS, INNER_FOLDS = 10, 5
RESAMPLES = 10_000
# Everything but the question's embedding: a hundred telling questions are too few to learn one.
MAIN = "scores, answers, similarity"

OPENERS = ("who", "when", "where", "how", "what", "which")
_OPENER = re.compile(rf"\b({'|'.join(OPENERS)})(m|s|se)?\b")
_ASKS_NUMBER = re.compile(
    r"\b(when|how (many|much|old|long|tall|far|big)|(what|which) (year|date|day|month|number))\b"
)
_NO_ANSWER = re.compile(
    r"^\W*(no|none|nothing|n/?a)\W*$"
    r"|^\W*(there (is|are|was|were) (no|not|none)|none of|no (answer|information|mention))\b"
    r"|^\W*(not in the|unable to|(i am|i'm|we are) unable to)\b"
    r"|^[^.]*\b(not|never) (\w+ly )?(specified|mentioned|stated|available|given|provided|known)\b"
)


@dataclass(frozen=True, slots=True)
class LoggedQuestion:
    """One line of the log; `scores` in the order of `SCORES`."""

    question: str
    gold: tuple[str, ...]
    closed_book: str
    rag: str
    scores: tuple[float, ...]


# ---- reading


def read_log(path: str | Path) -> list[LoggedQuestion]:
    """The questions of a log file.

    Raises:
        InputError: no file, no question, or a field is missing or not what it should be.
    """
    found = [_parsed(row, f"{path}:{line}") for line, row in read_jsonl(path)]
    if len(found) < 3:
        raise InputError(
            f"{len(found)} questions", where=str(path), hint="cross-validation needs three or more"
        )
    return found


def _parsed(row: dict[str, Any], where: str) -> LoggedQuestion:
    question, gold, rag = (row.get(name) for name in ("question", "gold", "rag_answer"))
    found = row.get("closed_book")
    closed_book = found if isinstance(found, dict) else {}
    texts = isinstance(gold, list) and all(isinstance(alias, str) for alias in gold)
    aliases = tuple(alias for alias in gold if alias.strip()) if texts else ()
    demands = {
        "question must be a text": isinstance(question, str) and bool(question.strip()),
        "gold must be a list of texts, one of them not blank": bool(aliases),
        "closed_book must be an object": isinstance(found, dict),
        "closed_book.answer must be a text": isinstance(closed_book.get("answer"), str),
        **{
            f"closed_book.{name} must be a finite number": _is_finite(closed_book.get(name))
            for name in SCORES
        },
        "rag_answer must be a text": isinstance(rag, str),
    }
    for demand, met in demands.items():
        if not met:
            raise InputError(demand, where=where, hint="fix the line or leave it out")
    scores = tuple(float(closed_book[name]) for name in SCORES)
    return LoggedQuestion(str(question), aliases, closed_book["answer"], str(rag), scores)


def _is_finite(value: object) -> bool:
    # Not isfinite(), which chokes on integers of hundreds of digits.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


LABELS: dict[str, Callable[[str], str]] = {
    "contains": lambda text: text.strip().lower(),
    "normalised": normalise_answer,
}


def holds_gold(answer: str, gold: Iterable[str], fold: Callable[[str], str]) -> bool:
    """Whether a gold alias occurs in the answer, both folded."""
    folded = fold(answer)
    return any(alias and alias in folded for alias in map(fold, gold))


# ---- features


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that are scaled alike, shape (n, columns).

    `scaling` is `rank` (normal scores: the logged scores have heavy tails and no common unit),
    `standard`, or `components` (the first eight principal ones).
    """

    columns: Floats
    scaling: str


def answer_features(row: LoggedQuestion) -> list[float]:
    """What both answers and the question show without the gold."""
    question = normalise_answer(row.question)
    opener = _OPENER.search(question)
    asks_number = _ASKS_NUMBER.search(question) is not None
    closed_book, rag = normalise_answer(row.closed_book), normalise_answer(row.rag)
    features: list[float] = [
        closed_book == rag,
        _within(closed_book, rag),
        _within(rag, closed_book),
        _overlap(closed_book.split(), rag.split()),
        *(opener is not None and opener[1] == word for word in OPENERS),
        asks_number,
        math.log1p(len(question.split())),
    ]
    for raw, answer in ((row.closed_book, closed_book), (row.rag, rag)):
        words = answer.split()
        features += [
            says_no_answer(raw),
            math.log1p(len(words)),
            sum(word in question.split() for word in words) / max(1, len(words)),
            # A question for a date or a count is answered by a number, others seldom are.
            any(character.isdigit() for character in raw) == asks_number,
        ]
    return [float(feature) for feature in features]


def says_no_answer(text: str) -> bool:
    """Whether an answer is blank or begins by saying that there is none.

    Example:
        >>> says_no_answer("Not specified in the text."), says_no_answer("No Country for Old Men")
        (True, False)
    """
    return is_refusal(text) or _NO_ANSWER.search(text.lower()) is not None


def _within(short: str, long: str) -> bool:
    return bool(short) and f" {short} " in f" {long} "


def _overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of two bags of words."""
    shared = sum(min(first.count(word), second.count(word)) for word in set(first))
    return 2 * shared / max(1, len(first) + len(second))


def feature_sets(log: Sequence[LoggedQuestion]) -> dict[str, list[Block]]:
    """The sets that are compared, the main one among them."""
    from knowgate.guard.engine import BiEncoderScorer

    values = np.array([row.scores for row in log], dtype=np.float64)
    answers = np.array([answer_features(row) for row in log], dtype=np.float64)
    scorer = BiEncoderScorer()
    question, closed_book, rag = (
        np.asarray(scorer.embed([text.strip() or "-" for text in texts]), dtype=np.float64)
        for texts in zip(*((row.question, row.closed_book, row.rag) for row in log), strict=True)
    )
    pairs = ((question, closed_book), (question, rag), (closed_book, rag))
    cosines = np.stack([(first * second).sum(axis=1) for first, second in pairs], axis=1)
    logged, seen = Block(values, "rank"), Block(answers, "standard")
    alike = Block(cosines, "standard")
    return {
        **{name: [Block(values[:, [at]], "rank")] for at, name in enumerate(SCORES)},
        "scores": [logged],
        "answers": [seen],
        "scores, answers": [logged, seen],
        MAIN: [logged, seen, alike],
        "… and question embedding": [logged, seen, alike, Block(question, "components")],
    }


def scaled(blocks: Sequence[Block], train: Flags) -> Floats:
    """All columns of all questions, scaled by the training questions alone."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import QuantileTransformer, StandardScaler

    size = int(train.sum())
    parts = []
    for block in blocks:
        width = min(8, size, block.columns.shape[1])
        scaler = {
            "rank": QuantileTransformer(
                n_quantiles=min(100, size), output_distribution="normal", random_state=0
            ),
            "standard": StandardScaler(),
            "components": PCA(width, whiten=True, random_state=0),
        }[block.scaling]
        scaler.fit(block.columns[train])
        # Nothing unseen may outweigh all else.
        parts.append(np.clip(scaler.transform(block.columns), -3.0, 3.0))
    return np.hstack(parts)


# ---- routing


def assign_folds(strata: Sequence[int], groups: Sequence[str], k: int, seed: int) -> Indices:
    """The fold of each question, 0 … k−1: each stratum spread evenly, groups kept together.

    Args:
        strata: the kind of each question.
        groups: questions of one group, such as repeats, share a fold; the first one's
            stratum counts.
        k: folds; some stay empty where there are fewer groups.
        seed: of the shuffle.
    """
    stratum = dict(zip(reversed(groups), reversed(strata), strict=True))
    members = sorted(stratum)
    shuffled = [members[at] for at in np.random.default_rng(seed).permutation(len(members))]
    dealt = sorted(shuffled, key=lambda group: stratum[group])
    fold = {group: turn % k for turn, group in enumerate(dealt)}
    return np.array([fold[group] for group in groups], dtype=np.int64)


def takes_closed_book(
    features: Floats, difference: Indices, groups: Sequence[str], train: Flags, seed: int
) -> Flags:
    """For every question whether to take the closed-book answer, learnt on `train` alone.

    Args:
        features: scaled, shape (n, columns).
        difference: closed book right minus RAG right, −1, 0 or 1; read where `train` is true.
        groups: see `assign_folds`.
        train: the training questions.
        seed: of the inner folds.
    """
    # On a tie the context: it can be checked.
    fixed = bool(difference[train].sum() > 0)
    choice = np.full(len(difference), fixed)
    telling = np.flatnonzero(train & (difference != 0))
    closed_book = difference[telling] > 0
    if min(closed_book.sum(), (~closed_book).sum()) < FEWEST_TO_LEARN:
        return choice
    x, sign = features[telling], np.where(closed_book, 1.0, -1.0)
    held_out = _held_out_logits(x, closed_book, [groups[at] for at in telling], seed)
    if held_out is None:
        return choice
    # By log-loss, which is less jumpy than the accuracy on a hundred questions.
    best = int(np.logaddexp(0.0, -sign * held_out).mean(axis=1).argmin())
    gain = sign @ ((held_out[best] > 0).astype(np.float64) - float(fixed))
    if gain <= 0:
        return choice
    learnt: Flags = _fitted(x, closed_book, STRENGTHS[best]).decision_function(features) > 0
    return learnt


def _held_out_logits(
    x: Floats, closed_book: Flags, groups: Sequence[str], seed: int
) -> Floats | None:
    """Logits per strength and question, each from folds without the question."""
    folds = assign_folds(closed_book.astype(int).tolist(), groups, INNER_FOLDS, seed)
    logits = np.zeros((len(STRENGTHS), len(x)))
    for fold in np.unique(folds):
        test = folds == fold
        if len(np.unique(closed_book[~test])) < 2:
            return None
        for at, strength in enumerate(STRENGTHS):
            model = _fitted(x[~test], closed_book[~test], strength)
            logits[at, test] = model.decision_function(x[test])
    return logits


def _fitted(x: Floats, closed_book: Flags, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver="newton-cholesky").fit(x, closed_book)


def closed_book_share(
    blocks: Sequence[Block], difference: Indices, groups: Sequence[str], repeats: int
) -> Floats:
    """Per question the share of the foldings that take the closed-book answer, out of fold."""
    share = np.zeros(len(difference))
    for repeat in range(repeats):
        folds = assign_folds(difference.tolist(), groups, OUTER_FOLDS, seed=repeat)
        for fold in np.unique(folds):
            test = folds == fold
            if test.all():  # one question under many lines: nothing to learn from
                continue
            x = scaled(blocks, ~test)
            chosen = takes_closed_book(x, difference, groups, ~test, seed=repeat)
            share[test] += chosen[test]
    return share / repeats


def bootstrap_mean(values: Floats, *, seed: int = 0, confidence: float = 0.95) -> Interval:
    """Mean over questions with a percentile bootstrap interval over questions."""
    rng, n = np.random.default_rng(seed), len(values)
    drawn = [values[rng.integers(0, n, n)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(values.mean()), float(low), float(high), n)


# ---- reporting


def compared(log: Sequence[LoggedQuestion], label: str, repeats: int) -> dict[str, Any]:
    """All accuracies; prints each row of the table as it is known."""
    fold = LABELS[label]
    closed_book = np.array([holds_gold(row.closed_book, row.gold, fold) for row in log])
    rag = np.array([holds_gold(row.rag, row.gold, fold) for row in log])
    difference = closed_book.astype(np.int64) - rag.astype(np.int64)
    fixed = closed_book if difference.sum() > 0 else rag
    print(
        f"{len(log)} questions; only the closed-book answer right: {(difference > 0).sum()}, "
        f"only the RAG answer: {(difference < 0).sum()}"
    )
    print(f"\n{'route':<29}{'accuracy':<24}{'minus the better fixed choice'}")
    for name, right in (
        ("always closed book", closed_book),
        ("always RAG", rag),
        ("oracle", closed_book | rag),
    ):
        print(f"{name:<29}{_shown(Interval.wilson(int(right.sum()), len(log)))}")
    groups = [normalise_answer(row.question) for row in log]
    by_features = {}
    for name, blocks in feature_sets(log).items():
        turns = repeats if name == MAIN else math.ceil(repeats / 3)
        share = closed_book_share(blocks, difference, groups, turns)
        right = share * closed_book + (1 - share) * rag
        routed, gained = bootstrap_mean(right), bootstrap_mean(right - fixed)
        mark = " ← routed" if name == MAIN else ""
        print(f"{name:<29}{_shown(routed):<24}{_shown(gained, '+')}{mark}", flush=True)
        by_features[name] = {"routed": routed.to_dict(), "gain": gained.to_dict()}
    return {
        "n": len(log),
        "label": label,
        "closed_book": float(closed_book.mean()),
        "rag": float(rag.mean()),
        "oracle": float((closed_book | rag).mean()),
        **by_features[MAIN],
        "by_features": by_features,
    }


def _shown(found: Interval, sign: str = "-") -> str:
    return f"{found.value:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="JSON lines, as above")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--label", choices=LABELS, default="contains", help="when an answer counts")
    parser.add_argument("--repeats", type=int, default=9, help="foldings of the main row")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        log = read_log(args.data)
        import sklearn.linear_model  # noqa: F401 - only loaded libraries can be limited
        import torch
        from overhead import machine
        from threadpoolctl import threadpool_limits

        print(machine())
        # Thousands of small fits: threads that wait for each other cost far more than they give.
        torch.set_num_threads(1)
        with threadpool_limits(1):
            found = compared(log, args.label, args.repeats)
        low = found["gain"]["low"]
        print(f"\nthe gain's interval {'excludes' if low > 0 else 'does not exclude'} 0")
        if args.json:
            write_json(args.json, found)
    except KnowgateError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
