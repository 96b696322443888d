"""Chat models, retrievers and handlers with scripted behaviour."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from operator import add
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from prometheus_client import CollectorRegistry
from pydantic import Field

from knowgate.adapters.langchain import ChatModelLM, GuardedAnswer, GuardedRAG, RagOptions
from knowgate.guard import Decision, Guard, GuardMetrics, GuardOptions, InputLimits, Policy, Route
from knowgate.guard.contracts import View
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeConflictDetector, FakeEstimator
from tests.support.registries import counted, total


class Record:
    """What a model was asked, and how much it has produced."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.options: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.chunks = 0
        self.lock = threading.Lock()


class TalkingModel(BaseChatModel):
    """Says what `speak` makes of the prompt, word by word when streamed.

    What a message has besides its text comes with the last word.
    """

    speak: Callable[[str], AIMessage | str]
    record: Record = Field(default_factory=Record)
    fails_at_chunk: int | None = None
    api_key: str = "sk-very-secret"
    model_name: str = "talking-1"

    @property
    def _llm_type(self) -> str:
        return "talking"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "api_key": self.api_key}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self._said(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._said(messages, kwargs)
        pieces = re.split(r"(\s)", str(said.text))
        for index, piece in enumerate(pieces):
            if index == self.fails_at_chunk:
                raise ConnectionResetError("the connection broke")
            self.record.chunks += 1
            last = index == len(pieces) - 1
            message = AIMessageChunk(
                content=piece,
                usage_metadata=said.usage_metadata if last else None,
                tool_calls=said.tool_calls if last else [],
            )
            yield ChatGenerationChunk(message=message)

    def _said(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        prompt = str(messages[-1].text)
        with self.record.lock:
            self.record.prompts.append(prompt)
            self.record.options.append(options)
            self.record.threads.add(threading.get_ident())
        said = self.speak(prompt)
        return AIMessage(said) if isinstance(said, str) else said


async def run(
    part: Any, given: Any, asynchronous: bool, config: RunnableConfig | None = None
) -> Any:
    return await part.ainvoke(given, config) if asynchronous else part.invoke(given, config)


async def draw(lm: ChatModelLM, asynchronous: bool, *prompts: str, **options: Any) -> Any:
    if asynchronous:
        return await lm.agenerate(prompts, **options)
    return lm.generate(prompts, **options)


class StatusError(Exception):
    """As HTTP clients raise them."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        super().__init__("timeout while answering: private words")


def collector(said: Any = "said") -> tuple[list[dict[str, Any]], Runnable[Any, Any]]:
    """A runnable that says `said`, and the list of what it was given."""
    given: list[dict[str, Any]] = []

    def collect(inputs: dict[str, Any]) -> Any:
        given.append(inputs)
        return said

    return given, RunnableLambda(collect)


class RunsHandler(BaseCallbackHandler):
    """Collects runs as (kind, name, parent), and custom events."""

    def __init__(self) -> None:
        self.runs: dict[UUID, tuple[str, str, UUID | None]] = {}
        self.tags: dict[UUID, list[str]] = {}
        self.errors: list[BaseException] = []
        self.events: list[tuple[str, Any]] = []

    def names(self) -> list[str]:
        return [name for _, name, _ in self.runs.values()]

    def count(self, kind: str) -> int:
        return sum(found == kind for found, _, _ in self.runs.values())

    def ancestors(self, kind: str) -> list[list[str]]:
        """For each run of `kind`, the names of the runs above it, the root last."""
        lines = []
        for found, _, parent in list(self.runs.values()):
            if found == kind:
                line, above = [], parent
                while above is not None:
                    _, name, above = self.runs[above]
                    line.append(name)
                lines.append(line)
        return lines

    def _note(self, kind: str, run_id: UUID, parent: UUID | None, kwargs: dict[str, Any]) -> None:
        self.runs[run_id] = (kind, str(kwargs.get("name")), parent)
        self.tags[run_id] = list(kwargs.get("tags") or [])

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: Any = None, **kw: Any
    ) -> None:
        self._note("chain", run_id, parent_run_id, kw)

    def on_retriever_start(
        self, serialized: Any, query: Any, *, run_id: UUID, parent_run_id: Any = None, **kw: Any
    ) -> None:
        self._note("retriever", run_id, parent_run_id, kw)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: Any = None, **kw: Any
    ) -> None:
        self._note("model", run_id, parent_run_id, kw)

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(error)

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events.append((name, data))


CONTEXT_PROMPT = PromptTemplate.from_template("CONTEXT {context} QUESTION {question}")
CLOSED_PROMPT = PromptTemplate.from_template("CLOSED {question}")

# Question words that lead to a route: `grounded` is in the documents, `known` in the model.
DOCUMENTS = (
    Document("A grounded passage, kept secret-123.", metadata={"id": "a"}),
    Document("   ", metadata={"id": "blank"}),
    Document("Another passage.", metadata={"id": "b"}),
)


def retrieve(question: str) -> list[Document]:
    if "nothing" in question:
        return []
    if "broken" in question:
        raise OSError("no route to the index of " + question)
    if "grounded" in question:
        return list(DOCUMENTS)
    return [Document("Off topic.", metadata={"id": "c"})]


def speak(prompt: str) -> str:
    if prompt.startswith("CONTEXT"):
        return "from context: " + prompt.rsplit(" ", 1)[-1]
    return "from memory: " + prompt.rsplit(" ", 1)[-1]


OPTIONS = {field.name for field in fields(RagOptions)}


class Setting:
    """A chain with everything that belongs to it."""

    def __init__(
        self,
        *,
        questions: tuple[str, ...] = (),
        mode: str = "enforce",
        default_score: float = 0.1,
        on_error: str = "abstain",
        retriever: Any = None,
        with_context: Runnable[Any, Any] | None = None,
        closed_book: Any = None,
        drawn: str = "an answer",
        views: Mapping[str, Sequence[View]] | None = None,
        on_conflict: str = "show_both",
        observers: Sequence[Callable[[Decision], object]] = (),
        limits: InputLimits | None = None,
        kept_margin: float | None = None,
        **chain: Any,
    ) -> None:
        self.scorer = FakeScorer({"grounded": 0.9}, default=default_score)
        known = [q for q in (*questions, "known one") if "known" in q]
        self.estimator = FakeEstimator(
            dict.fromkeys(known, 0.95), answers=dict.fromkeys(known, drawn)
        )
        policy = Policy(
            scorer=self.scorer.fingerprint,
            relevance_threshold=0.5,
            confidence_threshold=0.7,
            allowed_routes=(Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN),
            kept_margin=kept_margin,
            **(
                {}
                if views is None
                else {
                    "check_conflict": True,
                    "conflict_between": "both",
                    "on_conflict": on_conflict,
                }
            ),
        )
        self.registry = CollectorRegistry()
        self.guard = Guard(
            policy,
            scorer=self.scorer,
            estimator=self.estimator,
            conflict_detector=FakeConflictDetector(views=views),
            options=GuardOptions(mode=mode, on_error=on_error, limits=limits or InputLimits()),
            metrics=GuardMetrics.on(self.registry),
            observers=observers,
        )
        self.context_model = TalkingModel(speak=speak)
        self.closed_model = TalkingModel(speak=speak)
        self.asked: list[str] = []
        self.chain = GuardedRAG(
            guard=self.guard,
            retriever=retriever or RunnableLambda(self._retrieve),
            with_context=with_context or CONTEXT_PROMPT | self.context_model,
            closed_book=closed_book or CLOSED_PROMPT | self.closed_model,
            options=RagOptions(**{name: chain.pop(name) for name in OPTIONS & set(chain)}),
            **chain,
        )

    def _retrieve(self, question: str) -> list[Document]:
        self.asked.append(question)
        return retrieve(question)

    def counted(self, reason: str) -> float:
        return total(self.registry, "knowgate_decisions_total", reason=reason)

    def decisions(self) -> float:
        return total(self.registry, "knowgate_decisions_total")

    def turns(self) -> dict[str, float]:
        return counted(self.registry, "knowgate_conversation_turns_total", "turn")


async def invoke(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return [chain.invoke(question) for question in questions]


async def ainvoke(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return [await chain.ainvoke(question) for question in questions]


async def batch(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return chain.batch(list(questions))


async def abatch(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return await chain.abatch(list(questions))


async def batched(chain: Any, inputs: list[Any], asynchronous: bool) -> Any:
    """The answers to a batch, or errors in their place."""
    if asynchronous:
        return await chain.abatch(inputs, return_exceptions=True)
    return chain.batch(inputs, return_exceptions=True)


async def stream(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return [reduce(add, chain.stream(question)) for question in questions]


async def astream(chain: GuardedRAG, questions: tuple[str, ...]) -> list[GuardedAnswer]:
    return [reduce(add, [c async for c in chain.astream(question)]) for question in questions]


WAYS: tuple[Callable[[GuardedRAG, tuple[str, ...]], Awaitable[list[GuardedAnswer]]], ...] = (
    invoke, ainvoke, batch, abatch, stream, astream,
)  # fmt: skip
