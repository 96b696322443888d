"""A guard that looks at the question's premise first."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from typing import Any

import pytest
from langchain_core.documents import Document
from prometheus_client import CollectorRegistry, generate_latest

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import (
    Decision,
    Guard,
    LanguageModelError,
    Reason,
    Route,
    SignalError,
    SignalTimeoutError,
)
from knowgate.guard.contracts import Answerability, Premise, PremiseFault
from knowgate.guard.errors import SignalValueError
from knowgate.guard.signals.answerability import PremiseChecker
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeEstimator, ScriptedAnswerability
from tests.support.guards import FORMS, decided, guard_with, policy_with

FALSE = "Who is both?"
TRUE = "Who is one?"
NOBODY = Answerability(
    Premise.UNANSWERABLE, PremiseFault.EMPTY_INTERSECTION, probability=0.1, passages=(0, 1)
)
FOUND = Answerability(Premise.ANSWERABLE, passages=(1,))


def guard_asking(detector: Any, **changes: Any) -> Guard:
    vetoes = [] if detector is None else [detector]
    return guard_with(scorer=FakeScorer(default=0.9), vetoes=vetoes, **changes)


@pytest.mark.parametrize("form", FORMS)
async def test_a_false_premise_abstains_in_every_form_before_anything_is_scored(form: str) -> None:
    scorer, estimator = FakeScorer(default=0.9), FakeEstimator()
    guard = guard_with(
        scorer=scorer,
        estimator=estimator,
        vetoes=[ScriptedAnswerability({FALSE: NOBODY, TRUE: FOUND})],
    )

    decision = await decided(form, guard, FALSE, ["", "first", "second"])

    assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.FALSE_PREMISE)
    assert decision.kept == ()
    assert decision.relevance is None
    assert decision.answerability is not None
    assert decision.answerability.fault is PremiseFault.EMPTY_INTERSECTION
    # Indices of the passages as they were given, the empty one counted.
    assert decision.answerability.passages == (1, 2)
    assert "answerability" in decision.timings
    assert "relevance" not in decision.timings
    assert estimator.calls == 0

    other = await decided(form, guard, TRUE, ["first", "second"])
    assert other.route is Route.FOLLOW_CONTEXT
    assert other.answerability == FOUND


@pytest.mark.parametrize("form", FORMS)
async def test_a_failed_look_abstains_goes_on_or_raises_as_it_was_told(form: str) -> None:
    broken = ScriptedAnswerability(error=RuntimeError("down"))

    abstained = await decided(form, guard_asking(broken), "q", ["p"])
    assert (abstained.route, abstained.reason) == (Route.ABSTAIN, Reason.ANSWERABILITY_FAILED)
    followed = await decided(form, guard_asking(broken, on_error="follow_context"), "q", ["p"])
    # It was an addition: without it the guard decides by relevance.
    assert (followed.route, followed.reason) == (Route.FOLLOW_CONTEXT, Reason.SUFFICIENT_CONTEXT)
    assert followed.answerability is None
    assert abstained.failed_signals == followed.failed_signals == ("answerability",)
    with pytest.raises(SignalError) as raised:
        await decided(form, guard_asking(broken, on_error={"answerability": "raise"}), "q", ["p"])
    assert raised.value.signal == "answerability"
    assert "down" not in str(raised.value)


async def test_a_typed_failure_of_a_language_model_is_raised_as_it_is() -> None:
    broken = ScriptedAnswerability(error=LanguageModelError("no reply"))

    with pytest.raises(LanguageModelError):
        await guard_asking(broken, on_error="raise").adecide("q", ["p"])


@pytest.mark.parametrize("form", FORMS)
async def test_a_look_that_takes_too_long_fails_by_its_deadline(form: str) -> None:
    slow = ScriptedAnswerability(seconds=0.3)
    guard = guard_asking(slow, deadlines={"answerability": 0.02}, on_error="raise")

    with pytest.raises(SignalTimeoutError):
        await decided(form, guard, "q", ["p"])


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        True,
        Answerability("perhaps"),  # type: ignore[arg-type]
        Answerability(Premise.UNANSWERABLE, "too hard"),  # type: ignore[arg-type]
        Answerability(Premise.ANSWERABLE, probability=float("nan")),
        Answerability(Premise.ANSWERABLE, probability="half"),  # type: ignore[arg-type]
        Answerability(Premise.ANSWERABLE, passages=(1,)),
        Answerability(Premise.ANSWERABLE, passages=("0",)),  # type: ignore[arg-type]
        Answerability(Premise.ANSWERABLE, PremiseFault.IMPOSSIBLE_TIME),
    ],
)
async def test_a_detector_that_returns_rubbish_fails_its_signal(rubbish: Any) -> None:
    guard = guard_asking(ScriptedAnswerability({"q": rubbish}), on_error="raise")

    with pytest.raises(SignalValueError):
        guard.decide("q", ["p"])
    with pytest.raises(SignalValueError):
        await guard.adecide("q", ["p"])
    careful = guard_asking(ScriptedAnswerability({"q": rubbish}))
    assert careful.decide("q", ["p"]).reason is Reason.ANSWERABILITY_FAILED


def test_passages_come_back_rising_and_once_each() -> None:
    found = Answerability(Premise.ANSWERABLE, passages=(2, 0, 2))
    guard = guard_asking(ScriptedAnswerability({"q": found}))

    answerability = guard.decide("q", ["a", "", "b", "c"]).answerability

    assert answerability is not None
    assert answerability.passages == (0, 3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("nothing", [None, [], ["", "  "]])
async def test_where_nothing_was_retrieved_the_premise_is_not_asked_about(
    form: str, nothing: Any
) -> None:
    detector = ScriptedAnswerability({FALSE: NOBODY})

    decision = await decided(form, guard_asking(detector), FALSE, nothing)

    assert detector.calls == 0
    assert decision.reason is not Reason.FALSE_PREMISE
    assert decision.answerability is None


@pytest.mark.parametrize("form", FORMS)
async def test_a_guard_that_abstains_from_everything_does_not_look_at_the_premise(
    form: str,
) -> None:
    detector = ScriptedAnswerability({FALSE: NOBODY}, error=RuntimeError("down"))
    policy = policy_with(relevance_threshold=None, confidence_threshold=None)

    decision = await decided(form, guard_asking(detector, policy=policy), FALSE, ["p"])

    assert decision.reason is Reason.NO_THRESHOLD
    assert detector.calls == 0


def test_a_decision_with_its_verdict_survives_json_pickle_and_copies() -> None:
    decision = guard_asking(ScriptedAnswerability({FALSE: NOBODY})).decide(FALSE, ["a", "b"])

    for copy in (
        Decision.model_validate_json(decision.model_dump_json()),
        Decision.model_validate(json.loads(json.dumps(decision.model_dump(mode="json")))),
        pickle.loads(pickle.dumps(decision)),
        deepcopy(decision),
    ):
        assert copy == decision
        assert copy.answerability == NOBODY


@pytest.mark.parametrize("detector", [ScriptedAnswerability({FALSE: NOBODY}), None])
def test_false_premises_are_told_apart_in_metrics_by_few_labels(detector: Any) -> None:
    registry = CollectorRegistry()
    guard = guard_asking(detector, metrics=True, registry=registry)

    for question in (FALSE, "secret one", "secret two"):
        guard.decide(question, ["p", "q"])

    text = generate_latest(registry).decode()
    assert "secret" not in text
    assert ('reason="false_premise"' in text) == (detector is not None)
    assert text.count("knowgate_decisions_total{") == (2 if detector else 1)


def chain_with(guard: Guard, asked: list[Any]) -> GuardedRAG:
    def with_context(inputs: Any) -> str:
        asked.append(inputs)
        return "from context"

    return GuardedRAG(
        guard=guard,
        retriever=lambda _: [
            Document("Who leads Rill? Bo Rask"),
            Document("The mother of Ann is? Mary Lund"),
        ],
        with_context=with_context,
        closed_book=lambda inputs: "from memory",
    )


def test_in_shadow_mode_a_false_premise_is_decided_and_changes_nothing() -> None:
    asked: list[Any] = []
    chain = chain_with(guard_asking(PremiseChecker(), mode="shadow"), asked)

    answer = chain.invoke("Who leads Rill and is also the mother of Ann?")

    assert answer.answer == "from context"
    assert len(asked) == 1
    assert answer.decision.reason is Reason.FALSE_PREMISE
