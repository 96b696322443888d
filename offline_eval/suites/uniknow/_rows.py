"""The rows that a run stores: its cases, its signals, and the replies with their marks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, FiniteFloat

from ....calibration import CalibrationRecord
from ....guard.decision import Scenario
from ....guard.text import clean_text
from ...run import Stored
from ._cases import Context, ContextKind, Knowledge, Reply, ScenarioCase, SuiteQuestion
from ._knowledge import KnowledgeEstimate
from ._matching import is_right

START_AGAIN = "remove the run folder and start again"
Part = Literal["training", "evaluation"]
QuestionKey = tuple[str, str]
# Replies and data may hold characters that UTF-8 cannot.
_Text = Annotated[str, BeforeValidator(lambda v: clean_text(v) if isinstance(v, str) else v)]
_Identifier = Annotated[_Text, Field(min_length=1)]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]


class CaseRow(Stored):
    """A line of `cases.jsonl`: one question with one context, and what the model knows."""

    case_id: _Identifier
    part: Part
    dataset: _Text
    question_id: _Identifier
    group: _Text
    question: _Text
    answers: Annotated[tuple[_Text, ...], Field(min_length=1)]
    context_kind: ContextKind
    passages: tuple[_Text, ...]
    context_answers: tuple[_Text, ...]
    untrue_answers: tuple[_Text, ...]
    knowledge: Knowledge
    samples_right: _Count
    samples_drawn: _Count
    knowledge_error: _Text | None = None

    @classmethod
    def of(cls, part: Part, case: ScenarioCase, estimate: KnowledgeEstimate) -> CaseRow:
        """Return the row of a case."""
        question, context = case.question, case.context
        return cls(
            case_id=case.case_id,
            part=part,
            dataset=question.dataset,
            question_id=question.id,
            group=question.group,
            question=question.question,
            answers=question.answers,
            context_kind=context.kind,
            passages=context.passages,
            context_answers=context.answers,
            untrue_answers=context.untrue_answers,
            knowledge=case.knowledge,
            samples_right=estimate.right,
            samples_drawn=estimate.drawn,
            knowledge_error=estimate.error,
        )

    @property
    def case(self) -> ScenarioCase:
        """The case, without the sources of its question."""
        return ScenarioCase(
            SuiteQuestion(self.question_id, self.question, self.answers, self.dataset, self.group),
            Context(self.context_kind, self.passages, self.context_answers, self.untrue_answers),
            self.knowledge,
        )


class UniKnowSignal(Stored):
    """A line of `signals.jsonl`: the signals of one question with one context.

    Attributes:
        case_id: of the case.
        dataset: of the question.
        question_id: in its data set.
        group: questions of one group stay together.
        part: `training` or `evaluation`.
        kind: of the context.
        holds_answer: whether the context was built to hold an answer.
        raw_relevance: aggregated score before calibration; None if it failed.
        raw_confidence: confidence before calibration; None if it failed.
        context_right: whether the naive reply is the answer expected with this context;
            None if the model failed.
        closed_book_right: whether the closed-book reply is a gold answer; None likewise.
        closed_book: that reply.
        context_reply: the naive reply.
        scores: of each passage.
        error: the first failure; None if there was none.
    """

    case_id: _Identifier
    dataset: _Text
    question_id: _Identifier
    group: _Text
    part: Part
    kind: ContextKind
    holds_answer: bool
    raw_relevance: FiniteFloat | None
    raw_confidence: _Share | None
    context_right: bool | None
    closed_book_right: bool | None
    closed_book: _Text | None
    context_reply: _Text | None
    scores: tuple[FiniteFloat | None, ...] = ()
    error: _Text | None = None

    @property
    def question_key(self) -> QuestionKey:
        """Data set and question."""
        return self.dataset, self.question_id

    def record(self) -> CalibrationRecord:
        """Return what a policy is calibrated on."""
        return CalibrationRecord(
            question_id=f"{self.dataset}/{self.question_id}",
            relevance=self.raw_relevance,
            confidence=self.raw_confidence,
            context_right=self.context_right,
            closed_book_right=self.closed_book_right,
            group=f"{self.dataset}/{self.group}" if self.group else "",
            case=self.kind,
        )


class UniKnowRow(Stored):
    """A line of `rows.jsonl`: one method's reply to one case.

    Attributes:
        case_id: method and case; unique in a run.
        method: by name.
        dataset: of the question.
        question_id: in its data set.
        group: of the question.
        context_kind: of the context.
        scenario: None if it is undefined what the model knows.
        knowledge: what the model knows of the question.
        answer: the reply.
        abstained: whether it abstains.
        right: an answer that the case expects.
        parametric: a gold answer although another one is expected.
        misled: the answer that an untrue context gives.
        route: of a guard; None for other methods.
        relevance: likewise.
        confidence: likewise.
        error: type and message of a failure; None if there was none.
    """

    case_id: _Identifier
    method: _Identifier
    dataset: _Text
    question_id: _Identifier
    group: _Text
    context_kind: ContextKind
    scenario: Scenario | None
    knowledge: Knowledge
    answer: _Text
    abstained: bool
    right: bool
    parametric: bool
    misled: bool
    route: Literal["follow_context", "answer", "abstain"] | None
    relevance: _Share | None
    confidence: _Share | None
    error: _Text | None

    @classmethod
    def of(cls, method: str, case: ScenarioCase, reply: Reply) -> UniKnowRow:
        """Return the row of a reply, marked by exact match after normalisation.

        A reply that abstains or failed has no mark.
        """
        answer = "" if reply.abstained or reply.error else reply.text
        right = is_right(answer, case.expected)
        return cls(
            case_id=row_id(method, case),
            method=method,
            dataset=case.question.dataset,
            question_id=case.question.id,
            group=case.question.group,
            context_kind=case.context.kind,
            scenario=case.scenario,
            knowledge=case.knowledge,
            answer=reply.text,
            abstained=reply.abstained,
            right=right,
            parametric=not right and is_right(answer, case.question.answers),
            misled=not right and is_right(answer, case.context.untrue_answers),
            route=reply.route,
            relevance=reply.relevance,
            confidence=reply.confidence,
            error=reply.error,
        )

    @property
    def question_key(self) -> QuestionKey:
        """Data set and question: the unit of resampling."""
        return self.dataset, self.question_id

    @property
    def case_key(self) -> str:
        """Id of the case without the method: the same for all methods."""
        return self.case_id.removeprefix(f"{self.method}|")


def row_id(method: str, case: ScenarioCase) -> str:
    """Return the id of a method's row for a case; unique in a run."""
    return f"{method}|{case.case_id}"
