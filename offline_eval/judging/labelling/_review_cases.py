"""The left-out cases of a run in the order in which a person should read them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....guard.decision import Route
from ....guard.engine.encoder import TokenEncoder
from ....guard.engine.passage_store import EncodedText
from ....guard.errors import InputError
from ....guard.signals.relevance.late_interaction import best_cosines, token_weights, word_piece_idf
from ....guard.signals.relevance.sufficiency import SufficiencyScorer
from ...data.diversity.uniqueness import numbers_of, words_of
from ...run.calls import OnStep
from ...run.measured_run import MeasuredRun
from ...run.questions import MeasuredRow

PROBABLE = 0.6
"""Score from which on a passage is said to answer probably."""

_BATCH = 32
# They say which answer it is only together with the question.
_BARE = frozenset(("yes", "no", "yeah", "not"))


@dataclass(frozen=True, slots=True)
class Sought:
    """An answer that is looked for in passages.

    Attributes:
        question: whose words count only where the answer has no others.
        answer: may be empty; then it is found nowhere.
        passages: ids of those to look in.
    """

    question: str
    answer: str
    passages: tuple[str, ...]


def answer_scores(
    sought: Sequence[Sought],
    texts: Mapping[str, str],
    *,
    encoder: TokenEncoder | None = None,
    on_scored: OnStep | None = None,
) -> list[tuple[float, ...]]:
    """Score how probably each passage holds each answer.

    The score is the mean of two shares, times the share of the answer's numbers that stand in the
    passage (1 without numbers): of the answer's words those that stand there, each weighted by how
    few of the passages have it; and the mean cosine of its word pieces to their nearest ones there,
    weighted by inverse document frequency. Words of the question count only where the answer has
    no others. It orders what people read, and decides nothing.

    Args:
        sought: the answers.
        texts: of the passages; one that is missing here scores 0.
        encoder: of the embedded scorer where None.
        on_scored: called with the number of passages that are done, and of all.

    Returns:
        Per answer one score per passage, in [0, 1].
    """
    encoder = SufficiencyScorer().encoder if encoder is None else encoder
    used = sorted({name for one in sought for name in one.passages if name in texts})
    present = {name: frozenset(words_of(texts[name])) for name in used}
    frequency = Counter(word for words in present.values() for word in words)
    information = {word: math.log((len(used) + 1) / times) for word, times in frequency.items()}
    new = math.log(len(used) + 1)
    idf, encoded = word_piece_idf(encoder), encoder.encode_first([one.answer for one in sought])
    answers: list[_Score] = []
    for one, pieces in zip(sought, encoded, strict=True):
        telling = {word: information.get(word, new) for word in _telling(one)}
        answers.append(_scorer(one, telling, pieces, encoder, idf))
    found = [[0.0] * len(one.passages) for one in sought]
    wanted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, one in enumerate(sought):
        for place, name in enumerate(one.passages):
            wanted[name].append((at, place))
    for start in range(0, len(used), _BATCH):
        names = used[start : start + _BATCH]
        for name, windows in zip(names, encoder.encode([texts[n] for n in names]), strict=True):
            for at, place in wanted[name]:
                found[at][place] = answers[at](present[name], windows)
        if on_scored is not None:
            on_scored(start + len(names), len(used))
    return [tuple(scores) for scores in found]


def _telling(sought: Sought) -> frozenset[str]:
    """Words that tell the answer from others to the same question; all of them if none does."""
    words = frozenset(words_of(sought.answer))
    return (words - frozenset(words_of(sought.question)) - _BARE) or (words - _BARE)


_Score = Callable[[Set[str], Sequence[EncodedText]], float]


def _scorer(
    sought: Sought,
    words: Mapping[str, float],
    pieces: EncodedText,
    encoder: TokenEncoder,
    idf: NDArray[np.float32] | None,
) -> _Score:
    """What scores how probably a passage holds an answer.

    Args:
        sought: the answer.
        words: that tell it from others, with what each says.
        pieces: its word pieces.
        encoder: of these.
        idf: of all word pieces.
    """
    weights = token_weights(pieces, idf, encoder.unknown_id)
    asked = np.isin(pieces.ids[1:-1], encoder.pieces(sought.question))
    telling = np.where(asked, 0.0, weights)
    weights = telling if telling.sum() > 0.0 else weights
    numbers = numbers_of(sought.answer) - numbers_of(sought.question)
    total = math.fsum(words.values())

    def score(present: Set[str], windows: Sequence[EncodedText]) -> float:
        if total <= 0.0:
            return 0.0
        there = math.fsum(says for word, says in words.items() if word in present)
        near = 0.0
        if weights.sum() > 0.0:
            best = np.clip(best_cosines(pieces, windows), 0.0, 1.0)
            near = float((best * weights).sum() / weights.sum())
        named = len(numbers & present) / len(numbers) if numbers else 1.0
        return named * (there / total + near) / 2

    return score


@dataclass(frozen=True, slots=True)
class ReviewPassage:
    """A passage that was retrieved although the source was left out.

    Attributes:
        passage_id: as in the run.
        text: None where the run does not hold it.
        source: of the document, where it is known.
        relevance: its raw score; None for one without text.
        likely: how probably it answers, in [0, 1]; see `answer_scores`.
    """

    passage_id: str
    text: str | None
    source: str
    relevance: float | None
    likely: float

    @property
    def heading(self) -> str:
        """What it is called: its id, and its source where that is not in the id."""
        told = not self.source or self.source in self.passage_id
        return self.passage_id if told else f"{self.passage_id} · {self.source}"

    @property
    def probable(self) -> bool:
        """Whether it probably answers."""
        return self.likely >= PROBABLE


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """A left-out case, as a reviewer reads it.

    Attributes:
        case_id: as in the run.
        question: that was asked.
        answer: that is expected; may be empty.
        relevance: raw, of all passages; None where nothing was retrieved.
        calibrated: the same in [0, 1], by the policy that was fitted on the run; else None.
        passes: whether that policy lets it pass; None without one.
        passages: in the order in which they were retrieved, but the likeliest one first where it
            probably answers.
    """

    case_id: str
    question: str
    answer: str
    relevance: float | None
    calibrated: float | None
    passes: bool | None
    passages: tuple[ReviewPassage, ...]

    @property
    def facts(self) -> str:
        """Its relevance in words."""
        raw = "nothing was retrieved" if self.relevance is None else f"raw {self.relevance:.3f}"
        passes = {None: "", True: ", passes", False: ", does not pass"}[self.passes]
        if self.calibrated is None:
            return f"relevance: {raw}{passes}"
        return f"relevance {self.calibrated:.3f} ({raw}){passes}"

    @property
    def probable(self) -> bool:
        """Whether the question is probably answered after all: by the first passage."""
        return bool(self.passages) and self.passages[0].probable


def review_cases(
    run: MeasuredRun, *, encoder: TokenEncoder | None = None, on_scored: OnStep | None = None
) -> tuple[ReviewCase, ...]:
    """The cases that can be reviewed: the probably answered ones, then by falling relevance.

    Args:
        run: of relevance signals.
        encoder: finds which passages probably answer; the embedded scorer's where None.
        on_scored: called with the number of passages that were looked at, and of all.

    Raises:
        InputError: the run has no case with its source left out.
    """
    rows = list(run.reviewable.values())
    if not rows:
        what = "the run holds no measured case with its source left out"
        hint = "name a run of `knowgate measure` on questions with a source or an answer"
        raise InputError(what, where="RUN", hint=hint)
    texts, questions = run.texts, [run.questions[row.question_id] for row in rows]
    sought = [
        Sought(question.question, question.answer, row.retrieved)
        for question, row in zip(questions, rows, strict=True)
    ]
    scores = answer_scores(sought, texts, encoder=encoder, on_scored=on_scored)
    cases = [_case(run, row, texts, likely) for row, likely in zip(rows, scores, strict=True)]
    return tuple(sorted(cases, key=_place))


def _place(case: ReviewCase) -> tuple[bool, bool, float, str]:
    nothing = case.relevance is None
    return not case.probable, nothing, -(case.relevance or 0.0), case.case_id


def _case(
    run: MeasuredRun, row: MeasuredRow, texts: Mapping[str, str], likely: Sequence[float]
) -> ReviewCase:
    question = run.questions[row.question_id]
    relevance = row.raw_relevance if row.retrieved else None
    passages = [
        ReviewPassage(name, texts.get(name) or None, _source(run, name), score, chance)
        for name, score, chance in zip(row.retrieved, row.scores, likely, strict=True)
    ]
    first = max(passages, key=lambda one: one.likely, default=None)
    if first is not None and first.probable:
        passages = [first, *(one for one in passages if one is not first)]
    policy = None if run.calibration is None else run.calibration.policy
    calibrated, passes = None, None
    if policy is not None:
        calibrated = None if relevance is None else policy.relevance_calibrator.apply(relevance)
        # Confidence was not measured: what is answered from memory does not pass.
        passes = policy.route(calibrated, None) is Route.FOLLOW_CONTEXT
    return ReviewCase(
        case_id=row.case_id,
        question=question.question,
        answer=question.answer,
        relevance=relevance,
        calibrated=calibrated,
        passes=passes,
        passages=tuple(passages),
    )


def _source(run: MeasuredRun, name: str) -> str:
    passage, question = run.passages.get(name), run.questions.get(name)
    found = passage if passage is not None else question
    return "" if found is None else found.source or ""
