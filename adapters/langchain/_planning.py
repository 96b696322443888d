"""The steps of a chain without any I/O: read a request, plan its answer, check the reply.

    question ─► REWRITER ─► RETRIEVER ─► READ ─► GUARD ─► EVENT ─► one that generates
             ─► CHECK ─► SUPPORT

Generators yield what they need done; `run_flows` runs those of many questions in step. The sync and
async forms of the chain only differ in how they do it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ...guard.decision import Decision, Mode, Reason, Route
from ...guard.errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    InputError,
    InputTooLargeError,
    QuestionError,
    TaskBrokeOffError,
)
from ...guard.read_models import CheckedSettings
from ...guard.signals.support.contracts import ReplyVerdict, SentenceSupport, Support
from ...guard.signals.support.reading import sentence_spans
from ...guard.text import clean_text
from ..shadow import LateDecision, counted_abstention
from ._answer import (
    AbstainedError,
    GuardedAnswer,
    RetrievalError,
    joined,
    retold,
    told_values,
)
from ._conversation import Conversation, rewritten
from ._documents import as_given, shown_text
from ._replies import Replies

if TYPE_CHECKING:
    from ...guard import Guard
    from ...guard.reply_check import ReplyChecker

logger = logging.getLogger("knowgate.adapters.langchain")
RagInput = str | Mapping[str, Any]
# Set by the chain; a caller's own values must not reach a prompt as if they were vetted.
_RESERVED = frozenset({"question", "context", "documents"})

_Result = TypeVar("_Result")


class Stage(Enum):
    """What a question needs, in the order in which it passes; values are names of runs."""

    REWRITER = "rewriter"
    RETRIEVER = "retriever"
    READ = "read"
    GUARD = "guard"
    EVENT = "event"
    WITH_CONTEXT = "with_context"
    CLOSED_BOOK = "closed_book"
    SMALL_TALK = "small_talk"
    CHECK = "check"
    SUPPORT = "support"


_ORDER = {stage: place for place, stage in enumerate(Stage)}
GENERATING = frozenset({Stage.WITH_CONTEXT, Stage.CLOSED_BOOK, Stage.SMALL_TALK})


# The text of a reply, its documents, the question, and whether more of the reply follows.
ToCheck = tuple[str, Sequence[Document], str, bool]
# What one question needs done before its flow goes on: by which stage, and what that is given:
# the input of a runnable; what was retrieved, to be read; question and passages for the guard;
# the decision of an event; a function without arguments for a check, which may take long; reply,
# documents and question for the check of its support.
Need = tuple[Stage, Any]
# Needs of one stage: the index of the question → what the part is given.
Step = tuple[Stage, Mapping[int, Any]]
# Is sent the outcome of each need, or thrown the error.
Flow = Generator[Need, Any, _Result]


async def run_flows(
    flows: Sequence[Flow[_Result]], outcomes_of: Callable[[Step], Awaitable[Sequence[object]]]
) -> list[_Result | Exception]:
    """Run the flows of many questions in step, so that each part is called once for all.

    Each step has the needs of the earliest stage. A flow that raises fails alone.

    Args:
        flows: n flows, not started.
        outcomes_of: does what a step needs; returns outcomes, or exceptions in their place.

    Returns:
        All results, or exceptions in their place, in the order of the flows.
    """
    needs: dict[int, Need] = {}
    results: dict[int, _Result | Exception] = {}

    def resume(index: int, go_on: Callable[[], Need]) -> None:
        try:
            needs[index] = go_on()
        except StopIteration as stop:
            results[index] = stop.value
        except Exception as error:  # noqa: BLE001 - handed to the caller as this input's result
            results[index] = error

    for index, flow in enumerate(flows):
        resume(index, partial(next, flow))
    while needs:
        stage = min((stage for stage, _ in needs.values()), key=_ORDER.__getitem__)
        given = {index: what for index, (of, what) in needs.items() if of is stage}
        for index, outcome in zip(given, await outcomes_of((stage, given)), strict=True):
            del needs[index]
            failure = outcome
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                # A batch of LangChain returns a cancellation as if it were an output.
                failure = TaskBrokeOffError(type(outcome).__name__)
            resume_by = flows[index].throw if isinstance(failure, Exception) else flows[index].send
            resume(index, partial(resume_by, failure))
    return [results[index] for index in range(len(flows))]


def required(given: Mapping[str, Any], key: str) -> Any:
    """`given[key]`.

    Raises:
        InputError: it is not there.
    """
    if key not in given:
        what = f"the input has no key {key!r}"
        hint = f"keys that are there: {', '.join(sorted(map(str, given))) or 'none'}"
        raise InputError(what, hint=hint)
    return given[key]


# Question, reply → whether the reply abstains, or a verdict that has `abstained`.
ReplyCheck = Callable[[str, str], Any]


def _reply_check(given: Any) -> ReplyCheck | None:
    """One kind of check for both that can be given: a function, or an object with `detect`.

    Raises:
        InputError: it can neither be called nor has it a `detect`.
    """
    if given is None:
        return None
    if hasattr(given, "detect"):
        return lambda question, reply: given.detect(reply, question=question)
    if callable(given):
        check: ReplyCheck = given
        return check
    what = f"a {type(given).__name__} cannot check a reply"
    hint = "give a function of question and reply, or an object with detect"
    raise InputError(what, where="check_reply", hint=hint)


OnRetrieverError = Literal["abstain", "raise"]


@checked_dataclass(frozen=True, config=ConfigDict(strict=True))
class RagOptions(CheckedSettings):
    """What failures and abstentions in a guarded chain lead to, and the check of replies.

    Attributes:
        on_retriever_error: `abstain` or `raise` where the retriever fails (reason
            `retrieval_failed`), returns something other than documents
            (`invalid_passages`) or more than the guard's limits allow
            (`input_too_large`).
        retriever_timeout: seconds after which a call of the retriever has failed. A sync call
            runs on a thread of the chain's own, which a call that hangs keeps. A batch is one
            call. None waits for ever, on the caller's thread: for a retriever that must be
            called there. Ignored in shadow mode.
        raise_on_abstain: raise `AbstainedError` instead of replying, so that
            `with_fallbacks` takes over.
        check_reply: question, reply → whether the generated reply is an abstention
            itself, as a bool or a verdict with `abstained`; or an object with
            `detect(response, question=…)`. The answer has it as `reply_abstained`;
            a stream has it on an extra last chunk.
        replace_abstentions: put the reply for `reply_abstained` in place of a generated
            one that abstains (or raise, with `raise_on_abstain`). Not in streams, whose
            text is out by then, and not in shadow mode.

    Raises:
        InputError: an option is not what it should be.
    """

    on_retriever_error: OnRetrieverError = "abstain"
    retriever_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 30.0
    raise_on_abstain: bool = False
    check_reply: Annotated[Any, AfterValidator(_reply_check)] = None
    replace_abstentions: bool = False


@dataclass(slots=True)
class Turn:
    """One input of the chain and how it is answered, filled in step by step.

    Attributes:
        question: what retriever, guard and runnable are given: as it came, or rewritten.
        text: the question as clean text, None where it cannot be read as such.
        extra: further keys of a mapping, passed on to all runnables that generate.
        decision: of the guard.
        stage: which runnable generates the answer; None where `reply` is the answer.
        inputs: what the runnable is given.
        documents: passages that the prompt will contain.
        reply: the answer: generated, an abstention, all views, or the estimator's own.
        found: what else the answer tells, by the names of its fields.
    """

    question: Any
    text: str | None
    extra: dict[str, Any]
    decision: Decision = field(init=False)
    stage: Stage | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    reply: str = ""
    found: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object, read: Callable[[Any], str]) -> Turn:
        """Read an input: the question itself, or a mapping with `question`.

        A question that is not text, or too long, is no error here: the guard has a route for it.

        Raises:
            InputError: a mapping without `question`.
        """
        extra: dict[str, Any] = {}
        question = given
        if isinstance(given, Mapping):
            question = required(given, "question")
            extra = {key: value for key, value in given.items() if key not in _RESERVED}
        try:
            return cls(question, read(question), extra)
        except QuestionError:
            return cls(question, None, extra)

    @property
    def asked(self) -> str:
        """The question as checks of the reply are given it."""
        return clean_text(self.question) if isinstance(self.question, str | bytes) else ""

    @property
    def whole(self) -> GuardedAnswer:
        """The whole answer where nothing is left to be generated."""
        return GuardedAnswer(self.reply, self.decision, self.documents, **self.found)

    def chunk(self, text: str, **found: Any) -> GuardedAnswer:
        """A chunk that follows the first one."""
        return GuardedAnswer(text, self.decision, **found)

    def generate(self, stage: Stage, documents: Sequence[Document] | None = None) -> None:
        """Let a model write the reply; without documents, its prompt has no context."""
        self.stage, self.inputs = stage, {**self.extra, "question": self.question}
        if documents is not None:
            self.documents = tuple(documents)
            context = "\n\n".join(map(shown_text, documents))
            self.inputs |= {"context": context, "documents": list(documents)}


@dataclass(frozen=True, slots=True)
class Planner:
    """Everything about a chain that needs no input or output.

    Args:
        guard: its mode decides whether decisions act.
        replies: for abstentions.
        options: of the chain.
        conversation: None where every message is a question that is understood alone.
        rewrites: whether somebody rewrites follow-ups.
        estimator_answers: whether the closed-book answer is the one whose confidence was
            measured, instead of another one.
    """

    guard: Guard
    replies: Replies
    options: RagOptions
    conversation: Conversation | None = None
    rewrites: bool = False
    estimator_answers: bool = False

    @property
    def shadow(self) -> bool:
        """Whether decisions are only taken and counted."""
        return self.guard.mode is Mode.SHADOW

    def answer_flow(self, given: object) -> Flow[GuardedAnswer]:
        """Answer one input of the chain.

        Raises:
            AbstainedError: the guard or the reply abstained, and the chain was told to
                raise then.
        """
        turn = yield from self.plan_flow(given)
        if turn.stage is not None:
            output = yield (turn.stage, turn.inputs)
            yield from self._checked_flow(turn, GuardedAnswer.text_of(output), output)
            yield from self._supported_flow(turn)
        return turn.whole

    def plan_flow(self, given: object) -> Flow[Turn]:
        """Plan the answer to one input: retrieve, then let the guard decide."""
        turn = Turn.of(given, self.guard.limits.read_question)
        decision = yield from self._turn_flow(turn)
        documents: list[Document] = []
        if decision is None or self.shadow:
            # The chain without a guard would have asked whatever it was given.
            query = turn.question if self.shadow else turn.text
            reason = Reason.RETRIEVAL_FAILED
            try:
                if query is not None:
                    found = yield (Stage.RETRIEVER, query)
                    reason = Reason.INVALID_PASSAGES
                    # Read once: the guard judges what the prompt will contain.
                    documents = as_given(found) if self.shadow else (yield (Stage.READ, found))
            except Exception as error:  # noqa: BLE001 - a failed retrieval has its own route
                decision = self._retrieval_failed(error, reason)
            if decision is None:
                decision = yield (Stage.GUARD, (turn.question, documents))
        if not isinstance(decision, LateDecision):
            yield (Stage.EVENT, decision)
        turn.decision = decision
        self._plan(turn, documents)
        if turn.stage is Stage.CLOSED_BOOK and self.estimator_answers:
            turn.stage, drawn = None, decision.closed_book_answer or ""
            if drawn.strip():
                yield from self._checked_flow(turn, drawn, drawn)
            else:
                self._decline(turn, Reason.REPLY_ABSTAINED)
        return turn

    def _turn_flow(self, turn: Turn) -> Flow[Decision | None]:
        """Rewrite a follow-up; returns a decision where the guard is not to be asked.

        Raises:
            Exception: the rewriter's own, where the chain was told to raise it.
        """
        conversation, text = self.conversation, turn.text
        if conversation is None or text is None:
            return None
        inputs = {**turn.extra, "question": text}
        follows_up = self.rewrites and bool(turn.extra.get(conversation.history_key))
        turn.extra = {**turn.extra, "original_question": text}
        if conversation.is_small_talk(text):
            self.guard.count_turn("small_talk")
            reason = Reason.SMALL_TALK
            return Decision(route=Route.ANSWER, reason=reason, mode=self.guard.mode)
        if not follows_up:
            self.guard.count_turn("question")
            return None
        try:
            question = rewritten((yield (Stage.REWRITER, inputs)))
        except Exception as error:
            logger.warning("the rewriter failed: %s", type(error).__name__)
            self.guard.count_turn("rewriting_failed")
            if conversation.on_error == "raise":
                raise
            if conversation.on_error != "abstain":
                return None
            return counted_abstention(self.guard, Reason.REWRITING_FAILED)
        self.guard.count_turn("follow_up")
        turn.question = turn.text = turn.found["standalone_question"] = question
        return None

    def _retrieval_failed(self, error: Exception, reason: Reason) -> Decision:
        """The decision that follows from `error` in retrieving, or in reading what was retrieved.

        It is counted as the guard's own are.

        Raises:
            Exception: `error` itself, where the chain was told to raise it, and in
                shadow mode, where the chain without a guard would have raised too.
        """
        # The message may quote the question: only the type is logged.
        logger.warning("the retriever failed: %s", type(error).__name__)
        if isinstance(error, DeadlineExceededError | AllWorkersBusyError):
            error = RetrievalError("the retriever did not return in time")
        if self.options.on_retriever_error == "raise":
            raise error
        if reason is Reason.INVALID_PASSAGES and isinstance(error, InputTooLargeError):
            reason = Reason.INPUT_TOO_LARGE
        decision = counted_abstention(self.guard, reason)
        if self.shadow:
            raise error
        return decision

    def _plan(self, turn: Turn, documents: Sequence[Document]) -> None:
        """Plan the answer after the decision on `documents`.

        Raises:
            AbstainedError: the guard abstained, and the chain was told to raise then.
        """
        decision, conversation = turn.decision, self.conversation
        if not decision.acts:
            turn.generate(Stage.WITH_CONTEXT, documents)
            return
        if turn.text is not None:
            turn.question = turn.text
        talk = None if conversation is None else conversation.small_talk
        if decision.reason is Reason.SMALL_TALK and talk is not None:
            if talk.reply is None:
                turn.generate(Stage.SMALL_TALK)
            else:
                turn.reply = talk.reply
            return
        reply = self.replies.standing(decision, documents)
        kept = tuple(documents[index] for index in decision.kept)
        if reply is not None:
            if self.options.raise_on_abstain and decision.route is Route.ABSTAIN:
                raise AbstainedError(decision, reply)
            turn.reply, turn.documents = reply, kept
        elif decision.route is Route.ANSWER:
            turn.generate(Stage.CLOSED_BOOK)
        else:
            turn.generate(Stage.WITH_CONTEXT, kept)

    def _decline(self, turn: Turn, reason: Reason) -> None:
        """Give the reply to an abstention that is not the guard's own.

        Raises:
            AbstainedError: the chain was told to raise on abstentions.
        """
        turn.reply = self.replies.to(reason)
        if self.options.raise_on_abstain:
            raise AbstainedError(turn.decision, turn.reply, reason)
        turn.found["output"] = None
        if reason is Reason.REPLY_ABSTAINED:
            turn.found["reply_abstained"] = True

    def _checked_flow(self, turn: Turn, text: str, output: object) -> Flow[None]:
        """Give the final reply: `text`, unless that abstains and is to be replaced."""
        abstained = yield from self.check_flow(turn, text)
        if abstained and self.options.replace_abstentions and turn.decision.acts:
            self._decline(turn, Reason.REPLY_ABSTAINED)
            return
        turn.reply = text
        turn.found |= {"output": output, "reply_abstained": abstained}

    def check_flow(self, turn: Turn, text: str) -> Flow[bool | None]:
        """Find out whether the generated `text` is an abstention itself; None without a check."""
        check: ReplyCheck | None = self.options.check_reply
        if check is None or turn.stage is Stage.SMALL_TALK:
            return None
        found: bool | None = yield (Stage.CHECK, partial(_abstains, check, turn.asked, text))
        return found

    def checker(self, turn: Turn) -> ReplyChecker | None:
        """What checks the reply to be generated against its documents."""
        return self.guard.reply_checker if turn.stage is Stage.WITH_CONTEXT else None

    def _supported_flow(self, turn: Turn) -> Flow[None]:
        """Deliver what the documents bear out of the reply.

        Raises:
            AbstainedError: it is withheld, and the chain was told to raise on abstentions.
            SignalError: the check failed, and the guard was told to raise then.
        """
        if self.checker(turn) is None or turn.found["reply_abstained"]:
            return
        output = turn.found["output"]
        structured = not (output is None or isinstance(output, str | BaseMessage))
        text = told_values(output) if structured else turn.reply
        verdict = yield from support_flow(turn, text)
        if verdict.text is None:
            self._decline(turn, Reason.REPLY_UNSUPPORTED)
        elif verdict.text != text and not structured:
            turn.reply, turn.found["output"] = verdict.text, retold(output, verdict.text)
        turn.found |= {"support": verdict.support, "supported": verdict.supported}


def support_flow(turn: Turn, text: str, *, part: bool = False) -> Flow[ReplyVerdict]:
    """Check a reply, or a part of it, against the documents."""
    verdict: ReplyVerdict = yield (Stage.SUPPORT, (text, turn.documents, turn.asked, part))
    return verdict


def _abstains(check: ReplyCheck, question: str, reply: str) -> bool | None:
    """Whether `reply` is an abstention itself; None where the check fails, which is logged."""
    try:
        verdict = check(question, reply)
        found: Any = getattr(verdict, "abstained", verdict)
        found = found.item() if getattr(found, "ndim", None) == 0 else found
    except Exception as error:  # noqa: BLE001 - any check of the user's own
        # The message may quote the reply: only the type is logged.
        logger.warning("the check of a reply failed: %s", type(error).__name__)
        return None
    if not isinstance(found, bool):
        logger.warning("the check of a reply returned a %s", type(found).__name__)
        return None
    return found


class StreamedReply:
    """What is shown of a reply while it is generated: each sentence once it was checked.

    Where nothing is withheld, everything is shown as it comes, and checked at the end.

    Args:
        planner: of the chain.
        turn: that is answered.
    """

    def __init__(self, planner: Planner, turn: Turn) -> None:
        self._planner, self._turn = planner, turn
        self._checker = planner.checker(turn)
        self._holds = self._checker is not None and self._checker.holds_back
        self._text, self._judged, self._shown, self._seconds = "", 0, "", 0.0
        self._pending: Any = None
        self._output: Any = None
        # With the place that what is delivered of each part has in what was shown.
        self._verdicts: list[tuple[int, ReplyVerdict]] = []
        self.withheld = False

    def add(self, chunk: object) -> Flow[GuardedAnswer | None]:
        """Return what is shown once `chunk` was generated; None for nothing."""
        more = ""
        if isinstance(chunk, str | BaseMessage):
            more = GuardedAnswer.text_of(chunk)
        else:
            # Data, which is told as a whole.
            self._pending = joined(self._pending, chunk)
        self._text += more
        if not self._holds:
            return self._turn.chunk(more, output=chunk)
        self._output = joined(self._output, chunk)
        shown = yield from self._released()
        return self._turn.chunk(shown) if shown else None

    def end(self) -> Flow[list[GuardedAnswer]]:
        """Return what is shown at the end, the results of checks included."""
        rest = GuardedAnswer.text_of(self._pending)
        self._text += rest
        if self._holds:
            rest = yield from self._released(last=True)
        found: dict[str, Any] = {}
        abstained = yield from self._planner.check_flow(self._turn, self._text)
        if abstained is not None:
            found["reply_abstained"] = abstained
        if self._checker is not None and self._holds:
            found |= self._outcome(self._checker)
        elif self._checker is not None and not abstained:
            verdict = yield from support_flow(self._turn, self._text)
            found |= {"support": verdict.support, "supported": verdict.supported}
        parts: list[tuple[str, dict[str, Any]]] = [(rest, {}), ("", found)]
        return [self._turn.chunk(text, **told) for text, told in parts if text or told]

    def _released(self, *, last: bool = False) -> Flow[str]:
        """Return what may be shown by now; the refusal where the reply is withheld."""
        checker = self._checker
        if self.withheld or checker is None:
            return ""
        text, shown = self._text[self._judged :], ""
        if not last:
            text = text[: max((start for start, _ in sentence_spans(text)), default=0)]
        if text:
            started = time.perf_counter()
            verdict = yield from support_flow(self._turn, text, part=True)
            self._judged += len(text)
            self._seconds += time.perf_counter() - started
            self._verdicts.append((len(self._shown), verdict))
            shown = verdict.text or ""
            # Of a part that is left out as a whole, others may still be delivered.
            drops = checker.action == "drop" and verdict.support is not None
            self.withheld = verdict.text is None and not drops
        self._shown += shown
        if last and any(one.text is None for _, one in self._verdicts):
            self.withheld |= all(one.support is None for one in self._sentences())
        return shown + (self._planner.replies.to(Reason.REPLY_UNSUPPORTED) if self.withheld else "")

    def _sentences(self) -> list[SentenceSupport]:
        """The sentences that were shown."""
        return [
            replace(one, start=one.start + place, end=one.end + place)
            for place, verdict in self._verdicts
            if verdict.support is not None
            for one in verdict.support.sentences
        ]

    def _outcome(self, checker: ReplyChecker) -> dict[str, Any]:
        """Count a reply that was held back, and return what its last chunk has."""
        support, supported = None, None
        supports = [verdict.support for _, verdict in self._verdicts]
        values = [one.value for one in supports if one is not None]
        if len(values) == len(supports):
            support = Support(min(values, default=1.0), tuple(self._sentences()))
            supported = support.value >= checker.threshold
        text = None if self.withheld else self._shown
        verdict = ReplyVerdict(text, support, supported, checker.calibrated)
        checker.tell(self._turn.asked, verdict, self._seconds)
        output = None if self.withheld else self._output
        if output is not None and self._shown != self._text:
            output = retold(output, self._shown)
        return {"support": support, "supported": supported, "output": output}


_TOLD = {
    "route", "reason", "scenario", "relevance", "confidence", "conflict", "kept",
    "failed_signals", "mode",
}  # fmt: skip


def decision_event(decision: Decision) -> dict[str, Any]:
    """What the custom event tells of a decision: words and numbers, no one's text."""
    return decision.model_dump(mode="json", include=_TOLD)
