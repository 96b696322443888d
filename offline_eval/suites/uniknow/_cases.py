"""Questions, contexts, cases, replies and rows of the suite, its prompts and its prose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, FiniteFloat

from ....calibration import CalibrationRecord
from ....guard.decision import Scenario
from ....guard.files import table_beside
from ....guard.text import clean_text
from ...data.answers.matching import is_right
from ...report.prose import Templates
from ...run import Stored

TEXTS = Templates(Path(__file__).parent / "report.txt")
CONTENT = table_beside(__file__, "report.toml")


class Knowledge(StrEnum):
    """What sampled closed-book answers say about the model's knowledge of a question."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    UNDEFINED = "undefined"


class KnowledgeEstimate(NamedTuple):
    """What sampled answers say about one question, under the names that a case has for it.

    Attributes:
        knowledge: known, unknown or undefined.
        samples_right: right answers among those drawn.
        samples_drawn: answers drawn until that was settled.
        knowledge_error: type and message of the model's failure; None if it answered.
    """

    knowledge: Knowledge
    samples_right: int
    samples_drawn: int
    knowledge_error: str | None = None


class ContextKind(StrEnum):
    """How a context was made.

    The first four are the paper's and hold one passage. The others go beyond it: one right
    passage among distractors, two that contradict each other, distractors only, and a
    passage that states something untrue and implausible.
    """

    ORIGINAL = "original"
    CONFLICTING = "conflicting"
    RANDOM = "random"
    RETRIEVED = "retrieved"
    ONE_OF_K = "one_of_k"
    TWO_IN_CONFLICT = "two_in_conflict"
    NONE_OF_K = "none_of_k"
    UNTRUE = "untrue"

    @property
    def holds_answer(self) -> bool:
        """Whether the context states what counts as the right answer."""
        return self.value in ("original", "conflicting", "one_of_k", "two_in_conflict")


PAPER_KINDS, BEYOND_KINDS = tuple(ContextKind)[:4], tuple(ContextKind)[4:]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its gold answers.

    Attributes:
        id: unique in its data set.
        question: as asked.
        answers: the gold answer, then its aliases; at least one.
        dataset: name of the data set.
        group: questions about one document or subject share it; splits keep it together.
        sources: texts that hold the answer, from which contexts are cut; may be empty.
        selecting: other wordings of the question, which find out what the model knows; the
            question itself if there are none.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    dataset: str
    group: str
    sources: tuple[str, ...] = ()
    selecting: tuple[str, ...] = ()


