"""The guarded RAG chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    CallbackManagerForChainRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableLike, coerce_to_runnable
from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
from langchain_core.utils.aiter import aclosing

from ...guard import Guard
from ...guard.decision import Mode, Reason
from ...guard.errors import InputError
from ._answer import GuardedAnswer, TextOfChunks, joined
from ._batch import Batch
from ._calls import atogether, child_config, child_configs, together
from ._guard_runnable import adecide_all, decide_all
from ._planning import (
    Plan,
    Planner,
    RagInput,
    RagOptions,
    Speaker,
    checking,
    decision_event,
    read_documents,
    read_request,
)
from ._replies import Replies

DECISION_EVENT = "knowgate_decision"


class GuardedRAG(Runnable[RagInput, GuardedAnswer]):
    """Retrieves, lets the guard decide, and only then generates.

    The input is a question, or a mapping with `question` whose further keys go to
    both runnables. The guard decides before generation, so that allowed answers
    stream as the model produces them; a stream's first chunk carries the decision
    and the documents and no text yet, an abstention is one chunk.

    On `follow_context`, `with_context` gets `question`, `context` (the kept
    passages, blank lines between them) and `documents` (the kept ones). On `answer`,
    `closed_book` gets `question` and nothing of what was retrieved. On `abstain`
    nothing is generated, nor on a conflict under a policy that says `show_both`: the
    reply then names each view and its sources. In shadow mode all documents go to
    `with_context`, whatever the guard decided and counted; a retriever's error is then
    raised, as it would be without a guard.

    What `with_context` and `closed_book` raise is raised as it is: give them (or the
    chain) `with_retry` and `with_fallbacks` as usual. A batch makes one call to each
    part; an input that fails does not stop the others. Keyword arguments of a call
    (`bind`) are given to the generating runnable.

    A tracer sees retriever, guard samples and generation as children of the chain's
    run, and the event `knowgate_decision` with route, reason and scores.

    Args:
        guard: decides; its `mode` says whether decisions act.
        retriever: question → documents; any runnable, retrievers included.
        with_context: answers from the kept passages.
        closed_book: answers from the model's own knowledge; may be left out where
            the policy never allows that.
        replies: what is said on abstention: one text, or reason → text with a key
            `default`; bundled texts otherwise. `Replies` for the Chinese ones, and
            for the template of a reply that shows all views.
        options: what failures and abstentions lead to, and the check of replies.
        name: of the chain's runs in traces.

    Raises:
        InputError: an argument is not what it should be.

    Example:
        >>> from langchain_core.documents import Document
        >>> from langchain_core.runnables import RunnableLambda
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> scorer = FakeScorer({"nine": 0.9})
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> chain = GuardedRAG(
        ...     guard=Guard(policy, scorer=scorer, metrics=False),
        ...     retriever=RunnableLambda(lambda question: [Document("We open at nine.")]),
        ...     with_context=RunnableLambda(lambda given: given["context"]),
        ... )
        >>> chain.invoke("When do you open?").answer
        'We open at nine.'
    """

    def __init__(
        self,
        *,
        guard: Guard,
        retriever: RunnableLike[Any, Any],
        with_context: RunnableLike[Any, Any],
        closed_book: RunnableLike[Any, Any] | None = None,
        replies: str | Mapping[Reason | str, str] | Replies | None = None,
        options: RagOptions | None = None,
        name: str | None = None,
    ) -> None:
        if closed_book is None and guard.policy.may_answer and guard.mode is Mode.ENFORCE:
            raise InputError(
                "is missing, but the policy allows answers from the model's own knowledge",
                where="closed_book",
                hint="give a runnable that answers without context",
            )
        self._guard = guard
        self._retriever: Runnable[Any, Any] = coerce_to_runnable(retriever)
        self._speakers: dict[Speaker, Runnable[Any, Any]] = {
            Speaker.WITH_CONTEXT: coerce_to_runnable(with_context)
        }
        if closed_book is not None:
            self._speakers[Speaker.CLOSED_BOOK] = coerce_to_runnable(closed_book)
        self._planner = Planner(
            guard,
            replies
            if isinstance(replies, Replies)
            else Replies(replies, veto_reasons=guard.veto_reasons),
            RagOptions() if options is None else options,
        )
        self.name = name

    @property
    def guard(self) -> Guard:
        """What decides."""
        return self._guard

    @property
    def retriever(self) -> Runnable[Any, Any]:
        """What finds the documents."""
        return self._retriever

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """Configurable fields of retriever and runnables."""
        parts = (self._retriever, *self._speakers.values())
        return get_unique_config_specs(spec for part in parts for spec in part.config_specs)

    # -- one question -------------------------------------------------------------

    def invoke(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> GuardedAnswer:
        """Answer one question, or abstain."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> GuardedAnswer:
        """As `invoke`, without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(
        self,
        given: RagInput,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> GuardedAnswer:
        plan = self._decided(given, run_manager, config)
        if plan.speaker is None:
            return plan.answer(plan.reply)
        child = child_config(config, run_manager, plan.speaker)
        output = self._speakers[plan.speaker].invoke(dict(plan.inputs), child, **kwargs)
        return self._planner.finished(plan, output)

    async def _ainvoke(
        self,
        given: RagInput,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> GuardedAnswer:
        plan = await self._adecided(given, run_manager, config)
        if plan.speaker is None:
            return plan.answer(plan.reply)
        child = child_config(config, run_manager, plan.speaker)
        output = await self._speakers[plan.speaker].ainvoke(dict(plan.inputs), child, **kwargs)
        return await checking(self._planner.check_reply, self._planner.finished, plan, output)

    def _decided(
        self, given: RagInput, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> Plan:
        request = read_request(given)
        query = self._planner.query(request)
        documents: list[Document] = []
        try:
            if query is not None:
                child = child_config(config, run_manager, "retriever")
                documents = read_documents(self._retriever.invoke(query, child))
        except Exception as error:  # noqa: BLE001 - a failed retrieval has its own route
            decision = self._planner.retrieval_failed(error)
        else:
            decision = self._guard.decide(request.question, documents)
        if run_manager.handlers:
            dispatch_custom_event(DECISION_EVENT, decision_event(decision), config=config)
        return self._planner.plan(request, decision, documents)

    async def _adecided(
        self, given: RagInput, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> Plan:
        request = read_request(given)
        query = self._planner.query(request)
        documents: list[Document] = []
        try:
            if query is not None:
                child = child_config(config, run_manager, "retriever")
                documents = read_documents(await self._retriever.ainvoke(query, child))
        except Exception as error:  # noqa: BLE001 - a failed retrieval has its own route
            decision = self._planner.retrieval_failed(error)
        else:
            decision = await self._guard.adecide(request.question, documents)
        if run_manager.handlers:
            await adispatch_custom_event(DECISION_EVENT, decision_event(decision), config=config)
        return self._planner.plan(request, decision, documents)

    # -- many questions -------------------------------------------------------------

    def batch(
        self,
        inputs: Sequence[RagInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[GuardedAnswer]:
        """Answer many questions with one call to each part, in the order of the inputs."""
        return self._batch_with_config(
            self._batch, list(inputs), config, return_exceptions=return_exceptions, **kwargs
        )

    async def abatch(
        self,
        inputs: Sequence[RagInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[GuardedAnswer]:
        """As `batch`, without blocking the event loop."""
        return await self._abatch_with_config(
            self._abatch, list(inputs), config, return_exceptions=return_exceptions, **kwargs
        )

    def _batch(
        self,
        inputs: list[RagInput],
        run_manager: list[CallbackManagerForChainRun],
        config: list[RunnableConfig],
        **kwargs: Any,
    ) -> list[Exception | GuardedAnswer]:
        batch = Batch(self._planner, inputs)
        if asked := batch.to_retrieve():
            configs = child_configs(config, run_manager, asked, "retriever")
            batch.take_documents(asked, together(self._retriever, batch.queries(asked), configs))
        if undecided := batch.to_decide():
            decided = decide_all(
                self._guard, batch.questions(undecided), batch.documents(undecided)
            )
            batch.take_decisions(undecided, decided)
        for index, decision in batch.decisions.items():
            if run_manager[index].handlers:
                event = decision_event(decision)
                dispatch_custom_event(DECISION_EVENT, event, config=config[index])
        batch.plan()
        for speaker, runnable in self._speakers.items():
            if chosen := batch.to_generate(speaker):
                configs = child_configs(config, run_manager, chosen, speaker)
                outputs = together(runnable, batch.inputs(chosen), configs, **kwargs)
                batch.take_outputs(chosen, outputs)
        return batch.results()

    async def _abatch(
        self,
        inputs: list[RagInput],
        run_manager: list[AsyncCallbackManagerForChainRun],
        config: list[RunnableConfig],
        **kwargs: Any,
    ) -> list[Exception | GuardedAnswer]:
        batch = Batch(self._planner, inputs)
        if asked := batch.to_retrieve():
            configs = child_configs(config, run_manager, asked, "retriever")
            found = await atogether(self._retriever, batch.queries(asked), configs)
            batch.take_documents(asked, found)
        if undecided := batch.to_decide():
            decided = await adecide_all(
                self._guard, batch.questions(undecided), batch.documents(undecided)
            )
            batch.take_decisions(undecided, decided)
        for index, decision in batch.decisions.items():
            if run_manager[index].handlers:
                event = decision_event(decision)
                await adispatch_custom_event(DECISION_EVENT, event, config=config[index])
        batch.plan()
        for speaker, runnable in self._speakers.items():
            if chosen := batch.to_generate(speaker):
                configs = child_configs(config, run_manager, chosen, speaker)
                outputs = await atogether(runnable, batch.inputs(chosen), configs, **kwargs)
                await checking(self._planner.check_reply, batch.take_outputs, chosen, outputs)
        return batch.results()

    # -- streams ----------------------------------------------------------------------

    def stream(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[GuardedAnswer]:
        """The answer in chunks: the decision first, then text as it is generated."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[GuardedAnswer]:
        """As `stream`, without blocking the event loop."""

        async def inputs() -> AsyncIterator[RagInput]:
            yield input

        async with aclosing(self.atransform(inputs(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    def transform(
        self, input: Iterator[RagInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[GuardedAnswer]:
        """As `stream`, for a question that comes in chunks itself."""
        yield from self._transform_stream_with_config(input, self._transform, config, **kwargs)

    async def atransform(
        self, input: AsyncIterator[RagInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[GuardedAnswer]:
        """As `transform`, without blocking the event loop."""
        stream = self._atransform_stream_with_config(input, self._atransform, config, **kwargs)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    def _transform(
        self,
        inputs: Iterator[RagInput],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[GuardedAnswer]:
        chunks = list(inputs)
        if not chunks:
            return
        plan = self._decided(_whole(chunks), run_manager, config)
        if plan.speaker is None:
            yield plan.answer(plan.reply)
            return
        yield plan.answer("")
        text = TextOfChunks()
        child = child_config(config, run_manager, plan.speaker)
        for chunk in self._speakers[plan.speaker].stream(dict(plan.inputs), child, **kwargs):
            if piece := text.add(chunk):
                yield plan.piece(piece)
        if piece := text.rest():
            yield plan.piece(piece)
        if self._planner.check_reply is not None:
            yield plan.ending(self._planner.abstains(plan, text.whole))

    async def _atransform(
        self,
        inputs: AsyncIterator[RagInput],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[GuardedAnswer]:
        chunks = [chunk async for chunk in inputs]
        if not chunks:
            return
        plan = await self._adecided(_whole(chunks), run_manager, config)
        if plan.speaker is None:
            yield plan.answer(plan.reply)
            return
        yield plan.answer("")
        text = TextOfChunks()
        child = child_config(config, run_manager, plan.speaker)
        stream = self._speakers[plan.speaker].astream(dict(plan.inputs), child, **kwargs)
        # Closed here and now when the consumer goes away, not when it is collected.
        async with aclosing(stream) as said:
            async for chunk in said:
                if piece := text.add(chunk):
                    yield plan.piece(piece)
        if piece := text.rest():
            yield plan.piece(piece)
        if (check := self._planner.check_reply) is not None:
            found = await checking(check, self._planner.abstains, plan, text.whole)
            yield plan.ending(found)


def _whole(chunks: Sequence[RagInput]) -> RagInput:
    # One chunk may be None, for which the guard has a route as for any other input.
    whole: RagInput = reduce(joined, chunks)
    return whole
