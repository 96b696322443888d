"""The guarded RAG chain."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForChainRun as AsyncManager
from langchain_core.callbacks import CallbackManagerForChainRun as Manager
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableLike, coerce_to_runnable
from langchain_core.runnables.config import patch_config
from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
from langchain_core.utils.aiter import aclosing

from ...guard.deadlines import DeadlineRunner, asked_to_stop, within
from ...guard.decision import Mode, Reason
from ...guard.errors import InputError, KnowgateError, require_known
from ...guard.routing import at_once
from ..shadow import ShadowDecider
from ._answer import GuardedAnswer, joined
from ._conversation import Conversation
from ._documents import read_each
from ._guard_runnable import decide_all
from ._planning import (
    GENERATING,
    Flow,
    Planner,
    RagInput,
    RagOptions,
    Stage,
    Step,
    StreamedReply,
    ToCheck,
    decision_event,
    run_flows,
)
from ._replies import Replies

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from pydantic import BaseModel

    from ...guard import Guard

DECISION_EVENT = "knowgate_decision"
_ESTIMATOR = "estimator"
_MOST_THREADS = 64
_Result = TypeVar("_Result")


class GuardedRAG(Runnable[RagInput, GuardedAnswer]):
    """Retrieves, lets the guard decide, and only then generates.

    The input is a question, or a mapping with `question` whose further keys go to
    both runnables. The guard decides before generation, so that allowed answers
    stream as the model produces them; a stream's first chunk carries the decision
    and the documents and no text yet, an abstention is one chunk.

    On `follow_context`, `with_context` gets `question`, `context` (the kept
    passages, blank lines between them) and `documents` (the kept ones). Documents are
    copied when they are retrieved, so that these are the texts that were judged. On
    `answer`, `closed_book` gets `question` and nothing of what was retrieved. On `abstain`
    nothing is generated, nor on a conflict under a policy that says `show_both`: the
    reply then names each view and its sources. In shadow mode all documents go to
    `with_context` at once, and the guard decides and counts beside the generation, on
    threads of its own; a retriever's error is then raised, as it would be without a guard.

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
            the policy never allows that. With `"estimator"` nothing is generated: the
            answer is the one whose confidence was measured, in one chunk of a stream; an
            estimator without an answer leads to the reply for `reply_abstained`.
        replies: what is said on abstention: one text, or reason → text with a key
            `default`; bundled texts otherwise. `Replies` for the Chinese ones, and
            for the template of a reply that shows all views.
        options: what failures and abstentions lead to, and the check of replies.
        conversation: how follow-ups and small talk are treated; by default as any question.
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
        closed_book: RunnableLike[Any, Any] | Literal["estimator"] | None = None,
        replies: str | Mapping[Reason | str, str] | Replies | None = None,
        options: RagOptions | None = None,
        conversation: Conversation | None = None,
        name: str | None = None,
    ) -> None:
        _require_closed_book(guard, given=closed_book is not None)
        estimator_answers = isinstance(closed_book, str)
        if estimator_answers:
            require_known(closed_book, (_ESTIMATOR,), "closed_book")
        self.guard = guard
        self._threads = DeadlineRunner(_MOST_THREADS)
        self._shadow = ShadowDecider(guard) if guard.mode is Mode.SHADOW else None
        self._parts: dict[Stage, Runnable[Any, Any]] = {
            Stage.RETRIEVER: coerce_to_runnable(retriever),
            Stage.WITH_CONTEXT: coerce_to_runnable(with_context),
        }
        if closed_book is not None and not isinstance(closed_book, str):
            self._parts[Stage.CLOSED_BOOK] = coerce_to_runnable(closed_book)
        if conversation is not None:
            found = conversation.parts(self._parts[Stage.WITH_CONTEXT])
            stages = zip((Stage.REWRITER, Stage.SMALL_TALK), found, strict=True)
            self._parts |= {stage: part for stage, part in stages if part is not None}
        self._planner = Planner(
            guard,
            Replies.of(replies, guard),
            RagOptions() if options is None else options,
            conversation,
            Stage.REWRITER in self._parts,
            estimator_answers,
        )
        self.name = name

    @property
    def retriever(self) -> Runnable[Any, Any]:
        """What finds the documents."""
        return self._parts[Stage.RETRIEVER]

    def with_parts(
        self, *, guard: Guard | None = None, retriever: RunnableLike[Any, Any] | None = None
    ) -> GuardedRAG:
        """Return a chain with another guard or retriever, e.g. to try it on chosen passages.

        Raises:
            InputError: the policy of the guard needs a `closed_book`, and there is none.
        """
        other = copy(self)
        if guard is not None:
            answers = self._planner.estimator_answers or Stage.CLOSED_BOOK in self._parts
            _require_closed_book(guard, given=answers)
            other.guard, other._planner = guard, replace(self._planner, guard=guard)
            other._shadow = ShadowDecider(guard) if guard.mode is Mode.SHADOW else None
        if retriever is not None:
            other._parts = {**self._parts, Stage.RETRIEVER: coerce_to_runnable(retriever)}
        return other

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """Configurable fields of retriever and runnables."""
        parts = self._parts.values()
        return get_unique_config_specs(spec for part in parts for spec in part.config_specs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A tool that an agent can call with a `question`, or with the arguments given here."""
        if args_schema is None and arg_types is None:
            arg_types = {"question": str}
        return super().as_tool(args_schema, name=name, description=description, arg_types=arg_types)

    # -- one question -------------------------------------------------------------

    def invoke(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> GuardedAnswer:
        """Answer one question, or abstain."""

        def answer(given: RagInput, run_manager: Manager, config: RunnableConfig) -> GuardedAnswer:
            return _only(at_once(self._answers(kwargs, [given], [run_manager], [config])))

        return self._call_with_config(answer, input, config)

    async def ainvoke(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> GuardedAnswer:
        """As `invoke`, without blocking the event loop."""

        async def answer(
            given: RagInput,
            run_manager: AsyncManager,
            config: RunnableConfig,
        ) -> GuardedAnswer:
            return _only(await self._answers(kwargs, [given], [run_manager], [config]))

        return await self._acall_with_config(answer, input, config)

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

        def answer(
            given: list[RagInput],
            run_manager: list[Manager],
            config: list[RunnableConfig],
        ) -> list[GuardedAnswer | Exception]:
            return at_once(self._answers(kwargs, given, run_manager, config))

        return self._batch_with_config(
            answer, list(inputs), config, return_exceptions=return_exceptions
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

        return _not_cancelled(
            await self._abatch_with_config(
                partial(self._answers, kwargs),
                list(inputs),
                config,
                return_exceptions=return_exceptions,
            )
        )

    async def _answers(
        self,
        kwargs: Mapping[str, Any],
        inputs: list[RagInput],
        run_manager: Sequence[Manager | AsyncManager],
        config: list[RunnableConfig],
    ) -> list[GuardedAnswer | Exception]:
        flows = [self._planner.answer_flow(given) for given in inputs]
        return await self._run(flows, _Runs(config, run_manager, kwargs))

    # -- streams ----------------------------------------------------------------------

    def stream(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[GuardedAnswer]:
        """The answer in chunks: the decision first, then text as it is generated."""

        def chunks(
            inputs: Iterator[RagInput],
            run_manager: Manager,
            config: RunnableConfig,
        ) -> Iterator[GuardedAnswer]:
            runs = _Runs([config], [run_manager], kwargs)
            return _each_at_once(self._chunks(input, runs))

        yield from self._transform_stream_with_config(iter([input]), chunks, config)

    async def astream(
        self, input: RagInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[GuardedAnswer]:
        """As `stream`, without blocking the event loop."""

        async def inputs() -> AsyncIterator[RagInput]:
            yield input

        def chunks(
            inputs: AsyncIterator[RagInput], run_manager: AsyncManager, config: RunnableConfig
        ) -> AsyncIterator[GuardedAnswer]:
            return self._chunks(input, _Runs([config], [run_manager], kwargs))

        stream = self._atransform_stream_with_config(inputs(), chunks, config)
        async with aclosing(stream) as found:
            async for chunk in found:
                yield chunk

    def transform(
        self, input: Iterator[RagInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[GuardedAnswer]:
        """As `stream`, for a question that comes in chunks itself; one of them may be None."""
        if chunks := list(input):
            yield from self.stream(reduce(joined, chunks), config, **kwargs)

    async def atransform(
        self, input: AsyncIterator[RagInput], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[GuardedAnswer]:
        """As `transform`, without blocking the event loop."""
        if chunks := [chunk async for chunk in input]:
            stream = self.astream(reduce(joined, chunks), config, **kwargs)
            async with aclosing(stream) as found:  # a caller may leave early
                async for chunk in found:
                    yield chunk

    async def _chunks(self, given: RagInput, runs: _Runs) -> AsyncGenerator[GuardedAnswer, None]:
        turn = _only(await self._run([self._planner.plan_flow(given)], runs))
        if turn.stage is None:
            yield turn.whole
            return
        yield turn.chunk("", documents=turn.documents, **turn.found)
        reply = StreamedReply(self._planner, turn)
        async with aclosing(self._said(turn.stage, dict(turn.inputs), runs)) as said:
            async for chunk in said:
                if (shown := _only(await self._run([reply.add(chunk)], runs))) is not None:
                    yield shown
                if reply.withheld:
                    break
        for last in _only(await self._run([reply.end()], runs)):
            yield last

    async def _said(self, stage: Stage, inputs: Any, runs: _Runs) -> AsyncGenerator[Any, None]:
        """What a generating runnable says, as it comes."""
        part, config = self._parts[stage], runs.child(0, stage)
        if runs.is_async:
            async with aclosing(part.astream(inputs, config, **runs.kwargs)) as said:
                async for chunk in said:
                    yield chunk
        else:
            for chunk in part.stream(inputs, config, **runs.kwargs):
                yield chunk

    # -- steps of flows ---------------------------------------------------------------

    async def _run(self, flows: Sequence[Flow[_Result]], runs: _Runs) -> list[_Result | Exception]:
        return await run_flows(flows, partial(self._outcomes, runs))

    async def _outcomes(self, runs: _Runs, step: Step) -> Sequence[object]:
        """The outcomes of one step, or exceptions in their place."""
        stage, needs = step
        given, is_async = list(needs.values()), runs.is_async
        if stage is Stage.READ:
            limits, threads = self.guard.limits, self._threads
            return await read_each(given, limits, threads, is_async=is_async)
        if stage is Stage.GUARD:
            if self._shadow is None:
                return await decide_all(self.guard, given, is_async=is_async)
            loop = asyncio.get_running_loop() if is_async else None
            return self._shadow.decide(given, partial(_tell_late, loop, runs.watched(step)))
        if stage is Stage.CHECK:
            if not is_async:
                return [check() for check in given]
            # A check of the user's own may take its time.
            return await asyncio.to_thread(lambda: [check() for check in given])
        if stage is Stage.SUPPORT:
            return await self._judged(given, is_async=is_async)
        if stage is Stage.EVENT:
            await _tell(runs.watched(step), given, is_async=is_async)
            return given
        try:
            return await self._called(step, given, runs)
        except asyncio.CancelledError as error:
            if runs.single or not runs.is_async or asked_to_stop():
                raise
            return [error] * len(given)
        except Exception as error:  # noqa: BLE001 - its flow decides; a whole batch may have failed
            return [error] * len(given)

    async def _called(self, step: Step, given: list[Any], runs: _Runs) -> Sequence[object]:
        """What a runnable of the chain returns, within its deadline."""
        stage, needs = step
        part, configs = self._parts[stage], [runs.child(index, stage) for index in needs]
        kwargs = runs.kwargs if stage in GENERATING else {}
        is_bounded = stage is Stage.RETRIEVER and self._shadow is None
        seconds = self._planner.options.retriever_timeout if is_bounded else None
        one, many = (part.ainvoke, part.abatch) if runs.is_async else (part.invoke, part.batch)
        task: Callable[[], Any] = partial(one, given[0], configs[0], **kwargs)
        if not runs.single:
            task = partial(many, given, configs, return_exceptions=True, **kwargs)
        if not runs.is_async:
            found = self._threads.call(task, seconds)
        elif seconds is None:
            found = await task()
        else:
            found = await within(task(), seconds)
        if runs.single:
            return [found]
        return _not_cancelled(found) if runs.is_async else found

    async def _judged(self, given: Sequence[ToCheck], *, is_async: bool) -> Sequence[object]:
        """The verdicts on replies."""
        checker = self.guard.reply_checker
        # Nobody asks for it otherwise.
        assert checker is not None
        if is_async:
            judged = (checker.ajudge(*one[:3], part=one[3]) for one in given)
            return _not_cancelled(list(await asyncio.gather(*judged, return_exceptions=True)))
        verdicts: list[object] = []
        for reply, documents, question, part in given:
            try:
                verdicts.append(checker.judge(reply, documents, question, part=part))
            except KnowgateError as error:
                verdicts.append(error)
        return verdicts


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of one call of the chain, one per input.

    Args:
        configs: of the inputs.
        managers: of their runs.
        kwargs: of the call, for the generating runnable.
    """

    configs: Sequence[RunnableConfig]
    managers: Sequence[Manager | AsyncManager]
    kwargs: Mapping[str, Any]

    @property
    def is_async(self) -> bool:
        """Whether the call has its async form."""
        return isinstance(self.managers[0], AsyncManager)

    @property
    def single(self) -> bool:
        """Whether there is one input only."""
        return len(self.configs) == 1

    def child(self, index: int, stage: Stage) -> RunnableConfig:
        """The config under which a part runs as a child of the chain's run."""
        callbacks = self.managers[index].get_child(f"guarded_rag:{stage.value}")
        return patch_config(self.configs[index], callbacks=callbacks)

    def watched(self, step: Step) -> list[RunnableConfig | None]:
        """The configs of the inputs of `step`; None for one whose run nobody watches."""
        return [self.configs[index] if self.managers[index].handlers else None for index in step[1]]


def _require_closed_book(guard: Guard, *, given: bool) -> None:
    if not given and guard.policy.may_answer and guard.mode is Mode.ENFORCE:
        what = "is missing, but the policy allows answers from the model's own knowledge"
        hint = f"give a runnable that answers without context, or {_ESTIMATOR!r}"
        raise InputError(what, where="closed_book", hint=hint)


def _each_at_once(body: AsyncGenerator[_Result, None]) -> Iterator[_Result]:
    """What a body in its sync form yields."""
    done: Any = object()
    try:
        while (found := at_once(anext(body, done))) is not done:
            yield found
    finally:
        at_once(body.aclose())


async def _tell(
    configs: Sequence[RunnableConfig | None], decisions: Sequence[Any], *, is_async: bool
) -> None:
    """Tell the handlers of each run of its decision."""
    for config, decision in zip(configs, decisions, strict=True):
        if config is None:
            continue
        event = decision_event(decision)
        if is_async:
            await adispatch_custom_event(DECISION_EVENT, event, config=config)
        else:
            dispatch_custom_event(DECISION_EVENT, event, config=config)


def _tell_late(
    loop: asyncio.AbstractEventLoop | None,
    configs: Sequence[RunnableConfig | None],
    decisions: Sequence[Any],
) -> None:
    """As `_tell`, from another thread; in the event loop of the chain, if that is still running."""
    if loop is None:
        at_once(_tell(configs, decisions, is_async=False))
    elif any(configs) and loop.is_running():
        asyncio.run_coroutine_threadsafe(_tell(configs, decisions, is_async=True), loop)


def _not_cancelled(results: list[_Result]) -> list[_Result]:
    """The results, unless the caller was cancelled, which LangChain returns like an output."""
    if asked_to_stop() and any(isinstance(one, asyncio.CancelledError) for one in results):
        raise asyncio.CancelledError
    return results


def _only(results: Sequence[_Result | Exception]) -> _Result:
    [result] = results
    if isinstance(result, Exception):
        raise result
    return result
