"""Questions of the suite, their contexts, and the reply that each case calls for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ....guard.decision import Scenario


class Knowledge(StrEnum):
    """What sampled closed-book answers say about the model's knowledge of a question."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    UNDEFINED = "undefined"


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


PAPER_KINDS = (
    ContextKind.ORIGINAL,
    ContextKind.CONFLICTING,
    ContextKind.RANDOM,
    ContextKind.RETRIEVED,
)
BEYOND_KINDS = tuple(kind for kind in ContextKind if kind not in PAPER_KINDS)


@dataclass(frozen=True, slots=True)
class SuiteQuestion:
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

    @property
    def key(self) -> tuple[str, str]:
        """Data set and id."""
        return self.dataset, self.id


@dataclass(frozen=True, slots=True)
class Context:
    """The passages in front of a question.

    Attributes:
        kind: how it was made.
        passages: one text, or several for the kinds beyond the paper.
        answers: what the passages say the answer is, with aliases; empty if they do not
            say it, or say something untrue.
        untrue_answers: the false answer of an untrue context; empty for other kinds.
    """

    kind: ContextKind
    passages: tuple[str, ...]
    answers: tuple[str, ...] = ()
    untrue_answers: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All passages as one text, with a blank line between them."""
        return "\n\n".join(self.passages)


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    """One question with one context.

    Attributes:
        question: what is asked.
        context: the passages in front of it.
        knowledge: what the model knows of it.
    """

    question: SuiteQuestion
    context: Context
    knowledge: Knowledge

    @property
    def case_id(self) -> str:
        """Unique in a run, apart from the method."""
        return f"{self.question.dataset}/{self.question.id}/{self.context.kind.value}"

    @property
    def scenario(self) -> Scenario | None:
        """The knowledge scenario; None if it is undefined what the model knows.

        Kinds beyond the paper are classified by whether their passages hold the answer.
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
        """The right answers: the context's if it has one, else the gold ones.

        In the scenario `unknown` the method should abstain; the gold answers then only tell
        a lucky guess.
        """
        return self.context.answers or self.question.answers

    def fill(self, template: str) -> str:
        """Return a prompt template with context and question; braces in them are kept."""
        return template.format(context=self.context.text, question=self.question.question)


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
