"""A part that fails lets no unguarded answer out, on any path."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Any, TypedDict

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.graph import END, START, StateGraph
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.adapters.langchain import (
    Conversation,
    GuardCompressor,
    GuardedRAG,
    GuardedRetriever,
    RetrievalError,
    guard_node,
)
from knowgate.guard import Guard, Reason, Route, Veto
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.agents import agent, asking, streamed
from tests.adapters.langchain.fakes import WAYS, Setting, run
from tests.support.deadlines import auntil, awith_enough_time
from tests.support.fakes import FakeConflictDetector, FakeEstimator
from tests.support.guards import guard_with, policy_with
from tests.support.registries import total

SOON = 0.03
QUESTION = "a grounded one"
PASSAGE = Document("The grounded passage.")
UNGUARDED = ("grounded passage", "from memory", "from context")


# -- every path from a question to what the user sees -------------------------------------------

Path = Callable[[Guard], Awaitable[str]]


def chain_of(guard: Guard, **parts: Any) -> GuardedRAG:
    given: dict[str, Any] = {
        "retriever": lambda question: [PASSAGE],
        "with_context": lambda given: f"from context: {given['context']}",
        "closed_book": lambda given: "from memory",
    }
    return GuardedRAG(guard=guard, **(given | parts))


def by_chain(way: Any) -> Path:
    async def path(guard: Guard) -> str:
        [answer] = await way(chain_of(guard), (QUESTION,))
        return str(answer.answer)

    return path


def by_filter(kind: Any, asynchronous: bool) -> Path:
    async def path(guard: Guard) -> str:
        if kind is GuardCompressor:
            compressor = GuardCompressor(guard=guard)
            if asynchronous:
                found = await compressor.acompress_documents([PASSAGE], QUESTION)
            else:
                found = compressor.compress_documents([PASSAGE], QUESTION)
        else:
            finds: Runnable[str, list[Document]] = RunnableLambda(lambda question: [PASSAGE])
            retriever = GuardedRetriever(guard=guard, retriever=finds)
            found = await (retriever.ainvoke(QUESTION) if asynchronous else to(retriever))
        return " ".join(one.page_content for one in found)

    async def to(retriever: GuardedRetriever) -> list[Document]:
        return retriever.invoke(QUESTION)

    return path


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    route: str
    reply: str | None


def by_graph(asynchronous: bool) -> Path:
    async def path(guard: Guard) -> str:
        built = StateGraph(State)
        built.add_node("guard", guard_node(guard, replies="Sorry."))
        built.add_node(
            "follow_context", lambda state: {"reply": state["documents"][0].page_content}
        )
        built.add_node("answer", lambda state: {"reply": "from memory"})
        built.add_edge(START, "guard")
        edges: dict[Hashable, str] = {
            "follow_context": "follow_context",
            "answer": "answer",
            "abstain": END,
        }
        built.add_conditional_edges("guard", lambda state: state["route"], edges)
        app = built.compile()
        given: State = {"question": QUESTION, "documents": [PASSAGE]}
        state = await run(app, given, asynchronous)
        return str(state["reply"])

    return path


def by_agent(asynchronous: bool, *, streams: bool = False) -> Path:
    async def path(guard: Guard) -> str:
        made, _ = agent(guard)
        if streams:
            return "".join(await streamed(made, asking(QUESTION), asynchronous))
        return str((await run(made, asking(QUESTION), asynchronous))["messages"][-1].text)

    return path


PATHS: dict[str, Path] = {
    **{f"chain, {way.__name__}": by_chain(way) for way in WAYS},
    "retriever": by_filter(GuardedRetriever, False),
    "retriever, async": by_filter(GuardedRetriever, True),
    "compressor": by_filter(GuardCompressor, False),
    "compressor, async": by_filter(GuardCompressor, True),
    "graph": by_graph(False),
    "graph, async": by_graph(True),
    "agent": by_agent(False),
    "agent, async": by_agent(True),
    "agent, streamed": by_agent(False, streams=True),
}


# -- the scorer -----------------------------------------------------------------------------------


class FaultyScorer(FakeScorer):
    """Scores as `fault` does for so many passages."""

    def __init__(self, fault: Callable[[int], Any]) -> None:
        super().__init__()
        self._fault = fault

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._fault(len(pairs))
        return found


def failing(error: BaseException) -> Callable[[int], Any]:
    def fault(count: int) -> Any:
        raise error

    return fault


def hangs(gate: threading.Event) -> Callable[[int], Any]:
    def fault(count: int) -> Any:
        gate.wait(60)
        return np.full(count, 0.9)

    return fault


def blocks_in_c(count: int) -> Any:
    """Sufficient scores, from C code that lets no other thread run meanwhile."""
    ctypes.PyDLL(None).usleep(int(2e6 * SOON))
    return np.full(count, 0.9)


# Name → what the scorer does, and the kind of error that is counted.
SCORER_FAULTS: dict[str, tuple[Callable[[int], Any], str]] = {
    "raises": (failing(RuntimeError("down")), "other"),
    "runs out of memory": (failing(MemoryError()), "other"),
    "ends its thread": (failing(SystemExit(3)), "other"),
    "NaN": (lambda count: np.full(count, np.nan), "value"),
    "a score too few": (lambda count: np.full(count - 1, 0.9), "value"),
    "a score too many": (lambda count: np.full(count + 1, 0.9), "value"),
    "hangs": (failing(AssertionError("stands for the gate")), "timeout"),
    "blocks in C": (blocks_in_c, "timeout"),
}


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging calls wait for; opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("path", PATHS)
async def test_a_scorer_that_works_lets_the_passage_through(path: str) -> None:
    assert "grounded passage" in await PATHS[path](guard_with(scorer=FakeScorer(default=0.9)))


@pytest.mark.parametrize("fault", SCORER_FAULTS)
@pytest.mark.parametrize("path", PATHS)
async def test_no_fault_of_the_scorer_lets_an_answer_out(
    path: str, fault: str, gate: threading.Event
) -> None:
    scores, kind = SCORER_FAULTS[fault]
    registry = CollectorRegistry()
    guard = guard_with(
        scorer=FaultyScorer(hangs(gate) if fault == "hangs" else scores),
        estimator=FakeEstimator(default=1.0),
        deadlines={"relevance": SOON} if kind == "timeout" else {},
        metrics=True,
        registry=registry,
    )

    shown = await PATHS[path](guard)

    assert not any(text in shown for text in UNGUARDED)
    decided = total(registry, "knowgate_decisions_total")
    failed = {"route": "abstain", "reason": "relevance_failed"}
    assert total(registry, "knowgate_decisions_total", **failed) == decided >= 1
    counted = total(registry, "knowgate_errors_total", signal="relevance", kind=kind)
    assert counted == total(registry, "knowgate_errors_total") == decided


# -- the retriever --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_retriever_that_hangs_is_given_up_at_its_deadline(
    way: Any, gate: threading.Event
) -> None:
    async def waits(question: str) -> list[Document]:
        await asyncio.sleep(60)
        return [PASSAGE]

    def hanging(question: str) -> list[Document]:
        gate.wait(60)
        return [PASSAGE]

    retriever = RunnableLambda(hanging, waits)
    abstaining = Setting(retriever=retriever, retriever_timeout=SOON)
    raising = Setting(retriever=retriever, retriever_timeout=SOON, on_retriever_error="raise")

    [answer] = await way(abstaining.chain, ("a known one",))

    assert (answer.decision.route, answer.documents) == (Route.ABSTAIN, ())
    assert abstaining.counted("retrieval_failed") == 1
    with pytest.raises(RetrievalError, match="in time"):
        await way(raising.chain, ("a known one",))


async def test_hanging_retrievers_keep_a_bounded_number_of_threads(gate: threading.Event) -> None:
    before = threading.active_count()
    begun = itertools.count()

    def hanging(question: str) -> list[Document]:
        next(begun)
        gate.wait(60)
        return [PASSAGE]

    setting = Setting(retriever=hanging, retriever_timeout=0.005)

    answers = [setting.chain.invoke("a known one") for _ in range(100)]

    assert {answer.decision.reason for answer in answers} == {Reason.RETRIEVAL_FAILED}
    assert threading.active_count() - before <= 64
    assert next(begun) <= 64


async def test_a_retriever_in_time_is_as_one_without_a_deadline() -> None:
    setting = Setting(retriever_timeout=60)
    for way in WAYS:
        [answer] = await way(setting.chain, (QUESTION,))
        assert answer.decision.route is Route.FOLLOW_CONTEXT
    shadow = Setting(mode="shadow", retriever_timeout=1e-9)
    assert shadow.chain.invoke(QUESTION).answer.startswith("from context")


COUNTS = {
    0: Reason.NOTHING_RETRIEVED,
    1: Reason.SUFFICIENT_CONTEXT,
    1000: Reason.SUFFICIENT_CONTEXT,
    1001: Reason.INPUT_TOO_LARGE,
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_any_number_of_passages_ends_in_a_route(count: int, asynchronous: bool) -> None:
    found = [Document(f"Off topic {number}.") for number in range(count)]
    if count:
        found[count // 2] = PASSAGE
    setting = Setting(retriever=lambda question: found)

    chain = setting.chain
    answer = await run(chain, QUESTION, asynchronous)

    assert answer.decision.reason is COUNTS[count]
    assert setting.counted(COUNTS[count].value) == 1
    if answer.decision.route is Route.FOLLOW_CONTEXT:
        assert PASSAGE in answer.documents


# -- cancellation, stage by stage -----------------------------------------------------------------


class Stuck:
    """A coroutine function that hangs, and says when it was begun and ended."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, *given: Any, **options: Any) -> Any:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.set()


