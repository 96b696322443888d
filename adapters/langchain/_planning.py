"""The steps of a chain without any I/O: read a request, plan its answer, check the reply.

    question ─► REWRITER ─► RETRIEVER ─► READ ─► GUARD ─► EVENT ─► one that generates
             ─► CHECK ─► SUPPORT

Generators yield what they need done; the sync and async forms of the chain only differ in how
they do it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
)
from ...guard.read_models import CheckedSettings
from ...guard.signals.support.contracts import ReplyVerdict, SentenceSupport, Support
from ...guard.signals.support.reading import sentence_spans
from ...guard.text import clean_text
from ._answer import (
    AbstainedError,
    GuardedAnswer,
    RetrievalError,
    joined,
    retold,
    told_values,
)
from ._conversation import Turns, rewritten
from ._documents import as_given, shown_text
from ._flows import Flow, Stage, ToCheck
from ._replies import Replies
from ._shadow import LateDecision

if TYPE_CHECKING:
    from ...guard import Guard, InputLimits

_Result = TypeVar("_Result")


RagInput = str | Mapping[str, Any]

# Set by the chain; a caller's own values must not reach a prompt as if they were vetted.
_RESERVED = frozenset({"question", "context", "documents"})


@dataclass(frozen=True, slots=True)
class Request:
    """One input of the chain.

    Attributes:
        question: as given.
        text: the question as clean text, None where it cannot be read as such.
        extra: further keys of a mapping, passed on to all runnables that generate.
        standalone: the question as it was rewritten, which `question` and `text` then are.
    """

    question: Any
    text: str | None
    extra: Mapping[str, Any] = field(default_factory=dict)
    standalone: str | None = None


def read_request(given: object, limits: InputLimits) -> Request:
    """The request in `given`: the question itself, or a mapping with `question`.

    A question that is not text, or too long, is no error here: the guard has a route for it.

    Raises:
        InputError: a mapping without `question`.
    """
    extra: dict[str, Any] = {}
    text: str | None
    question = given
    if isinstance(given, Mapping):
        question = required(given, "question")
        extra = {key: value for key, value in given.items() if key not in _RESERVED}
    try:
        text = limits.read_question(question)
    except QuestionError:
        text = None
    return Request(question, text, extra)


def required(given: Mapping[str, Any], key: str) -> Any:
    """`given[key]`.

    Raises:
        InputError: it is not there.
    """
    if key not in given:
        raise InputError(
            f"the input has no key {key!r}",
            hint=f"keys that are there: {', '.join(sorted(map(str, given))) or 'none'}",
        )
    return given[key]


logger = logging.getLogger("knowgate.adapters.langchain")


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
    raise InputError(
        f"a {type(given).__name__} cannot check a reply",
        where="check_reply",
        hint="give a function of question and reply, or an object with detect",
    )


def _abstains(check: ReplyCheck, question: object, reply: str) -> bool | None:
    """Whether `reply` is an abstention itself; None where the check fails, which is logged."""
    text = clean_text(question) if isinstance(question, str | bytes) else ""
    try:
        verdict = check(text, reply)
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


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is to be answered.

    Attributes:
        decision: of the guard.
        stage: which runnable generates the answer; None where `reply` is the answer.
        inputs: what the runnable is given.
        documents: passages that the prompt will contain.
        reply: the answer where nothing is generated: an abstention, all views, or the
            estimator's own answer.
        output: what stands behind that answer, or was generated.
        reply_abstained: whether that answer is an abstention of the model itself.
        question: as the runnable is given it.
        standalone_question: the question as it was rewritten; None where it was not.
        support: how far the generated reply rests on the documents; None where not checked.
        supported: whether all of it does; None likewise.
    """

    decision: Decision
    stage: Stage | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    reply: str = ""
    output: object = None
    reply_abstained: bool | None = None
    question: object = ""
    standalone_question: str | None = None
    support: Support | None = None
    supported: bool | None = None

    @property
    def whole(self) -> GuardedAnswer:
        """The whole answer where nothing is left to be generated."""
        names = ("output", "reply_abstained", "standalone_question", "support", "supported")
        found = {name: getattr(self, name) for name in names}
        return GuardedAnswer(self.reply, self.decision, self.documents, **found)

    @property
    def first_chunk(self) -> GuardedAnswer:
        """The chunk before the generated text."""
        return GuardedAnswer(
            "", self.decision, self.documents, standalone_question=self.standalone_question
        )

    def chunk(self, text: str, output: object = None, **found: Any) -> GuardedAnswer:
        """A chunk that follows the first one."""
        return GuardedAnswer(text, self.decision, output=output, **found)


