"""What follows from a request and a decision: pure, shared by every way to call the chain."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from langchain_core.documents import Document

from ...guard import Decision, Guard, InputError, Mode, Reason, Route, passage_text
from ._answer import GuardedAnswer, answer_text
from ._checking import ReplyCheck, abstains
from ._errors import AbstainedError
from ._replies import Replies
from ._request import Request

logger = logging.getLogger("knowgate.adapters.langchain")


class Speaker(StrEnum):
    """Which of the two runnables generates the answer."""

    WITH_CONTEXT = "with_context"
    CLOSED_BOOK = "closed_book"


class OnRetrieverError(StrEnum):
    """What a failed retrieval leads to."""

    ABSTAIN = "abstain"
    RAISE = "raise"

    @classmethod
    def read(cls, value: str) -> OnRetrieverError:
        """The member with this value.

        Raises:
            InputError: there is none.
        """
        try:
            return cls(value)
        except ValueError:
            raise InputError(
                f"{value!r} is unknown",
                where="on_retriever_error",
                mend=f"one of: {', '.join(cls)}",
            ) from None


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is to be answered.

    Attributes:
        decision: of the guard.
        speaker: who generates the answer; None where `reply` is the answer.
        inputs: what the speaker is given.
        documents: passages that the prompt will contain.
        reply: the answer where nothing is generated: an abstention, or all views.
        question: as the speaker is given it.
    """

    decision: Decision
    speaker: Speaker | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    reply: str = ""
    question: object = ""

    def answer(self, text: str) -> GuardedAnswer:
        """The whole answer, with `text` generated."""
        return GuardedAnswer(text, self.decision, self.documents)

    def piece(self, text: str) -> GuardedAnswer:
        """A chunk that follows the opening one."""
        return GuardedAnswer(text, self.decision)

    def ending(self, abstained: bool | None) -> GuardedAnswer:
        """The last chunk, which says what the check of the reply found."""
        return GuardedAnswer("", self.decision, reply_abstained=abstained)


@dataclass(frozen=True, slots=True)
class Planner:
    """Everything about a chain that needs no input or output.

    Args:
        guard: its mode decides whether decisions act.
        replies: for abstentions.
        on_retriever_error: abstain or raise.
        raise_on_abstain: whether abstaining raises.
        check_reply: tells whether a generated reply abstains; None for no check.
        replace_refusals: whether such a reply gives way to the configured one.
    """

    guard: Guard
    replies: Replies
    on_retriever_error: OnRetrieverError
    raise_on_abstain: bool
    check_reply: ReplyCheck | None = None
    replace_refusals: bool = False

    @property
    def shadow(self) -> bool:
        """Whether decisions are only taken and counted."""
        return self.guard.mode is Mode.SHADOW

    def query(self, request: Request) -> Any:
        """What the retriever is asked; None where there is nothing to ask it."""
        return request.question if self.shadow else request.text

    def retrieval_failed(self, error: Exception) -> Decision:
        """The decision that follows from a retriever's error; counted as the guard's own are.

        Raises:
            Exception: `error` itself, where the chain was told to raise it, and in
                shadow mode, where the chain without a guard would have raised too.
        """
        # Its message may quote the question: only the type is logged.
        logger.warning("the retriever failed: %s", type(error).__name__)
        if self.on_retriever_error is OnRetrieverError.RAISE:
            raise error
        decision = Decision(
            route=Route.ABSTAIN, reason=Reason.RETRIEVAL_FAILED, mode=self.guard.mode
        )
        self.guard.count(decision)
        if self.shadow:
            raise error
        return decision

    def plan(self, request: Request, decision: Decision, documents: Sequence[Document]) -> Plan:
        """How `request` is answered after `decision` on `documents`.

        Raises:
            AbstainedError: the guard abstained, and the chain was told to raise then.
        """
        if not decision.acts:
            return _from_context(request.question, request, decision, documents)
        if decision.route is Route.FOLLOW_CONTEXT:
            kept = [documents[index] for index in decision.kept]
            if decision.reason is Reason.CONFLICT_SHOWS_BOTH:
                reply = self.replies.showing(decision.views, documents)
                return Plan(decision, documents=tuple(kept), reply=reply)
            return _from_context(request.text, request, decision, kept)
        if decision.route is Route.ANSWER:
            inputs = {**request.extra, "question": request.text}
            return Plan(decision, Speaker.CLOSED_BOOK, inputs, question=request.text)
        reply = self.replies.to(decision.reason)
        if self.raise_on_abstain:
            raise AbstainedError(decision, reply)
        return Plan(decision, reply=reply)

    def finished(self, plan: Plan, output: object) -> GuardedAnswer:
        """The answer of `plan`, whose speaker put out `output`, after checking it.

        Raises:
            AbstainedError: the reply abstains, and the chain was told to replace
                refusals and to raise on abstentions.
        """
        answer = plan.answer(answer_text(output))
        answer = replace(answer, reply_abstained=self.abstains(plan, answer.answer))
        if not (answer.reply_abstained and self.replace_refusals and plan.decision.acts):
            return answer
        reply = self.replies.to(Reason.REPLY_ABSTAINED)
        if self.raise_on_abstain:
            raise AbstainedError(plan.decision, reply, Reason.REPLY_ABSTAINED)
        return replace(answer, answer=reply)

    def abstains(self, plan: Plan, text: str) -> bool | None:
        """Whether the generated `text` is an abstention itself; None without a check."""
        return abstains(self.check_reply, plan.question, text)


def _from_context(
    question: object, request: Request, decision: Decision, documents: Sequence[Document]
) -> Plan:
    inputs = {
        **request.extra,
        "question": question,
        "context": "\n\n".join(passage_text(document) for document in documents),
        "documents": list(documents),
    }
    return Plan(decision, Speaker.WITH_CONTEXT, inputs, tuple(documents), question=question)


def decision_event(decision: Decision) -> dict[str, Any]:
    """What the custom event tells of a decision: words and numbers, no one's text."""
    return {
        "route": decision.route.value,
        "reason": decision.reason.value,
        "scenario": None if decision.scenario is None else decision.scenario.value,
        "relevance": decision.relevance,
        "confidence": decision.confidence,
        "conflict": decision.conflict,
        "kept": list(decision.kept),
        "failed_signals": list(decision.failed_signals),
        "mode": decision.mode.value,
    }