def fails_when_sync(given: Any) -> Any:
    raise AssertionError("the async form was to be used")


class StuckVeto(Veto[float]):
    """Never decides."""

    name, reason = "stuck", "stuck"

    def __init__(self, stuck: Stuck) -> None:
        self._stuck = stuck

    @property
    def fingerprint(self) -> Any:
        return FakeScorer().fingerprint

    def measure(self, request: Any) -> float:
        raise AssertionError("the async form was to be used")

    async def ameasure(self, request: Any) -> float:
        await self._stuck()
        return 0.0


class StuckScorer(FakeScorer):
    def __init__(self, stuck: Stuck) -> None:
        super().__init__()
        self.ascore = self.ascore_pairs = stuck


class StuckEstimator(FakeEstimator):
    def __init__(self, stuck: Stuck) -> None:
        super().__init__()
        self.aestimate = stuck  # type: ignore[method-assign]


class StuckDetector(FakeConflictDetector):
    def __init__(self, stuck: Stuck) -> None:
        super().__init__()
        self.aexamine = stuck  # type: ignore[method-assign]


FOLLOW_UP: Any = {"question": "And then?", "chat_history": [HumanMessage("When do you open?")]}


def chain_stuck_at(
    stage: str,
    stuck: Stuck,
    *,
    deadlines: dict[str, float] | None = None,
    timeout: float | None = None,
) -> GuardedRAG:
    hanging: Runnable[Any, Any] = RunnableLambda(fails_when_sync, stuck)
    scores = 0.9 if stage in ("conflict", "with_context") else 0.1
    known = FakeEstimator(default=0.9)
    guard: dict[str, Any] = {"scorer": FakeScorer(default=scores), "estimator": known}
    parts: dict[str, Any] = {}
    policy = policy_with(check_conflict=stage == "conflict")
    if stage == "veto":
        guard["vetoes"] = [StuckVeto(stuck)]
    elif stage == "relevance":
        guard["scorer"] = StuckScorer(stuck)
    elif stage == "confidence":
        guard["estimator"] = StuckEstimator(stuck)
    elif stage == "conflict":
        guard["conflict_detector"] = StuckDetector(stuck)
    elif stage == "rewriter":
        parts["conversation"] = Conversation(rewriter=hanging, timeout=timeout)
    else:
        parts[stage] = hanging
    return chain_of(guard_with(policy, deadlines=deadlines or {}, **guard), **parts)