@dataclass(frozen=True, slots=True)
class Planner:
    """Everything about a chain that needs no input or output.

    Args:
        guard: its mode decides whether decisions act.
        replies: for abstentions.
        options: of the chain.
        turns: None where every message is a question that is understood alone.
        estimator_answers: whether the closed-book answer is the one whose confidence was
            measured, instead of another one.
    """

    guard: Guard
    replies: Replies
    options: RagOptions
    turns: Turns | None = None
    estimator_answers: bool = False

    @property
    def shadow(self) -> bool:
        """Whether decisions are only taken and counted."""
        return self.guard.mode is Mode.SHADOW

    def timeout(self, stage: Stage) -> float | None:
        """Seconds that a runnable of the chain has; None where it has no deadline."""
        waits = stage is not Stage.RETRIEVER or self.shadow
        return None if waits else self.options.retriever_timeout

    def answer_flow(self, given: object) -> Flow[GuardedAnswer]:
        """Answer one input of the chain.

        Raises:
            AbstainedError: the guard or the reply abstained, and the chain was told to
                raise then.
        """
        plan = yield from self.plan_flow(given)
        if plan.stage is not None:
            output = yield (plan.stage, plan.inputs)
            plan = yield from self._checked_flow(plan, GuardedAnswer.text_of(output), output)
            plan = yield from self._supported_flow(plan)
        return plan.whole

    def plan_flow(self, given: object) -> Flow[Plan]:
        """Plan the answer to one input: retrieve, then let the guard decide."""
        request, decision = yield from self._turn_flow(read_request(given, self.guard.limits))
        documents: list[Document] = []
        if decision is None or self.shadow:
            # The chain without a guard would have asked whatever it was given.
            query = request.question if self.shadow else request.text
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
                decision = yield (Stage.GUARD, (request.question, documents))
        if not isinstance(decision, LateDecision):
            yield (Stage.EVENT, decision)
        plan = self._plan(request, decision, documents)
        if plan.stage is Stage.CLOSED_BOOK and self.estimator_answers:
            drawn = decision.closed_book_answer or ""
            plan = replace(plan, stage=None, inputs={})
            if not drawn.strip():
                return self._own_abstention(plan)
            plan = yield from self._checked_flow(plan, drawn, drawn)
        return plan

    def _turn_flow(self, request: Request) -> Flow[tuple[Request, Decision | None]]:
        """Rewrite a follow-up; a decision where the guard is not to be asked.

        Raises:
            Exception: the rewriter's own, where the chain was told to raise it.
        """
        turns = self.turns
        if turns is None or request.text is None:
            return request, None
        extra = {**request.extra, "original_question": request.text}
        if turns.is_small_talk(request.text):
            self.guard.count_turn("small_talk")
            return replace(request, extra=extra), self._decision(Route.ANSWER, Reason.SMALL_TALK)
        if not turns.follows_up(request.extra):
            self.guard.count_turn("question")
            return replace(request, extra=extra), None
        inputs = {**request.extra, "question": request.text}
        try:
            question = rewritten((yield (Stage.REWRITER, inputs)))
        except Exception as error:
            logger.warning("the rewriter failed: %s", type(error).__name__)
            self.guard.count_turn("rewriting_failed")
            if turns.on_error == "raise":
                raise
            decision = None
            if turns.on_error == "abstain":
                decision = self._decision(Route.ABSTAIN, Reason.REWRITING_FAILED)
                self.guard.count(decision)
            return replace(request, extra=extra), decision
        self.guard.count_turn("follow_up")
        return Request(question, question, extra, standalone=question), None

    def _decision(self, route: Route, reason: Reason) -> Decision:
        return Decision(route=route, reason=reason, mode=self.guard.mode)

    def _checked_flow(self, plan: Plan, text: str, output: object) -> Flow[Plan]:
        """The plan with its final reply: `text`, unless that abstains and is to be replaced."""
        abstained = yield from self.check_flow(plan, text)
        if abstained and self.options.replace_abstentions and plan.decision.acts:
            return self._own_abstention(plan)
        return replace(plan, reply=text, output=output, reply_abstained=abstained)

    def _own_abstention(self, plan: Plan) -> Plan:
        """The plan with the reply to an abstention of the model itself.

        Raises:
            AbstainedError: the chain was told to raise on abstentions.
        """
        reply = self.replies.to(Reason.REPLY_ABSTAINED)
        if self.options.raise_on_abstain:
            raise AbstainedError(plan.decision, reply, Reason.REPLY_ABSTAINED)
        return replace(plan, reply=reply, reply_abstained=True)

    def _supported_flow(self, plan: Plan) -> Flow[Plan]:
        """The plan with what is delivered of its reply, as far as the documents bear it out.

        Raises:
            AbstainedError: it is withheld, and the chain was told to raise on abstentions.
            SignalError: the check failed, and the guard was told to raise then.
        """
        if not self.checks_support(plan) or plan.reply_abstained:
            return plan
        structured = not (plan.output is None or isinstance(plan.output, str | BaseMessage))
        text = told_values(plan.output) if structured else plan.reply
        verdict: ReplyVerdict = yield (Stage.SUPPORT, self.to_check(plan, text))
        if verdict.text is None:
            reply = self.replies.to(Reason.REPLY_UNSUPPORTED)
            if self.options.raise_on_abstain:
                raise AbstainedError(plan.decision, reply, Reason.REPLY_UNSUPPORTED)
            plan = replace(plan, reply=reply, output=None)
        elif verdict.text != text and not structured:
            plan = replace(plan, reply=verdict.text, output=retold(plan.output, verdict.text))
        return replace(plan, support=verdict.support, supported=verdict.supported)

    def checks_support(self, plan: Plan) -> bool:
        """Whether the reply to be generated is checked against its documents."""
        return plan.stage is Stage.WITH_CONTEXT and self.guard.reply_checker is not None

    def to_check(self, plan: Plan, text: str, *, part: bool = False) -> ToCheck:
        """What the check of a reply, or of a part of it, is given."""
        question = plan.question
        asked = clean_text(question) if isinstance(question, str | bytes) else ""
        return text, plan.documents, asked, part

    def held_reply(self, plan: Plan) -> HeldReply | None:
        """What holds a streamed reply back until it is checked; None where nothing does."""
        checker = self.guard.reply_checker
        if checker is None or not checker.holds_back or not self.checks_support(plan):
            return None
        return HeldReply(self, plan)

    def end_flow(self, plan: Plan, text: str, held: HeldReply | None) -> Flow[dict[str, Any]]:
        """What the last chunk of a streamed reply tells, as far as that was checked."""
        found: dict[str, Any] = {}
        abstained = yield from self.check_flow(plan, text)
        if abstained is not None:
            found["reply_abstained"] = abstained
        if held is not None:
            return found | held.end()
        if not self.checks_support(plan) or abstained:
            return found
        verdict: ReplyVerdict = yield (Stage.SUPPORT, self.to_check(plan, text))
        return found | {"support": verdict.support, "supported": verdict.supported}

    def check_flow(self, plan: Plan, text: str) -> Flow[bool | None]:
        """Find out whether the generated `text` is an abstention itself; None without a check."""
        check: ReplyCheck | None = self.options.check_reply
        if check is None or plan.stage is Stage.SMALL_TALK:
            return None
        found: bool | None = yield (Stage.CHECK, partial(_abstains, check, plan.question, text))
        return found

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
        decision = self._decision(Route.ABSTAIN, reason)
        self.guard.count(decision)
        if self.shadow:
            raise error
        return decision

    def _plan(self, request: Request, decision: Decision, documents: Sequence[Document]) -> Plan:
        """How `request` is answered after `decision` on `documents`.

        Raises:
            AbstainedError: the guard abstained, and the chain was told to raise then.
        """
        if not decision.acts:
            return _generating(Stage.WITH_CONTEXT, request.question, request, decision, documents)
        if decision.reason is Reason.SMALL_TALK and self.turns is not None:
            if self.turns.reply is not None:
                return Plan(decision, reply=self.turns.reply)
            return _generating(Stage.SMALL_TALK, request.text, request, decision)
        action = self.replies.action(decision, documents)
        kept = [documents[index] for index in action.kept]
        if action.reply is not None:
            if self.options.raise_on_abstain and decision.route is Route.ABSTAIN:
                raise AbstainedError(decision, action.reply)
            plan = Plan(decision, documents=tuple(kept), reply=action.reply)
            return replace(plan, standalone_question=request.standalone)
        if action.closed_book:
            return _generating(Stage.CLOSED_BOOK, request.text, request, decision)
        return _generating(Stage.WITH_CONTEXT, request.text, request, decision, kept)


