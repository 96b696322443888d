"""Call models under test, and count calls and tokens."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from ...adapters.langchain import ChatLimits, ChatModelLM, GuardedAnswer
from ...guard import Guard
from ...guard.contracts import Generation, LanguageModel
from ...guard.decision import Decision
from ...guard.errors import InputError, LanguageModelError

_REPLY_FIELDS = ("answer", "output", "result")
# A chat model (or any runnable from text to a message or text), or the guard's own kind.
TextModel: TypeAlias = Runnable[Any, Any] | LanguageModel


class CallMeter(BaseCallbackHandler):
    """Counts the calls and tokens of the language models that run under it.

    Attributes:
        calls: attempts, failed ones included.
        input_tokens: of the replies that said so.
        output_tokens: likewise.
        unmetered: replies that did not say.
    """

    run_inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = self.input_tokens = self.output_tokens = self.unmetered = 0

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **kwargs: Any
    ) -> None:
        """Count a call of a chat model."""
        self.add(len(messages))

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """Count a call of a plain language model."""
        self.add(len(prompts))

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        """Count what the replies used."""
        for row in response.generations:
            message = getattr(row[0], "message", None) if row else None
            usage = message.usage_metadata if isinstance(message, AIMessage) else None
            if usage is None:
                with self._lock:
                    self.unmetered += 1
            else:
                self.add(0, usage["input_tokens"], usage["output_tokens"])

    def add(self, calls: int, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Count calls that LangChain does not see."""
        with self._lock:
            self.calls += calls
            self.input_tokens += input_tokens
            self.output_tokens += output_tokens

    def tokens(self) -> tuple[int | None, int | None]:
        """Input and output tokens, None where a call did not say."""
        if self.unmetered:
            return None, None
        return self.input_tokens, self.output_tokens


def takes_prompt(model: Runnable[Any, Any] | None) -> bool:
    """Whether a model under test is a language model, to be given one of the prompts.

    Anything else gets a mapping with `question`, `context` (one text) and `documents`, and brings
    its own prompt. What is not loaded yet, None, has a name of its own and is a chat model.
    """
    return model is None or isinstance(_innermost(model), BaseLanguageModel)


def repeats_itself(model: Runnable[Any, Any]) -> bool:
    """Whether one prompt always gets one reply: decoding is greedy, as far as the model says so."""
    return getattr(_innermost(model), "temperature", None) == 0


async def ask(model: TextModel, given: Any, meter: CallMeter) -> str:
    """Ask a model, count its calls, and return the text of the reply.

    Raises:
        LanguageModelError: what it put out is no reply.
        Exception: whatever the runnable raises.
    """
    before, output = meter.calls, None
    try:
        if isinstance(model, Runnable):
            output = await model.ainvoke(given, RunnableConfig(callbacks=[meter]))
        else:
            output = (await model.agenerate([given]))[0][0].text
    finally:
        if meter.calls == before:
            # No language model of LangChain inside: the call is the model's own.
            meter.add(1)
            meter.unmetered += 1
    return reply_text(output)


def reply_text(output: object) -> str:
    """Return the reply in the output of a model or chain.

    Args:
        output: text, a message, an answer of a guarded chain, or a mapping with one of
            these under `answer`, `output` or `result`, as LangChain's chains give it.

    Raises:
        LanguageModelError: anything else; how Python shows it is nothing that a user of
            the system would read.

    Example:
        >>> reply_text({"answer": "At nine.", "context": []})
        'At nine.'
    """
    if isinstance(output, Mapping):
        output = next((output[name] for name in _REPLY_FIELDS if name in output), output)
    if isinstance(output, GuardedAnswer):
        return output.answer
    if isinstance(output, (str, BaseMessage)):
        return GuardedAnswer.text_of(output)
    raise LanguageModelError(
        f"put out {type(output).__name__}, and no text, message or mapping with 'answer'"
    )


def context_input(question: str, passages: Mapping[str, str]) -> dict[str, Any]:
    """Return the input of a runnable that has its own prompt.

    Args:
        question: as asked.
        passages: texts by id.
    """
    documents = [Document(text, metadata={"passage_id": name}) for name, text in passages.items()]
    context = "\n\n".join(passages.values())
    return {"question": question, "context": context, "documents": documents}


def _innermost(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """What a call reaches first, looked up through bindings, retries and fallbacks."""
    while True:
        if isinstance(runnable, RunnableBindingBase):
            runnable = runnable.bound
        elif isinstance(runnable, RunnableSequence):
            runnable = runnable.first
        elif isinstance(runnable, RunnableWithFallbacks):
            runnable = runnable.runnable
        else:
            return runnable


_meter: ContextVar[CallMeter | None] = ContextVar("knowgate_reply_meter", default=None)


async def decide(
    guard: Guard, question: str, passages: Sequence[str], meter: CallMeter
) -> Decision:
    """Return the guard's decision; its calls of language models are counted."""

    async def deciding(_: object) -> Decision:
        return await guard.adecide(question, list(passages))

    token = _meter.set(meter)
    try:
        # Inside a runnable, so that LangChain counts the calls to this decision.
        return await RunnableLambda(deciding).ainvoke(None, RunnableConfig(callbacks=[meter]))
    finally:
        _meter.reset(token)


def counted_model(name: str, model: Runnable[Any, Any]) -> LanguageModel:
    """The model as guards ask it; its calls are counted by `decide`.

    Raises:
        InputError: it is not a chat model.
    """
    if isinstance(model, HuggingFaceChatModel):
        return _CountedLM(model.lm)
    if isinstance(model, BaseChatModel):
        # The runner of the calls bounds and repeats; here each is tried once.
        return ChatModelLM(model, limits=ChatLimits(timeout=None, max_attempts=1))
    what = "the policy asks how sure the model itself is, and this is no chat model"
    hint = "use a policy calibrated without answers from memory, or name a chat model"
    raise InputError(what, where=name, hint=hint)


class _CountedLM:
    """A local language model whose calls are counted on the current meter."""

    def __init__(self, lm: HuggingFaceLM) -> None:
        self._lm = lm

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self._lm.fingerprint

    def generate(self, prompts: Sequence[str], **how: Any) -> list[list[Generation]]:
        """Generate as the model does."""
        return self._counted(prompts, self._lm.generate(prompts, **how))

    async def agenerate(self, prompts: Sequence[str], **how: Any) -> list[list[Generation]]:
        """Generate as the model does."""
        return self._counted(prompts, await self._lm.agenerate(prompts, **how))

    def _counted(
        self, prompts: Sequence[str], found: list[list[Generation]]
    ) -> list[list[Generation]]:
        meter = _meter.get()
        if meter is None:
            return found
        for prompt, row in zip(prompts, found, strict=True):
            read = len(self._lm.token_ids(prompt)) * len(row)
            meter.add(len(row), read, sum(len(one.token_logprobs or ()) for one in row))
        return found
