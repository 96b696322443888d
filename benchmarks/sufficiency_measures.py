"""What `sufficiency.py` measures of one scorer on one set of cases."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from sufficiency_cases import Case, CaseSet

from knowgate.calibration import Interval, ReliabilityDiagram, SelectiveCurve
from knowgate.calibration.training.cases import TrainingQuestion
from knowgate.calibration.training.sufficiency import tune_relevance
from knowgate.guard import RelevanceScorer
from knowgate.guard.fingerprint import aggregator, default_aggregator
from knowgate.guard.policy import default_calibrator
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer

LEAKS = (0.05, 0.10, 0.20)
FOLDS, SEED = 5, 0
TIMED = 12
BATCH = 64

Adapt = Callable[[Sequence[Case]], Any]


@dataclass(frozen=True)
class Judgement:
    """What a scorer says about one list of passages.

    Attributes:
        case: whose passages.
        sufficient: whether they are the positives.
        raw: the question-level value.
        relevance: the same, calibrated.
        best: the best passage.
        best_score: its score.
    """

    case: Case
    sufficient: bool
    raw: float
    relevance: float
    best: str
    best_score: float


@dataclass(frozen=True)
class Cell:
    """One scorer on one set.

    Attributes:
        scorer: its name.
        set_name: the set.
        auroc: with its bootstrap interval over questions.
        false_abstention: by leak.
        ece: of the calibrated relevance.
        unsupported: share of questions in a language that the scorer does not know.
        cold: milliseconds per question with nothing cached, None where not timed.
        cached: milliseconds per question with its passages cached, likewise.
        judgements: all of them, for the examples.
    """

    scorer: str
    set_name: str
    auroc: Interval
    false_abstention: dict[float, float | None]
    ece: float | None
    unsupported: float
    cold: float | None
    cached: float | None
    judgements: tuple[Judgement, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the judgements."""
        return {
            "scorer": self.scorer,
            "set": self.set_name,
            "auroc": self.auroc.to_dict(),
            "false_abstention": {f"{k:.2f}": v for k, v in self.false_abstention.items()},
            "ece": self.ece,
            "unsupported": self.unsupported,
            "ms_cold": self.cold,
            "ms_cached": self.cached,
        }


def aggregator_of(scorer: Any) -> str:
    """The aggregator that the scorer is used with unless another is named."""
    return default_aggregator(scorer.fingerprint.kind)


def supports(scorer: Any, question: str) -> bool:
    """Whether the scorer takes a question in this language; all do that do not say."""
    asked = getattr(scorer, "supports", None)
    return asked is None or bool(asked(question))


def progress(text: str) -> None:
    """One line on standard error, written over where that is a terminal."""
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{text:<78}", end=end, file=sys.stderr, flush=True)


def judge(
    scorer: Any, cases: Sequence[Case], *, each: bool, label: str = "", how: str | None = None
) -> list[Judgement]:
    """Both passage lists of every case.

    Args:
        scorer: has `score_pairs`, and `score_sets` where its aggregator is `joint`.
        cases: questions that the scorer supports.
        each: judge every passage by itself.
        label: named in the progress.
        how: aggregator; None for the scorer's default.
    """
    how = aggregator_of(scorer) if how is None else how
    calibrator = default_calibrator(scorer.fingerprint)
    rows: list[tuple[Case, bool, tuple[str, ...]]] = []
    for case in cases:
        for sufficient, passages in ((True, case.positives), (False, case.negatives)):
            if not passages:
                continue
            lists = [(text,) for text in passages] if each else [passages]
            rows.extend((case, sufficient, part) for part in lists)
    found = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        values = scored(scorer, [(case.question, texts) for case, _, texts in part], how)
        for (case, sufficient, texts), (raw, scores) in zip(part, values, strict=True):
            best = max(range(len(texts)), key=scores.__getitem__)
            found.append(
                Judgement(case, sufficient, raw, calibrator.apply(raw), texts[best], scores[best])
            )
        if start // BATCH % 5 == 4:
            progress(f"{label}: {len(found)} of {len(rows)}")
    return found


def scored(
    scorer: Any, asked: Sequence[tuple[str, tuple[str, ...]]], how: str
) -> list[tuple[float, list[float]]]:
    """Question-level value and passage scores, for each question with its passages."""
    if how == "joint":
        sets = scorer.score_sets([q for q, _ in asked], [list(texts) for _, texts in asked])
        return [(float(one.joint), [float(s) for s in one.scores]) for one in sets]
    pairs = [(question, text) for question, texts in asked for text in texts]
    scores = iter(scorer.score_pairs(pairs).tolist())
    combine = aggregator(how)
    lists = [[next(scores) for _ in texts] for _, texts in asked]
    return [(combine(values), values) for values in lists]


def cross_validated(cases: Sequence[Case], adapt: Adapt, *, label: str = "") -> list[Judgement]:
    """Judgements of each question by a scorer that was adapted to the other folds' questions.

    Args:
        cases: questions, at least two; each is in one fold.
        adapt: cases → a scorer.
        label: named in the progress.
    """
    order = list(range(len(cases)))
    Random(SEED).shuffle(order)
    folds = [order[at::FOLDS] for at in range(min(FOLDS, len(order)))]
    found = []
    for number, held_out in enumerate(folds, start=1):
        left_out = set(held_out)
        progress(f"{label}: adapting to fold {number} of {len(folds)}")
        scorer = adapt([case for at, case in enumerate(cases) if at not in left_out])
        found += judge(scorer, [cases[at] for at in sorted(left_out)], each=False, label=label)
    return found


