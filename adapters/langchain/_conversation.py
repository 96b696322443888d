"""Messages of a conversation that are no questions, or not understood alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, convert_to_messages, get_buffer_string
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase, RunnableLike, coerce_to_runnable

from ...guard.deadlines import DeadlineRunner, within
from ...guard.errors import InputError, LanguageModelError, require_known
from ...guard.prompts import Prompt
from ...guard.text import clean_text
from ._answer import GuardedAnswer
from ._calls import TAGS

_LAST_MESSAGES = 10
# Longer messages are more than small talk.
_LONGEST_SMALL_TALK = 100


# What a follow-up leads to that could not be rewritten.
OnRewriteError = Literal["abstain", "as_it_is", "raise"]


@dataclass(frozen=True, slots=True)
class SmallTalk:
    """What is said to messages such as "thanks!", which the guard is not asked about.

    Args:
        reply: a fixed text; None for `model` to reply.
        model: replies to small talk without any passages: a language model, which is given
            the bundled prompt `small_talk`, or any runnable that takes `question` and the
            further keys of the input. By default the language model of `with_context`.
        patterns: phrases, one a line, such as `load_prompt("phrases.txt")`; a message that
            consists of nothing else is small talk. By default the bundled prompt
            `small_talk_patterns`.
        prompt: in place of `small_talk`, with the slot `{question}`.
    """

    reply: str | None = None
    model: RunnableLike[Any, Any] | BaseLanguageModel[Any] | None = None
    patterns: Prompt | None = None
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """How a guarded chain treats follow-ups and small talk.

    A follow-up ("what about yearly?") is rewritten once, to a question that is understood
    alone: that is what the retriever, the guard and the generating runnable are given. The
    message as it was is the key `original_question` of what that runnable is given. Inputs
    without a history are left as they are.

    Args:
        rewriter: makes the question: a language model, which is given the bundled prompt
            `rewrite_question`, or any runnable that takes `question` and the further keys
            of the input. By default the language model of `with_context`; where that has
            none, nothing is rewritten.
        small_talk: None to treat small talk as any other question.
        history_key: key of the input that holds the conversation so far: messages in any
            form that LangChain reads, or text.
        prompt: in place of `rewrite_question`, with the slots `{history}` (the last ten
            messages) and `{question}`.
        timeout: seconds for rewriting one question; None for no limit.
        on_error: what a rewriter leads to that raises, is late or returns nothing:
            `abstain` (reason `rewriting_failed`), `as_it_is` (the guard decides on the
            message as it was), or `raise`.

    Raises:
        InputError: an argument is out of range, or a prompt lacks a slot.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> model = FakeListChatModel(responses=["How much is the yearly plan?"])
        >>> conversation = Conversation(model, small_talk=SmallTalk(reply="You're welcome!"))
        >>> conversation.timeout
        10.0
    """

    rewriter: RunnableLike[Any, Any] | BaseLanguageModel[Any] | None = None
    small_talk: SmallTalk | None = None
    history_key: str = "chat_history"
    prompt: Prompt | None = None
    timeout: float | None = 10.0
    on_error: OnRewriteError = "abstain"

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise InputError("must be positive seconds or None", where="timeout")
        require_known(self.on_error, get_args(OnRewriteError), "on_error")
        if self.prompt is not None:
            self.prompt.require_slots({"history", "question"}, {"question"})
        if self.small_talk is not None and self.small_talk.prompt is not None:
            self.small_talk.prompt.require_slots({"question"})

    def parts(
        self,
        with_context: Runnable[Any, Any],
    ) -> tuple[Runnable[Any, Any] | None, Runnable[Any, Any] | None]:
        """Return the rewriter of a chain, and what replies to its small talk, if there are any.

        Args:
            with_context: the runnable whose language model is used where none is given.

        Raises:
            InputError: small talk is to be answered by a model, and there is none.
        """
        model, talk = _language_model(with_context), self.small_talk
        talker = None if talk is None or talk.reply is not None else _talker(talk, model)
        given = model if self.rewriter is None else self.rewriter
        return None if given is None else self._prepared(given), talker

    def _prepared(self, given: RunnableLike[Any, Any] | BaseLanguageModel[Any]) -> Any:
        prompt = self.prompt or Prompt.bundled("rewrite_question")

        def fill(inputs: Mapping[str, Any]) -> str:
            history = history_text(inputs[self.history_key])
            return prompt.fill(history=history, question=inputs["question"])

        runnable = _prompted(given, fill, "rewrite_question").with_config(tags=list(TAGS))
        return _with_deadline(runnable, self.timeout)

    def is_small_talk(self, text: str) -> bool:
        """Whether a message consists of small talk alone."""
        if self.small_talk is None or len(text) > _LONGEST_SMALL_TALK:
            return False
        return _pattern_of(self.small_talk.patterns).fullmatch(text) is not None


def rewritten(output: object) -> str:
    """The question in what a rewriter returned.

    Raises:
        LanguageModelError: there is none.
    """
    text = clean_text(GuardedAnswer.text_of(output)).strip()
    if not text:
        raise LanguageModelError("the rewriter returned no question")
    return text


def history_text(history: Any) -> str:
    """The last messages of a conversation as text."""
    if isinstance(history, str):
        return clean_text(history)
    messages: Sequence[BaseMessage] = convert_to_messages(list(history))
    return clean_text(get_buffer_string(messages[-_LAST_MESSAGES:]))


@cache
def _pattern_of(patterns: Prompt | None) -> re.Pattern[str]:
    return small_talk_pattern((patterns or Prompt.bundled("small_talk_patterns")).text)


def small_talk_pattern(phrases: str) -> re.Pattern[str]:
    """A pattern that matches messages made of `phrases` alone, one a line; `#` for comments.

    Example:
        >>> pattern = small_talk_pattern("hi\\nthank you")
        >>> bool(pattern.fullmatch("Hi! Thank you...")), bool(pattern.fullmatch("Hi, why?"))
        (True, False)
    """
    lines = {line.strip() for line in phrases.splitlines()}
    chosen = sorted((line for line in lines if line and not line.startswith("#")), key=len)
    # Longest first. A word in Latin letters ends where the next character is no letter.
    parts = [
        r"\W+".join(map(re.escape, re.findall(r"[\w'\u2019]+|[^\w\s]+", line)))
        + (r"(?!\w)" if line.isascii() else "")
        for line in reversed(chosen)
    ]
    either = "|".join(part.replace("'", "['\u2019]?") for part in parts) or r"(?!)"
    return re.compile(rf"\W*(?:(?:{either})\W*)+", re.IGNORECASE)


def _with_deadline(runnable: Runnable[Any, Any], seconds: float | None) -> Runnable[Any, Any]:
    """A runnable whose every call has a deadline; its late result is dropped."""
    runner = DeadlineRunner()
    # The async form of a plain function only moves it to a thread of the event loop, which
    # cannot be given up: stuck calls would keep the program from ending.
    bound: Any = runnable
    while isinstance(bound, RunnableBindingBase):
        bound = bound.bound
    blocks = isinstance(bound, RunnableLambda) and not hasattr(bound, "afunc")

    def call(given: Any, config: RunnableConfig) -> Any:
        return runner.call(lambda: runnable.invoke(given, config), seconds)

    async def acall(given: Any, config: RunnableConfig) -> Any:
        if blocks:
            return await runner.acall(lambda: runnable.invoke(given, config), seconds)
        return await within(runnable.ainvoke(given, config), seconds)

    return RunnableLambda(call, acall, name="rewriter")


def _talker(talk: SmallTalk, model: BaseLanguageModel[Any] | None) -> Runnable[Any, Any]:
    given = model if talk.model is None else talk.model
    if given is None:
        what = "has neither a reply nor a model, and with_context has no language model"
        raise InputError(what, where="small_talk", hint="give SmallTalk a `reply` or a `model`")
    prompt = talk.prompt or Prompt.bundled("small_talk")
    return _prompted(given, lambda inputs: prompt.fill(question=inputs["question"]), "small_talk")


def _prompted(
    given: RunnableLike[Any, Any] | BaseLanguageModel[Any],
    fill: Callable[[Mapping[str, Any]], str],
    name: str,
) -> Runnable[Any, Any]:
    """A model behind its prompt; any other runnable takes the inputs themselves."""
    if isinstance(given, BaseLanguageModel):
        return RunnableLambda(fill, name=name) | given
    return coerce_to_runnable(given)


def _language_model(runnable: Any) -> BaseLanguageModel[Any] | None:
    """The last language model in a runnable, without what is bound to it."""
    if isinstance(runnable, BaseLanguageModel):
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return _language_model(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return _language_model(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (_language_model(step) for step in reversed(runnable.steps))
        return next((model for model in found if model is not None), None)
    return None
