"""What the suite asks: questions, the contexts around them, and the reply each case wants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ....guard.decision import Scenario


class Knowledge(StrEnum):
    """What sampled closed-book answers say of the model's knowledge of a question."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    UNDEFINED = "undefined"


class ContextKind(StrEnum):
    """How a context was made.

    The first four are the paper's and hold one passage. The rest go beyond it: one right
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


RELEVANT_KINDS = (ContextKind.ORIGINAL, ContextKind.CONFLICTING)
IRRELEVANT_KINDS = (ContextKind.RANDOM, ContextKind.RETRIEVED)
PAPER_KINDS = (*RELEVANT_KINDS, *IRRELEVANT_KINDS)


@dataclass(frozen=True, slots=True)
class SuiteQuestion:
    """A question with its gold answers.

    Attributes:
        id: unique in its data set.
        question: as asked.
        answers: the gold answer, then its aliases; at least one.
        dataset: name of the data set.
        group: questions of one document or subject share it; splits keep it together.
        sources: texts that hold the answer, from which contexts are cut; may be empty.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    dataset: str
    group: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What stands before a question.

    Attributes:
        kind: how it was made.
        passages: one text, or several for the kinds beyond the paper.
        answers: what the passages say the answer is, with aliases; empty where they do
            not say, or not say truly.
        untrue_answers: what an untrue context would have one believe; empty elsewhere.
    """

    kind: ContextKind
    passages: tuple[str, ...]
    answers: tuple[str, ...] = ()
    untrue_answers: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All passages as one text, a blank line between them."""
        return "\n\n".join(self.passages)


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    """One question with one context.

    Attributes:
        question: what is asked.
        context: what stands before it.
        knowledge: what the model knows of it.
    """

    question: SuiteQuestion
    context: Context
    knowledge: Knowledge

    @property
    def case_id(self) -> str:
        """Unique in a run, method aside."""
        return f"{self.question.dataset}/{self.question.id}/{self.context.kind.value}"

    @property
    def scenario(self) -> Scenario | None:
        """The knowledge scenario; None where it is undefined what the model knows.

        Kinds beyond the paper are sorted by whether their passages hold the answer.
        """
        if self.knowledge is Knowledge.UNDEFINED:
            return None
        known = self.knowledge is Knowledge.KNOWN
        if not self.context.answers:
            return Scenario.PARAMETRIC_ONLY if known else Scenario.UNKNOWN
        if not known:
            return Scenario.EXTERNAL_ONLY
        agrees = self.context.kind in (ContextKind.ORIGINAL, ContextKind.ONE_OF_K)
        return Scenario.AGREEMENT if agrees else Scenario.CONFLICT

    @property
    def expected(self) -> tuple[str, ...]:
        """The right answers: the context's where it has one, else the gold ones.

        In the scenario `unknown` abstaining is what is wanted; the gold answers then only
        say what a lucky guess would be.
        """
        return self.context.answers or self.question.answers


@dataclass(frozen=True, slots=True)
class Reply:
    """What a method replied to one case.

    Attributes:
        text: the reply; empty where a guard abstained or the call failed.
        abstained: whether it declines to answer.
        route: where a guard sent it, None for methods without one.
        relevance: what the guard measured, None likewise.
        confidence: likewise.
        error: type and message of a failure, None where there was none.
    """

    text: str
    abstained: bool
    route: str | None = None
    relevance: float | None = None
    confidence: float | None = None
    error: str | None = None