class Context(NamedTuple):
    """The passages in front of a question, under the names that a case has for them.

    Attributes:
        passages: one text, or several for some kinds beyond the paper.
        context_answers: what the passages say the answer is, with aliases; empty if they do not
            say it, or say something untrue.
        untrue_answers: the false answer of an untrue context; empty for other kinds.
    """

    passages: tuple[str, ...]
    context_answers: tuple[str, ...] = ()
    untrue_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A method's reply to one case.

    Attributes:
        text: the reply; empty if a guard abstained or the call failed.
        abstained: whether it abstains.
        route: of a guard; None for methods without one.
        relevance: as the guard measured it; None likewise.
        confidence: likewise.
        error: type and message of a failure; None if there was none.
    """

    text: str
    abstained: bool
    route: str | None = None
    relevance: float | None = None
    confidence: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Templates with `{question}`, and `{context}` where there is one, to fill by `format`.

    Attributes:
        closed_book: the question alone.
        with_context: context and question.
        closed_book_or_unknown: the question alone; the reply `unknown` is allowed.
        with_context_or_unknown: context and question; the reply `unknown` is allowed.
        trained: `with_context` of models trained on it, which need no examples of an answer;
            empty if it is the same.
        trained_or_unknown: `with_context_or_unknown` of such models, likewise.
    """

    closed_book: str
    with_context: str
    closed_book_or_unknown: str
    with_context_or_unknown: str
    trained: str = ""
    trained_or_unknown: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions of one source.

    Attributes:
        name: used in tables and case ids.
        questions: with unique ids.
        prompts: what its questions are asked with.
        bundled: name of the bundled data set that it is; empty for a file.
    """

    name: str
    questions: tuple[Question, ...]
    prompts: PromptSet
    bundled: str = ""


Part = Literal["training", "evaluation"]
QuestionKey = tuple[str, str]
# Replies and data may hold characters that UTF-8 cannot.
_Text = Annotated[str, BeforeValidator(lambda v: clean_text(v) if isinstance(v, str) else v)]
_Identifier = Annotated[_Text, Field(min_length=1)]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]


class _OfQuestion(Stored):
    """What a run stores about a question in a context, or a reply to it.

    Attributes:
        case_id: unique in its table.
        dataset: of the question.
        question_id: in its data set.
        group: questions of one group stay together.
    """

    case_id: _Identifier
    dataset: _Text
    question_id: _Identifier
    group: _Text

    @property
    def question_key(self) -> QuestionKey:
        """Data set and question: the unit of resampling."""
        return self.dataset, self.question_id

    @property
    def about(self) -> dict[str, str]:
        """Data set, question and group, for what is stored about the same question."""
        return self.model_dump(include={"dataset", "question_id", "group"})


_OF_QUESTION = ("dataset", "group", "question", "answers")


class Case(_OfQuestion):
    """One question with one context, and what the model knows; a line of `cases.jsonl`.

    Attributes:
        part: `training` or `evaluation`.
        question: as asked.
        answers: the gold answer, then its aliases.
        context_kind: how the context was made.
        passages: of the context.
        context_answers: what the passages say the answer is; see `Context`.
        untrue_answers: the false answer of an untrue context.
        knowledge: what the model knows of the question.
        samples_right: right answers among those drawn.
        samples_drawn: answers drawn until that was settled.
        knowledge_error: type and message of the model's failure.
    """

    part: Part = "evaluation"
    question: _Text
    answers: Annotated[tuple[_Text, ...], Field(min_length=1)]
    context_kind: ContextKind
    passages: tuple[_Text, ...]
    context_answers: tuple[_Text, ...]
    untrue_answers: tuple[_Text, ...] = ()
    knowledge: Knowledge
    samples_right: _Count
    samples_drawn: _Count
    knowledge_error: _Text | None = None

    @classmethod
    def of(
        cls, question: Question, kind: ContextKind, context: Context, estimate: KnowledgeEstimate
    ) -> Case:
        """Return the case of a question in a context, for the evaluation."""
        return cls(
            case_id=f"{question.dataset}/{question.id}/{kind.value}",
            question_id=question.id,
            **{name: getattr(question, name) for name in _OF_QUESTION},
            context_kind=kind,
            **context._asdict(),
            **estimate._asdict(),
        )

    @property
    def scenario(self) -> Scenario | None:
        """The knowledge scenario; None if it is undefined what the model knows.

        Kinds beyond the paper are classified by whether their passages hold the answer.
        """
        if self.knowledge is Knowledge.UNDEFINED:
            return None
        known = self.knowledge is Knowledge.KNOWN
        if not self.context_answers:
            return Scenario.PARAMETRIC_ONLY if known else Scenario.UNKNOWN
        if not known:
            return Scenario.EXTERNAL_ONLY
        agrees = self.context_kind in (ContextKind.ORIGINAL, ContextKind.ONE_OF_K)
        return Scenario.AGREEMENT if agrees else Scenario.CONFLICT

    @property
    def expected(self) -> tuple[str, ...]:
        """The right answers: the context's if it has one, else the gold ones.

        In the scenario `unknown` the method should abstain; the gold answers then only tell
        a lucky guess.
        """
        return self.context_answers or self.answers

    @property
    def context(self) -> str:
        """All passages as one text, with a blank line between them."""
        return "\n\n".join(self.passages)

    def fill(self, template: str) -> str:
        """Return a prompt template with context and question; braces in them are kept."""
        return template.format(context=self.context, question=self.question)


# A way to answer cases: one reply per case, in order; of a case that failed, with its error.
Method = Callable[[Sequence[Case]], list[Reply]]


class UniKnowSignal(_OfQuestion):
    """A line of `signals.jsonl`: the signals of one question with one context.

    Attributes:
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
    def complete(self) -> bool:
        """Whether both signals were measured."""
        return self.raw_relevance is not None and self.raw_confidence is not None

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


class UniKnowRow(_OfQuestion):
    """A line of `rows.jsonl`: one method's reply to one case.

    Attributes:
        case_id: method and case; unique in a run.
        method: by name.
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

    method: _Identifier
    context_kind: ContextKind
    scenario: Scenario | None
    knowledge: Knowledge
    answer: _Text
    abstained: bool
    right: bool
    parametric: bool
    misled: bool = False
    route: Literal["follow_context", "answer", "abstain"] | None
    relevance: _Share | None
    confidence: _Share | None
    error: _Text | None

    @classmethod
    def of(cls, method: str, case: Case, reply: Reply) -> UniKnowRow:
        """Return the row of a reply, marked by exact match after normalisation.

        A reply that abstains or failed has no mark.
        """
        answer = "" if reply.abstained or reply.error else reply.text
        right, told = is_right(answer, case.expected), asdict(reply)
        return cls(
            case_id=row_id(method, case),
            **case.about,
            method=method,
            context_kind=case.context_kind,
            scenario=case.scenario,
            knowledge=case.knowledge,
            answer=told.pop("text"),
            right=right,
            parametric=not right and is_right(answer, case.answers),
            misled=not right and is_right(answer, case.untrue_answers),
            **told,
        )

    @property
    def case_key(self) -> str:
        """Id of the case without the method: the same for all methods."""
        return self.case_id.removeprefix(f"{self.method}|")


def row_id(method: str, case: Case) -> str:
    """Return the id of a method's row for a case; unique in a run."""
    return f"{method}|{case.case_id}"
