"""The left-out cases of a run in the order in which a person should read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....guard.decision import Route
from ....guard.engine import TokenEncoder
from ....guard.errors import InputError
from ...run import MeasuredRow, MeasuredRun, OnStep
from ._likely_answers import PROBABLE, Sought, answer_scores


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
        raise InputError(
            "the run holds no measured case with its source left out",
            where="RUN",
            hint="name a run of `knowgate measure` on questions with a source or an answer",
        )
    texts = run.texts
    sought = [_sought(run, row) for row in rows]
    scores = answer_scores(sought, texts, encoder=encoder, on_scored=on_scored)
    cases = [_case(run, row, texts, likely) for row, likely in zip(rows, scores, strict=True)]
    return tuple(sorted(cases, key=_place))


def _place(case: ReviewCase) -> tuple[bool, bool, float, str]:
    nothing = case.relevance is None
    return not case.probable, nothing, -(case.relevance or 0.0), case.case_id


def _sought(run: MeasuredRun, row: MeasuredRow) -> Sought:
    question = run.questions[row.question_id]
    return Sought(question.question, question.answer, row.retrieved)


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
