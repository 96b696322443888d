"""What is served is compared with what was calibrated on: k, format and failures that pass."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry

from knowgate.guard import Guard, GuardMetrics, GuardOptions, Policy, SignalError
from knowgate.guard.artefacts import Retrieval
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.testing import FakeScorer

RETRIEVAL = Retrieval(k=2, passage="answer", longest=10, details={"retrieval": "basic_rag"})
POLICY = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5, retrieval=RETRIEVAL)


def counted(registry: CollectorRegistry, what: str) -> float | None:
    labels = {"guard": "default", "what": what}
    return registry.get_sample_value("knowgate_retrieval_mismatches_total", labels)


def test_more_or_longer_passages_than_in_calibration_warn_once_and_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    guard = Guard(POLICY, scorer=FakeScorer(), metrics=GuardMetrics.on(registry))
    with caplog.at_level("WARNING", "knowgate.guard"):
        guard.decide("q", ["a", "b"])
        guard.decide("q", [])
        guard.decide("q", ["a" * 20])
    assert caplog.text == ""
    assert counted(registry, "k") is None

    with caplog.at_level("WARNING", "knowgate.guard"):
        guard.decide("q", ["a", "b", "c"])
        guard.decide_batch(["q", "q"], [["a", "b", "c"], ["a" * 21]])

    assert counted(registry, "k") == 2
    assert counted(registry, "format") == 1
    assert caplog.text.count("3 passages to a question, 2 in calibration") == 1
    assert caplog.text.count("a passage of 21 characters, at most 10 in calibration") == 1


def test_other_passages_change_no_decision() -> None:
    watched = Guard(POLICY, scorer=FakeScorer(), metrics=False)
    plain = POLICY.model_copy(update={"retrieval": None})
    asked = ("q", ["a", "b", "c" * 50])
    found = watched.decide(*asked)
    expected = Guard(plain, scorer=FakeScorer(), metrics=False).decide(*asked)
    assert (found.route, found.reason, found.kept) == (
        expected.route,
        expected.reason,
        expected.kept,
    )


class ShortSighted(FakeScorer):
    """Reads ten characters."""

    def reads_whole(self, passage: str) -> bool:
        return len(passage) <= 10


async def test_a_passage_whose_end_is_not_read_is_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    plain = POLICY.model_copy(update={"retrieval": None})
    guard = Guard(plain, scorer=ShortSighted(), metrics=GuardMetrics.on(registry))
    with caplog.at_level("WARNING", "knowgate.guard"):
        guard.decide("q", ["a", "b"])
        assert caplog.text == ""
        guard.decide("q", ["a", "b" * 11, "c" * 12])
        await guard.adecide("q", ["b" * 11])
        guard.decide_batch(["q"] * 3, [["b" * 11], ["a"], ["b" * 11]])
    assert counted(registry, "unread") == 4
    assert caplog.text.count("the end of a passage of 11 characters is not read") == 1


def test_the_embedded_model_reads_a_passage_to_its_end_up_to_sixteen_windows() -> None:
    encoder = TokenEncoder()
    fits = "the library opens at nine . " * 522 + "x y"  # 3,134 word pieces
    assert len(encoder.pieces(fits)) == encoder.max_length - 2
    for text, whole in (
        (fits, True),
        (fits + " z", False),
        ("x" * 200_000, False),
        ("short", True),
    ):
        assert encoder.reads_whole(text) is whole
        assert encoder.reads_whole(text) is whole  # as it is remembered
    [windows] = encoder.encode_pre([fits])
    assert len(windows) == 16
    *_, last = windows
    assert len(last) == encoder.max_length


def test_what_was_retrieved_is_stored() -> None:
    assert Policy.parse(json.loads(POLICY.to_json()), where="here") == POLICY


class Broken(FakeScorer):
    """Never answers."""

    def score_pairs(self, pairs):  # type: ignore[no-untyped-def]
        raise RuntimeError


async def test_questions_that_raise_are_counted_in_all_four_forms() -> None:
    registry = CollectorRegistry()
    guard = Guard(
        POLICY,
        scorer=Broken(),
        options=GuardOptions(on_error="raise"),
        metrics=GuardMetrics.on(registry),
    )
    asked = "q", ["a", "b", "c"]
    with pytest.raises(SignalError):
        guard.decide(*asked)
    with pytest.raises(SignalError):
        await guard.adecide(*asked)
    guard.decide_each(["q"], [asked[1]])
    await guard.adecide_each(["q"], [asked[1]])
    assert counted(registry, "k") == 4
