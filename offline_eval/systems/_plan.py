"""Cases, systems under test, and one item for every case that is put to a system."""

from __future__ import annotations

from dataclasses import dataclass

from ...guard.decision import Decision
from ..run import CaseKind, ReplyContext, ReplyRow, ReplySystem
from ._guards import OFF
from ._prompts import SystemPrompt


@dataclass(frozen=True, slots=True)
class Case:
    """One question against one state of the knowledge base.

    Attributes:
        case_id: `<question id>/<kind>`.
        question_id: of the question.
        kind: what the knowledge base holds of the answer.
        question: what is asked; the only thing the retriever sees.
        passage_id: the question's own passage; empty for a synthetic question, whose answer
            no passage holds.
    """

    case_id: str
    question_id: str
    kind: CaseKind
    question: str
    passage_id: str


@dataclass(frozen=True, slots=True)
class SystemUnderTest:
    """A system that is asked now, or whose replies are logged.

    Attributes:
        record: as the manifest has it: model, prompt, retrieval and guard by name.
        prompt: None for a runnable with a prompt of its own, and for logged replies.
    """

    record: ReplySystem
    prompt: SystemPrompt | None = None

    @property
    def system_id(self) -> str:
        """Unique in the run."""
        return self.record.system_id

    @property
    def guarded(self) -> bool:
        """Whether a guard stands in front."""
        return self.record.guard != OFF


@dataclass(frozen=True, slots=True)
class Asked:
    """One case put to a system.

    Attributes:
        system: that is asked.
        case: of the question.
        base: name of its knowledge base.
    """

    system: SystemUnderTest
    case: Case
    base: str

    @property
    def reply_id(self) -> str:
        """`<system id>/<case id>`."""
        return f"{self.system.system_id}/{self.case.case_id}"


@dataclass(frozen=True, slots=True)
class Replayed(Asked):
    """One reply taken from a log.

    Attributes:
        logged: the row without a guard.
        closed_book: the same model's logged reply without context, None where there is none.
    """

    logged: ReplyRow
    closed_book: ReplyRow | None = None

    @property
    def context(self) -> ReplyContext:
        """The context of the logged reply."""
        return self.logged.context or ReplyContext(kind="unknown")

    def row(self, logged: ReplyRow, decision: Decision | None = None) -> ReplyRow:
        """The row of this item, with a logged reply that the guard let through."""
        changed: dict[str, object] = {
            "reply_id": self.reply_id,
            "system_id": self.system.system_id,
        }
        return logged.model_copy(update=changed | ReplyRow.of_guard(decision))