def source_of(case: Case) -> str:
    """The passage that suffices: what is retrieved with it in place and not without it."""
    return next(passage for passage in case.positives if passage not in case.negatives)


def adaptation() -> Adapt:
    """Self-adaptation of the default scorer to labelled cases."""

    def adapt(cases: Sequence[Case]) -> RelevanceScorer:
        questions = [
            TrainingQuestion(
                id=str(at),
                text=case.question,
                passage=source_of(case),
                topic="",
            )
            for at, case in enumerate(cases)
        ]
        with TemporaryDirectory() as folder:
            tune_relevance(questions, Path(folder), judge=False)
            return SufficiencyScorer(folder)

    return adapt


def by_question(judgements: Sequence[Judgement]) -> list[tuple[list[float], list[float]]]:
    """Per question the values of its sufficient and of its insufficient passages."""
    found: dict[int, tuple[list[float], list[float]]] = {}
    for one in judgements:
        lists = found.setdefault(id(one.case), ([], []))
        lists[0 if one.sufficient else 1].append(one.raw)
    return list(found.values())


def verdict_cells(case_set: CaseSet) -> list[Cell]:
    """The judges whose verdicts were logged.

    The AUROC of a verdict is its balanced accuracy; it has no threshold to choose.
    """
    found = []
    for logged, values in sorted(case_set.verdicts.items()):
        judgements = [
            Judgement(case, bool(case.positives), value, value, "", value)
            for case, value in zip(case_set.cases, values, strict=True)
        ]
        one = cell(f"verdict of {logged}", case_set, judgements)
        found.append(replace(one, false_abstention=dict.fromkeys(LEAKS), ece=None))
    return found


def cell(
    name: str,
    case_set: CaseSet,
    judgements: Sequence[Judgement],
    *,
    unsupported: float = 0.0,
    times: tuple[float | None, float | None] = (None, None),
) -> Cell:
    """The figures of judgements."""
    positives = [one.raw for one in judgements if one.sufficient]
    negatives = [one.raw for one in judgements if not one.sufficient]
    return Cell(
        scorer=name,
        set_name=case_set.name,
        auroc=SelectiveCurve.bootstrap_auroc(by_question(judgements)),
        false_abstention={
            leak: SelectiveCurve.false_abstention(positives, negatives, leak) for leak in LEAKS
        },
        ece=ReliabilityDiagram.expected_error(
            [one.relevance for one in judgements], [one.sufficient for one in judgements]
        ),
        unsupported=unsupported,
        cold=times[0],
        cached=times[1],
        judgements=tuple(judgements),
    )


class Stopwatch:
    """Times one scorer, set after set.

    Args:
        scorer: with empty caches, used for nothing else.
        clock: seconds; that of the processor where other programs want it, too.
    """

    def __init__(self, scorer: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        self._scorer = scorer
        self._clock = clock
        self._how = aggregator_of(scorer)
        self._seen: set[str] = set()
        self._median([("Is it loaded?", ("It loads on first use.",))])

    def times(self, cases: Sequence[Case]) -> tuple[float | None, float | None]:
        """Median milliseconds per question and its positives: nothing cached, passages cached.

        Cases of which the scorer has seen no passage are timed first; their passages are then
        asked again with the questions of other cases, which it has not seen either.
        """
        fresh: list[Case] = []
        for case in cases:
            if len(fresh) < TIMED and self._seen.isdisjoint((case.question, *case.positives)):
                fresh.append(case)
                self._seen.update((case.question, *case.positives))
        unseen = [case.question for case in cases if case.question not in self._seen]
        again = list(zip(unseen, (case.positives for case in fresh), strict=False))
        self._seen.update(question for question, _ in again)
        cold = self._median([(case.question, case.positives) for case in fresh])
        return cold, self._median(again)

    def _median(self, asked: Sequence[tuple[str, tuple[str, ...]]]) -> float | None:
        taken = []
        for one in asked:
            start = self._clock()
            scored(self._scorer, [one], self._how)
            taken.append((self._clock() - start) * 1e3)
        return statistics.median(taken) if taken else None


def measure(name: str, scorer: Any, case_set: CaseSet, watch: Stopwatch) -> Cell:
    """One scorer on one set.

    Args:
        name: of the scorer.
        scorer: keeps its caches from set to set.
        case_set: the cases.
        watch: times another scorer of that name.
    """
    cases = [case for case in case_set.cases if supports(scorer, case.question)]
    label = f"{name} on {case_set.name}"
    progress(label)
    found = judge(scorer, cases, each=case_set.unit == "passage", label=label)
    return cell(
        name,
        case_set,
        found,
        unsupported=1 - len(cases) / len(case_set.cases) if case_set.cases else 0.0,
        times=watch.times([case for case in cases if case.positives]),
    )
