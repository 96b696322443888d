"""Small runs of replies, and chat models that judge them by script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda

from knowgate.offline_eval.run import Question, RepliesRun, RowError
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import (
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)

QUESTION, ANSWER = "How deep must a tread be?", "At least 1.6 mm."
REFUSAL = "I don't know."
Replies = Mapping[str, str | None]


def replies_run(
    folder: Path,
    replies: Replies,
    *,
    answer: str = ANSWER,
    citation: str | None = None,
    systems: Sequence[str] = ("s",),
) -> Path:
    """A run with one question per reply; a reply of None is a failed call."""
    questions = [
        Question(question_id=name, question=QUESTION, answer=answer, passage_id=f"p-{name}")
        for name in replies
    ]
    RepliesRun.start(
        folder,
        settings={},
        systems=[ReplySystem(system_id=system, model="m") for system in systems],
        questions=questions,
        passages=[StoredPassage(passage_id="other", text="Tyres are made of rubber.")],
        cases=[
            ReplyCase(case_id=name, question_id=name, kind=CaseKind.LEFT_OUT) for name in replies
        ],
        replies=len(replies) * len(systems),
    )
    with RepliesRun.REPLIES.open(folder) as store:
        for system in systems:
            for name, reply in replies.items():
                store.append(_row(system, name, reply, citation))
    return folder


def _row(system: str, name: str, reply: str | None, citation: str | None) -> ReplyRow:
    error = RowError(type="LanguageModelError", detail="down") if reply is None else None
    return ReplyRow(
        reply_id=f"{system}/{name}",
        case_id=name,
        system_id=system,
        context=ReplyContext(kind="passages", passages=("other",)),
        response=reply,
        citation=citation,
        error=error,
    )


class ScriptedJudge:
    """Says what `speak` makes of the messages; remembers them."""

    def __init__(self, speak: Callable[[list[BaseMessage]], str | Exception]) -> None:
        self._speak = speak
        self.asked: list[list[BaseMessage]] = []

    @property
    def model(self) -> Runnable[Any, Any]:
        """As a runnable."""
        return RunnableLambda(self._answer)

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.asked.append(messages)
        said = self._speak(messages)
        if isinstance(said, Exception):
            raise said
        usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        return AIMessage(said, usage_metadata=usage)


def criterion_of(messages: Sequence[BaseMessage]) -> str:
    """Which of the bundled criteria a judge is asked about."""
    told = messages[0].text
    return next(name for name in ("abstention", "factuality", "failure") if f"<{name}>" in told)