STAGES = (
    "rewriter", "retriever", "veto", "relevance", "confidence", "conflict",
    "with_context", "closed_book",
)  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
async def test_a_call_that_is_cancelled_in_any_stage_ends_there_without_an_answer(
    stage: str,
) -> None:
    stuck, before = Stuck(), asyncio.all_tasks()
    chain = chain_stuck_at(stage, stuck)
    call = asyncio.ensure_future(chain.ainvoke(FOLLOW_UP if stage == "rewriter" else QUESTION))
    begun = asyncio.ensure_future(stuck.begun.wait())
    await asyncio.wait({call, begun}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert begun.done(), call
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(stuck.ended.wait(), 60)
    await auntil(lambda: asyncio.all_tasks() == before)


SIGNALS = {"veto": "stuck", "relevance": "relevance", "confidence": "confidence"}


@pytest.mark.parametrize("stage", [*SIGNALS, "conflict"])
async def test_every_signal_that_hangs_ends_at_its_deadline(stage: str) -> None:
    name = SIGNALS.get(stage, stage)

    async def check(seconds: float) -> None:
        stuck = Stuck()
        chain = chain_stuck_at(stage, stuck, deadlines={name: seconds})

        answer = await chain.ainvoke(QUESTION)

        assert (answer.decision.route, answer.decision.failed_signals) == (Route.ABSTAIN, (name,))
        assert stuck.ended.is_set()

    await awith_enough_time(check)


async def test_a_rewriter_that_hangs_ends_at_its_deadline() -> None:
    async def check(seconds: float) -> None:
        stuck = Stuck()
        chain = chain_stuck_at("rewriter", stuck, timeout=seconds)

        answer = await chain.ainvoke(FOLLOW_UP)

        assert answer.decision.reason is Reason.REWRITING_FAILED
        assert stuck.ended.is_set()

    await awith_enough_time(check)
