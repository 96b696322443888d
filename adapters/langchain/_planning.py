"""What follows from a request and a decision: pure, shared by every way to call the chain."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from langchain_core.documents import Document

from ...guard import Guard
from ...guard.contracts import View
from ...guard.decision import Decision, Mode, Reason, Route
from ...guard.errors import InputError
from ...guard.prompts import Prompt
from ...guard.text import clean_text, passage_text
from ._answer import AbstainedError, GuardedAnswer, RetrievalError, answer_text

RagInput = str | Mapping[str, Any]

# Set by the chain; a caller's own values must not reach a prompt as if they were vetted.
_RESERVED = frozenset({"question", "context", "documents"})


@dataclass(frozen=True, slots=True)
class Request:
    """One input of the chain.

    Attributes:
        question: as given.
        text: the question as clean text, None where it cannot be read as such.
        extra: further keys of a mapping, passed on to both runnables.
    """

    question: Any
    text: str | None
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_request(given: object) -> Request:
    """The request in `given`: the question itself, or a mapping with `question`.

    A question that is not text is no error here: the guard has a route for it.

    Raises:
        InputError: a mapping without `question`.
    """
    extra: dict[str, Any] = {}
    question = given
    if isinstance(given, Mapping):
        question = required(given, "question")
        extra = {key: value for key, value in given.items() if key not in _RESERVED}
    text = clean_text(question) if isinstance(question, str | bytes) else ""
    return Request(question, text if text.strip() else None, extra)


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


def read_documents(found: object) -> list[Document]:
    """The documents that a retriever returned; None counts as none.

    Raises:
        RetrievalError: something other than a collection of documents.
    """
    if found is None:
        return []
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise RetrievalError(f"the retriever returned a {type(found).__name__}, not documents")
    return list(found)


Language = Literal["en", "zh"]

DEFAULT = "default"
_BUNDLED = {"en": "abstention_replies.json", "zh": "abstention_replies_zh.json"}
_TEMPLATES = "view_templates.json"
_SHOWS_BOTH = Reason.CONFLICT_SHOWS_BOTH.value

# Template → slots that it must have; it can have no others.
_SLOTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        _SHOWS_BOTH: frozenset({"views"}),
        "view_of_passages": frozenset({"answer", "sources"}),
        "view_of_memory": frozenset({"answer"}),
        "view_of_both": frozenset({"answer", "sources"}),
        "passage": frozenset({"number"}),
        "between_sources": frozenset(),
    }
)


@dataclass(frozen=True, slots=True)
class Action:
    """What is done after a decision.

    Attributes:
        reply: the answer where nothing is generated: an abstention, or all views of passages
            in conflict; None where a model is asked.
        closed_book: whether the model is asked without passages.
        kept: indices of the passages that bear on the answer.
    """

    reply: str | None = None
    closed_book: bool = False
    kept: tuple[int, ...] = ()


class Replies:
    """Replies by reason of the abstention, and templates for a reply that shows all views.

    Args:
        replies: one text for all reasons; or reason → text, where `default` stands
            for every reason that is not named; or None for the bundled texts.
            Reasons that neither the mapping nor its `default` covers keep theirs.
            Templates are replaced by their own names only: `conflict_shows_both`
            with the slot `{views}`, each view being a line made of
            `view_of_passages` or `view_of_both` (`{answer}`, `{sources}`) or
            `view_of_memory` (`{answer}`); a source without a name is a `passage`
            (`{number}`), and `between_sources` stands between two.
        language: of the bundled texts, `en` or `zh`.
        veto_reasons: reasons of one's own vetoes that the mapping may name, such as
            `guard.veto_reasons`.

    Raises:
        InputError: a key is no reason, a reply is not text, or a template has
            other slots than those.

    Example:
        >>> replies = Replies({"conflict": "Sources disagree.", "default": "Sorry."})
        >>> replies.to(Reason.CONFLICT), replies.to(Reason.NEITHER_KNOWS)
        ('Sources disagree.', 'Sorry.')
    """

    def __init__(
        self,
        replies: str | Mapping[Reason | str, str] | None = None,
        *,
        language: Language = "en",
        veto_reasons: Collection[str] = (),
    ) -> None:
        if language not in _BUNDLED:
            raise InputError(
                f"{language!r} is unknown",
                where="language",
                hint=f"one of: {', '.join(_BUNDLED)} (or give texts of your own)",
            )
        if isinstance(replies, str):
            replies = {DEFAULT: replies}
        given = _checked({} if replies is None else replies, veto_reasons)
        templates = {name: given.pop(name) for name in _SLOTS if name in given}
        self._texts = given if DEFAULT in given else {**bundled_replies(language), **given}
        self._templates = {**bundled_templates(language), **_checked_templates(templates)}

    def to(self, reason: Reason | str) -> str:
        """The reply for an abstention for `reason`."""
        return self._texts.get(str(reason), self._texts[DEFAULT])

    def showing(self, views: Sequence[View], passages: Sequence[object]) -> str:
        """The reply that names every view and its sources.

        Args:
            views: the answers, with indices of `passages`.
            passages: what was retrieved, in order. A document is named by the
                `title` or else the `source` in its metadata, or else by its number.
        """
        lines = [self._line(view, passages) for view in views]
        return self._filled(_SHOWS_BOTH, views="\n".join(lines))

    def action(self, decision: Decision, passages: Sequence[object]) -> Action:
        """What is done after `decision` on `passages`: what is asked, or the reply that stands."""
        if decision.route is Route.ANSWER:
            return Action(closed_book=True)
        if decision.route is Route.ABSTAIN:
            return Action(reply=self.to(decision.reason))
        if decision.reason is Reason.CONFLICT_SHOWS_BOTH:
            return Action(self.showing(decision.views, passages), kept=decision.kept)
        return Action(kept=decision.kept)

    def _line(self, view: View, passages: Sequence[object]) -> str:
        answer = " ".join(view.answer.split())
        if not view.passages:
            return self._filled("view_of_memory", answer=answer)
        names = dict.fromkeys(self._name(passages, index) for index in view.passages)
        sources = self._templates["between_sources"].join(names)
        name = "view_of_both" if view.from_memory else "view_of_passages"
        return self._filled(name, answer=answer, sources=sources)

    def _name(self, passages: Sequence[object], index: int) -> str:
        document: Any = passages[index] if index < len(passages) else None
        metadata = getattr(document, "metadata", None)
        if isinstance(metadata, Mapping):
            for field in ("title", "source"):
                found = metadata.get(field)
                if isinstance(found, str) and found.strip():
                    return " ".join(clean_text(found).split())
        return self._filled("passage", number=str(index + 1))

    def _filled(self, name: str, **values: str) -> str:
        return Prompt(name, self._templates[name]).fill(**values)


@cache
def bundled_replies(language: Language = "en") -> Mapping[str, str]:
    """Reason → reply, as shipped."""
    return MappingProxyType(_checked(_read(_BUNDLED[language])))


@cache
def bundled_templates(language: Language = "en") -> Mapping[str, str]:
    """Name → template of a reply that shows all views, as shipped."""
    return MappingProxyType(_checked_templates(_read(_TEMPLATES)[language]))


def _read(name: str) -> Any:
    return json.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _checked(
    replies: Mapping[Reason | str, str], veto_reasons: Collection[str] = ()
) -> dict[str, str]:
    if not isinstance(replies, Mapping):
        raise InputError(
            f"is a {type(replies).__name__}",
            where="replies",
            hint="give one text, or a mapping from reason to text",
        )
    known = {reason.value for reason in Reason} | {DEFAULT, *veto_reasons, *_SLOTS}
    # A member of a StrEnum is its own value, so both kinds of key compare alike.
    unknown = sorted(str(key) for key in replies if key not in known)
    if unknown:
        raise InputError(
            f"no reason to abstain is called {', '.join(unknown)}",
            where="replies",
            hint=f"one of: {', '.join(sorted(known))}",
        )
    if not all(isinstance(text, str) for text in replies.values()):
        raise InputError("holds a reply that is not text", where="replies", hint="give texts")
    return {str(key): text for key, text in replies.items()}


def _checked_templates(templates: Mapping[str, str]) -> dict[str, str]:
    for name, text in templates.items():
        if Prompt(name, text).slots != _SLOTS[name]:
            slots = ", ".join(f"{{{slot}}}" for slot in sorted(_SLOTS[name])) or "none"
            raise InputError(
                f"the template {name} has other slots than it is given",
                where="replies",
                hint=f"slots that are filled: {slots}",
            )
    return dict(templates)


_Result = TypeVar("_Result")

logger = logging.getLogger("knowgate.adapters.langchain")


@runtime_checkable
class ReplyDetector(Protocol):
    """Tells of a reply whether it abstains; the verdict has a bool `abstained`."""

    def detect(self, response: str, *, question: str) -> Any:
        """The verdict on one reply."""
        ...


# Question, reply → whether the reply abstains, or a verdict that has `abstained`.
ReplyCheck = Callable[[str, str], Any]


def _reply_check(given: ReplyCheck | ReplyDetector | None) -> ReplyCheck | None:
    """One kind of check for both that can be given.

    Raises:
        InputError: it can neither be called nor has it a `detect`.
    """
    if given is None:
        return None
    if isinstance(given, ReplyDetector):
        detector = given
        return lambda question, reply: detector.detect(reply, question=question)
    if callable(given):
        return given
    raise InputError(
        f"a {type(given).__name__} cannot check a reply",
        where="check_reply",
        hint="give a function of question and reply, or an object with detect",
    )


def abstains(check: ReplyCheck | None, question: object, reply: str) -> bool | None:
    """Whether `reply` is an abstention itself; None where that was not to be found out.

    A check that fails costs nobody the answer: it is logged, by the kind of its error.
    """
    if check is None:
        return None
    text = clean_text(question) if isinstance(question, str | bytes) else ""
    try:
        verdict = check(text, reply)
        found: Any = getattr(verdict, "abstained", verdict)
        found = found.item() if getattr(found, "ndim", None) == 0 else found
    except Exception as error:  # noqa: BLE001 - any check of the user's own, see above
        # Its message may quote the reply: only the type is logged.
        logger.warning("the check of a reply failed: %s", type(error).__name__)
        return None
    if not isinstance(found, bool):
        logger.warning("the check of a reply returned a %s", type(found).__name__)
        return None
    return found


async def checking(check: ReplyCheck | None, step: Callable[..., _Result], *args: Any) -> _Result:
    """`step(*args)`, on another thread where it calls `check`, which may take its time."""
    return step(*args) if check is None else await asyncio.to_thread(step, *args)


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
                hint=f"one of: {', '.join(cls)}",
            ) from None


@dataclass(frozen=True, slots=True)
class RagOptions:
    """What failures and abstentions in a guarded chain lead to, and the check of replies.

    Attributes:
        on_retriever_error: `abstain` (reason `retrieval_failed`) or `raise`.
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

    on_retriever_error: OnRetrieverError | str = OnRetrieverError.ABSTAIN
    raise_on_abstain: bool = False
    check_reply: ReplyCheck | ReplyDetector | None = None
    replace_abstentions: bool = False

    def __post_init__(self) -> None:
        read = OnRetrieverError.read(self.on_retriever_error)
        object.__setattr__(self, "on_retriever_error", read)
        object.__setattr__(self, "check_reply", _reply_check(self.check_reply))


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
        options: of the chain.
    """

    guard: Guard
    replies: Replies
    options: RagOptions

    @property
    def check_reply(self) -> ReplyCheck | None:
        """Tells whether a generated reply abstains; None for no check."""
        found: Any = self.options.check_reply
        check: ReplyCheck | None = found
        return check

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
        if self.options.on_retriever_error is OnRetrieverError.RAISE:
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
        action = self.replies.action(decision, documents)
        kept = [documents[index] for index in action.kept]
        if action.reply is not None:
            if self.options.raise_on_abstain and decision.route is Route.ABSTAIN:
                raise AbstainedError(decision, action.reply)
            return Plan(decision, documents=tuple(kept), reply=action.reply)
        if action.closed_book:
            inputs = {**request.extra, "question": request.text}
            return Plan(decision, Speaker.CLOSED_BOOK, inputs, question=request.text)
        return _from_context(request.text, request, decision, kept)

    def finished(self, plan: Plan, output: object) -> GuardedAnswer:
        """The answer of `plan`, whose speaker put out `output`, after checking it.

        Raises:
            AbstainedError: the reply abstains, and the chain was told to replace
                such replies and to raise on abstentions.
        """
        answer = plan.answer(answer_text(output))
        answer = replace(answer, reply_abstained=self.abstains(plan, answer.answer))
        if not (answer.reply_abstained and self.options.replace_abstentions and plan.decision.acts):
            return answer
        reply = self.replies.to(Reason.REPLY_ABSTAINED)
        if self.options.raise_on_abstain:
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
        "reason": str(decision.reason),
        "scenario": None if decision.scenario is None else decision.scenario.value,
        "relevance": decision.relevance,
        "confidence": decision.confidence,
        "conflict": decision.conflict,
        "kept": list(decision.kept),
        "failed_signals": list(decision.failed_signals),
        "mode": decision.mode.value,
    }