class HeldReply:
    """A reply as it is generated, of which each sentence is released once it was checked.

    Args:
        planner: of the chain.
        plan: of the answer.
    """

    def __init__(self, planner: Planner, plan: Plan) -> None:
        self._planner, self._plan = planner, plan
        self._text, self._judged, self._shown = "", 0, ""
        self._output: Any = None
        self._sentences: list[SentenceSupport] = []
        self._value, self._seconds = 1.0, 0.0
        self._refused = self._dropped = self._tells = False
        checker = planner.guard.reply_checker
        self._drops = checker is not None and checker.action == "drop"
        self.withheld = self.failed = False

    def part(self, more: str, *, last: bool = False) -> Flow[str]:
        """Return what may be shown now that `more` was generated; the refusal where it is withheld.

        Args:
            more: text that follows.
            last: whether nothing follows any more.
        """
        self._text += more
        end = len(self._text)
        if not last:
            begun = sentence_spans(self._text[self._judged :])
            *_, end = (self._judged + start for start, _ in ((0, 0), *begun))
        if self.withheld:
            return ""
        shown = ""
        if end > self._judged:
            shown = yield from self._judge(end)
        self._shown += shown
        if self._refused or (last and self._dropped and not self._tells):
            self.withheld = True
            return shown + self._planner.replies.to(Reason.REPLY_UNSUPPORTED)
        return shown

    def _judge(self, end: int) -> Flow[str]:
        """Judge the text up to `end`, and return what is delivered of it."""
        started = time.perf_counter()
        part = self._text[self._judged : end]
        given = self._planner.to_check(self._plan, part, part=True)
        verdict: ReplyVerdict = yield (Stage.SUPPORT, given)
        self._judged, self._seconds = end, self._seconds + time.perf_counter() - started
        if verdict.support is None:
            self.failed = True
        else:
            self._value = min(self._value, verdict.support.value)
            self._sentences += verdict.support.shifted(len(self._shown)).sentences
            self._tells |= any(one.support is not None for one in verdict.support.sentences)
        if verdict.text is None:
            # Of a part that is left out as a whole, others may still be delivered.
            drops = self._drops and verdict.support is not None
            self._refused, self._dropped = not drops, drops
        return verdict.text or ""

    def gather(self, chunk: object) -> None:
        """Keep what the model returned, for the last chunk."""
        self._output = joined(self._output, chunk)

    def end(self) -> dict[str, Any]:
        """Count the reply, and return what its last chunk has: output and verdict."""
        checker = self._planner.guard.reply_checker
        assert checker is not None  # nothing was held back otherwise
        support, supported = None, None
        if not self.failed:
            support = Support(self._value, tuple(self._sentences))
            supported = support.value >= checker.threshold
        text = None if self.withheld else self._shown
        _, _, question, _ = self._planner.to_check(self._plan, "")
        calibrated = checker.policy is not None and checker.policy.certified
        verdict = ReplyVerdict(text, support, supported, calibrated)
        checker.end(question, verdict, self._seconds)
        output = None if self.withheld else self._output
        if output is not None and self._shown != self._text:
            output = retold(output, self._shown)
        return {"support": support, "supported": supported, "output": output}


