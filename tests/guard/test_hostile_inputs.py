"""Whatever is passed in, a route comes out."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

import numpy as np
import pytest

from knowgate.guard import (
    Confidence,
    Decision,
    Fingerprint,
    Guard,
    GuardOptions,
    InputLimits,
    Policy,
    Reason,
    RelevanceScorer,
    Route,
)
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer
from knowgate.guard.text import passage_text
from tests.support.guards import guard_with, policy_with
from tests.support.hostile import Document, RaisingText, hostile_inputs

NO_DEADLINES = {"relevance": None, "confidence": None, "conflict": None}


class Unreliable:
    """Scorer and estimator that return and raise all kinds of things."""

    fingerprint = Fingerprint(kind="fake")

    def __init__(self) -> None:
        self._random = Random(7)

    def score_pairs(self, passages: Any) -> Any:
        random = self._random
        kind = random.randrange(14)
        if kind == 0:
            raise random.choice(
                [ValueError(passages[0][0]), StopIteration(), asyncio.CancelledError()]
            )
        if kind == 1:
            return None
        if kind == 2:
            return ["0.5"] * len(passages)
        if kind == 3:
            return np.full((len(passages), 1), 0.5)
        if kind == 4:
            return [10**400] * len(passages)
        values = [random.random() for _ in passages]
        if kind == 5:
            values[-1] = random.choice([float("nan"), float("inf"), float("-inf")])
        if kind == 6:
            values.append(0.5)
        return np.asarray(values)

    def estimate(self, question: str) -> Confidence:
        random = self._random
        answer = random.choice(["Ada", "\ud800", "", None, 7, question])
        value = random.choice([0.0, 0.7, 1, 1.5, True, None, float("nan"), "0.5", np.float32(0.9)])
        if random.random() < 0.1:
            return None  # type: ignore[return-value]
        return Confidence(value, answer)  # type: ignore[arg-type]

    async def aestimate(self, question: str) -> Confidence:
        return self.estimate(question)

    def detect(self, question: str, closed_book_answer: str, passages: Any) -> Any:
        return self._random.choice([True, False, None, 1, np.True_, "yes"])

    async def adetect(self, question: str, closed_book_answer: str, passages: Any) -> Any:
        return self.detect(question, closed_book_answer, passages)


def assert_is_a_decision(found: object) -> None:
    assert isinstance(found, Decision)
    assert found.route in set(Route)
    assert (found.route is Route.FOLLOW_CONTEXT) == bool(found.kept)
    assert all(0 <= index < len(found.scores) for index in found.kept)
    for value in (found.relevance, found.confidence):
        assert value is None or 0.0 <= value <= 1.0
    assert Decision.model_validate_json(found.model_dump_json()) == found


def unreliable_guard(**changes: Any) -> Guard:
    part = Unreliable()
    return guard_with(
        policy_with(check_conflict=True),
        scorer=part,
        estimator=part,
        conflict_detector=part,
        **changes,
    )


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logger = logging.getLogger("knowgate.guard")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


@pytest.mark.slow
def test_two_thousand_hostile_inputs_all_end_in_a_route() -> None:
    guard = unreliable_guard(deadlines=NO_DEADLINES)
    routes, reasons = set(), set()
    for question, passages in hostile_inputs(2_000):
        decision = guard.decide(question, passages)
        assert_is_a_decision(decision)
        routes.add(decision.route)
        reasons.add(decision.reason)
    assert routes == set(Route)
    assert len(reasons) >= 7


async def test_hostile_inputs_end_in_a_route_on_threads_and_event_loops_too() -> None:
    guard = unreliable_guard()
    inputs = list(hostile_inputs(600, seed=1))
    for question, passages in inputs[:300]:
        assert_is_a_decision(guard.decide(question, passages))
    for decision in await asyncio.gather(*(guard.adecide(q, p) for q, p in inputs[300:])):
        assert_is_a_decision(decision)


async def test_hostile_inputs_end_in_a_route_in_batches_too() -> None:
    guard = unreliable_guard()
    first, second = (list(hostile_inputs(300, seed=seed)) for seed in (2, 3))
    found = guard.decide_batch([q for q, _ in first], [p for _, p in first])
    found += await guard.adecide_batch([q for q, _ in second], [p for _, p in second])
    assert len(found) == 600
    for decision in found:
        assert_is_a_decision(decision)


def assert_hostile_inputs_end_in_a_route(scorer: RelevanceScorer, count: int) -> None:
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.3)
    guard = Guard(
        policy, scorer=scorer, metrics=False, options=GuardOptions(deadlines=NO_DEADLINES)
    )
    for question, passages in hostile_inputs(count, seed=4):
        decision = guard.decide(question, passages)
        assert_is_a_decision(decision)
        assert decision.failed_signals == ()


@pytest.mark.slow
def test_the_bi_encoder_survives_hostile_texts(bi_encoder: BiEncoderScorer) -> None:
    assert_hostile_inputs_end_in_a_route(bi_encoder, 60)


def test_the_lexical_scorer_survives_hostile_texts(lexical: LexicalScorer) -> None:
    assert_hostile_inputs_end_in_a_route(lexical, 200)


@pytest.mark.parametrize("question", [None, 7, "", " \n", "\x00", b"", object(), ["q"]])
def test_a_question_without_text_is_invalid_input(question: Any) -> None:
    decision = guard_with().decide(question, ["p"])
    assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.INVALID_INPUT)


def test_a_generator_of_thousands_of_passages_is_read_to_its_end() -> None:
    limits = InputLimits(passages=20_000)
    guard = guard_with(scorer=FakeScorer({"19999": 0.9}), limits=limits)
    decision = guard.decide("q", (f"passage {i}" for i in range(20_000)))
    assert decision.route is Route.FOLLOW_CONTEXT
    assert len(decision.kept) == len(decision.scores) == 20_000


def test_a_lone_document_counts_as_one_passage() -> None:
    for lone in (Document("text"), {"content": "text"}, "text"):
        assert InputLimits().read_passages(lone) == ([lone], ["text"])
    assert InputLimits().read_passages(None) == ([], [])


def test_texts_come_out_as_plain_strings() -> None:
    assert type(passage_text(RaisingText("text"))) is str


class _Returns(FakeScorer):
    """Returns one thing, whatever it is asked."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def score_pairs(self, pairs: Any) -> Any:
        return self._value() if callable(self._value) else self._value


def test_scores_that_are_no_sequence_of_numbers_are_a_failed_signal() -> None:
    for value in [
        {0.9: "a"},
        {0.9},
        frozenset({0.9}),
        b"\x01",
        bytearray(b"\x01"),
        "1",
        lambda: iter([0.9]),
        lambda: (0.9 for _ in iter(int, 1)),
        np.array(0.9),
        np.array([[0.9]]),
        [True],
        range(1, 3),
        np.array([0.9 + 1j]),
        [np.complex64(0.9)],
        [0.9 + 0j],
        np.array([True]),
    ]:
        scorer = _Returns(value)
        policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)

        decision = Guard(policy, scorer=scorer, metrics=False).decide("When?", ["At nine."])

        assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.RELEVANCE_FAILED)


@pytest.mark.parametrize(
    "value",
    [[0.9], (0.9,), np.array([0.9]), [np.float32(0.9)]],
    ids=["list", "tuple", "array", "numpy"],
)
def test_sequences_and_arrays_of_numbers_are_scores(value: Any) -> None:
    scorer = _Returns(value)
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)

    decision = Guard(policy, scorer=scorer, metrics=False).decide("When?", ["At nine."])

    assert decision.route is Route.FOLLOW_CONTEXT
