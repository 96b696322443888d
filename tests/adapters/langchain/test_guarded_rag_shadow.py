"""Shadow mode changes nothing: it waits for nothing and raises nothing."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.adapters.langchain import GuardedAnswer, GuardedRAG
from knowgate.guard import Decision, Guard, Mode, Reason, Route
from knowgate.guard.testing import FakeScorer
from tests.adapters.langchain.fakes import DOCUMENTS, WAYS, RunsHandler, run
from tests.support.deadlines import auntil
from tests.support.fakes import FailingScorer
from tests.support.guards import guard_with, policy_with

NO_DEADLINES = {"relevance": None}


class Gated(FakeScorer):
    """Waits until its gate opens."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__(default=0.9)
        self._gate = gate

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        assert self._gate.wait(60)
        return super().score_pairs(pairs)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def shadowed(retrieved: Any = DOCUMENTS, **changes: Any) -> GuardedRAG:
    policy = policy_with(allowed_routes=(Route.FOLLOW_CONTEXT, Route.ABSTAIN))
    return GuardedRAG(
        guard=guard_with(policy, **{"deadlines": NO_DEADLINES, "mode": "shadow"} | changes),
        retriever=lambda question: retrieved,
        with_context=lambda given: "said " + given["context"][:20],
    )


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_the_answer_is_there_before_the_decision_which_is_counted_all_the_same(
    way: Any, gate: threading.Event
) -> None:
    seen: list[Decision] = []
    registry = CollectorRegistry()
    chain = shadowed(scorer=Gated(gate), observers=[seen.append], metrics=True, registry=registry)

    answers: list[GuardedAnswer] = await way(chain, ("one", "two"))
    before = [answer.answer for answer in answers], len(seen), answers[0].abstained
    gate.set()
    decisions = [await answer.adecision() for answer in answers]

    assert before == (["said A grounded passage, "] * 2, 0, False)
    assert {(one.route, one.mode) for one in decisions} == {(Route.FOLLOW_CONTEXT, Mode.SHADOW)}
    assert sorted(map(id, seen)) == sorted(map(id, decisions))
    labels = {"guard": "default", "stage": "total"}
    assert registry.get_sample_value("knowgate_stage_seconds_count", labels) == 2


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    "retrieved",
    [None, "a text", {"documents": []}, 7, [None], [[Document("nested")]], Document("bare"), []],
    ids=range(8),
)
async def test_nothing_that_a_retriever_returns_is_raised_on(way: Any, retrieved: Any) -> None:
    chain = shadowed(retrieved, on_error="raise", scorer=FakeScorer(default=0.9))

    [answer] = await way(chain, ("q",))

    assert answer.answer.startswith("said")
    assert isinstance((await answer.adecision()).reason, Reason)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_failure_of_a_signal_is_raised_even_if_asked_for(way: Any) -> None:
    chain = shadowed(on_error="raise", scorer=FailingScorer(RuntimeError("broken")))

    answers = await way(chain, ("one", "two"))

    assert {answer.answer[:4] for answer in answers} == {"said"}
    assert {answer.decision.reason for answer in answers} == {Reason.RELEVANCE_FAILED}


def test_a_guard_in_shadow_mode_raises_nothing_by_itself_either() -> None:
    on_error, scorer = {"relevance": "raise", "input": "raise"}, FailingScorer(KeyError("broken"))
    guard = guard_with(mode="shadow", on_error=on_error, scorer=scorer)
    assert guard.decide("q", ["p"]).reason is Reason.RELEVANCE_FAILED
    assert guard.decide("", ["p"]).reason is Reason.INVALID_INPUT


def test_a_guard_that_breaks_altogether_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*given: Any) -> Any:
        raise SystemExit(3)

    seen: list[Decision] = []
    chain = shadowed(observers=[seen.append])
    monkeypatch.setattr(Guard, "decide_each", breaks)

    answer = chain.invoke("q")

    assert answer.answer.startswith("said")
    assert answer.decision.reason is Reason.SHADOW_FAILED
    assert len(seen) == 1


def test_threads_are_bounded_and_decisions_that_wait_too(gate: threading.Event) -> None:
    before = threading.active_count()
    chain = shadowed(scorer=Gated(gate))

    answers = [chain.invoke("q") for _ in range(1100)]

    assert threading.active_count() - before <= 8
    gate.set()
    reasons = [answer.decision.reason for answer in answers]
    assert reasons.count(Reason.SHADOW_FAILED) >= 80
    assert reasons.count(Reason.SUFFICIENT_CONTEXT) >= 1000


def test_a_late_decision_is_a_decision_wherever_it_goes() -> None:
    answer = shadowed(scorer=FakeScorer(default=0.9)).invoke("q")
    late, made = answer.decision, asyncio.run(answer.adecision())

    assert type(made) is Decision
    assert late == made
    assert made == late
    assert repr(made) in repr(late).replace("LateDecision", "Decision")
    for other in (copy.copy(late), copy.deepcopy(late), pickle.loads(pickle.dumps(late))):
        assert other == made
    for dumped in (answer.model_dump(mode="json"), json.loads(answer.model_dump_json())):
        assert dumped["decision"] == made.model_dump(mode="json")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_handlers_are_told_of_the_decision_once_it_is_made(asynchronous: bool) -> None:
    handler = RunsHandler()
    chain = shadowed(scorer=FakeScorer(default=0.9))
    config: Any = {"callbacks": [handler]}

    answer = await run(chain, "q", asynchronous, config)
    await answer.adecision()
    await auntil(lambda: bool(handler.events))

    assert [event["reason"] for _, event in handler.events] == ["sufficient_context"]