class StreamedReply:
    """What is shown of a reply while it is generated.

    Args:
        planner: of the chain.
        plan: of the answer.
    """

    def __init__(self, planner: Planner, plan: Plan) -> None:
        self._planner, self._plan = planner, plan
        self._text, self._pending = "", None
        self._held = planner.held_reply(plan)

    @property
    def withheld(self) -> bool:
        """Whether nothing more is shown."""
        return self._held is not None and self._held.withheld

    def add(self, chunk: object) -> Flow[GuardedAnswer | None]:
        """Return what is shown once `chunk` was generated; None for nothing."""
        more = ""
        if isinstance(chunk, str | BaseMessage):
            more = self._said(chunk)
        else:  # data, which is told as a whole
            self._pending = joined(self._pending, chunk)
        if self._held is None:
            return self._plan.chunk(more, chunk)
        self._held.gather(chunk)
        shown = yield from self._held.part(more)
        return self._plan.chunk(shown) if shown else None

    def end(self) -> Flow[list[GuardedAnswer]]:
        """Return what is shown at the end, the results of checks included."""
        rest = self._said(self._pending)
        if self._held is not None:
            rest = yield from self._held.part(rest, last=True)
        last = yield from self._planner.end_flow(self._plan, self._text, self._held)
        parts: list[tuple[str, dict[str, Any]]] = [(rest, {}), ("", last)]
        return [self._plan.chunk(text, **found) for text, found in parts if text or found]

    def _said(self, output: object) -> str:
        text = GuardedAnswer.text_of(output)
        self._text += text
        return text


def _generating(
    stage: Stage,
    question: object,
    request: Request,
    decision: Decision,
    documents: Sequence[Document] | None = None,
) -> Plan:
    """The plan of a reply that a model writes; without documents, its prompt has no context."""
    inputs = {**request.extra, "question": question}
    if documents is not None:
        context = "\n\n".join(map(shown_text, documents))
        inputs |= {"context": context, "documents": list(documents)}
    return Plan(
        decision,
        stage,
        inputs,
        tuple(documents or ()),
        question=question,
        standalone_question=request.standalone,
    )


_TOLD = {
    "route", "reason", "scenario", "relevance", "confidence", "conflict", "kept",
    "failed_signals", "mode",
}  # fmt: skip


def decision_event(decision: Decision) -> dict[str, Any]:
    """What the custom event tells of a decision: words and numbers, no one's text."""
    return decision.model_dump(mode="json", include=_TOLD)
