"""Let a guard decide for a system, count its calls, and choose the reply that follows."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from ...adapters.langchain import ChatLimits, ChatModelLM
from ...guard import Guard
from ...guard.contracts import Generation, LanguageModel
from ...guard.decision import Decision, Route
from ...guard.errors import InputError
from ._models import CallMeter, ModelUnderTest

_Reply = TypeVar("_Reply")


def choose_reply(
    decision: Decision, *, with_context: _Reply, closed_book: _Reply, abstention: _Reply
) -> _Reply:
    """Choose which of three replies the user gets after a decision.

    Args:
        decision: of the guard.
        with_context: the model's reply to question and passages.
        closed_book: the model's reply to the question alone.
        abstention: the reply of the guard itself.
    """
    replies = {Route.FOLLOW_CONTEXT: with_context, Route.ANSWER: closed_book}
    return replies.get(decision.route, abstention)


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
        step: Runnable[Any, Decision] = RunnableLambda(deciding)
        return await step.ainvoke(None, RunnableConfig(callbacks=[meter]))
    finally:
        _meter.reset(token)


def counted_model(model: ModelUnderTest) -> LanguageModel:
    """The model as guards ask it; its calls are counted by `decide`.

    Raises:
        InputError: it is not a chat model.
    """
    runnable = model.asked
    if isinstance(runnable, HuggingFaceChatModel):
        return _CountedLM(runnable.lm)
    if isinstance(runnable, BaseChatModel):
        # The runner of the calls bounds and repeats; here each is tried once.
        return ChatModelLM(runnable, limits=ChatLimits(timeout=None, max_attempts=1))
    raise InputError(
        "the policy asks how sure the model itself is, and this is no chat model",
        where=model.name,
        hint="use a policy calibrated without answers from memory, or name a chat model",
    )


class _CountedLM:
    """A local language model whose calls are counted on the current meter."""

    def __init__(self, lm: HuggingFaceLM) -> None:
        self._lm = lm

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self._lm.fingerprint

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Generate as the model does."""
        found = self._lm.generate(prompts, n=n, temperature=temperature, seed=seed)
        self._count(prompts, found)
        return found

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Generate as the model does."""
        found = await self._lm.agenerate(prompts, n=n, temperature=temperature, seed=seed)
        self._count(prompts, found)
        return found

    def _count(self, prompts: Sequence[str], found: Sequence[Sequence[Generation]]) -> None:
        meter = _meter.get()
        if meter is None:
            return
        for prompt, row in zip(prompts, found, strict=True):
            read = len(self._lm.token_ids(prompt)) * len(row)
            meter.add(len(row), read, sum(len(one.token_logprobs or ()) for one in row))
