"""What is served is compared with what was calibrated on: k, format and failures that pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import (
    Fingerprint,
    FingerprintMismatchError,
    Guard,
    GuardMetrics,
    GuardOptions,
    Policy,
    SignalError,
)
from knowgate.guard.artefacts import Retrieval
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import SignalValueError
from knowgate.guard.signals.relevance import LexicalScorer
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


class Drifting:
    """A scorer with weights whose numbers can be moved while its hashes stay."""

    fingerprint = Fingerprint(kind="drifting", weights_sha256="00")

    def __init__(self, offset: float = 0.0) -> None:
        self.offset, self.calls = offset, 0

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        self.calls += 1
        return np.asarray([len(one) / 100 + self.offset for one in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.concatenate([self.score(question, [passage]) for question, passage in pairs])


def policy(scorer: Any) -> Policy:
    return Policy(scorer=scorer.fingerprint.probed(scorer), relevance_threshold=0.5)


def test_a_scorer_that_gives_other_scores_is_rejected_in_one_line() -> None:
    with pytest.raises(FingerprintMismatchError, match="scores of the probe") as error:
        Guard(policy(Drifting()), scorer=Drifting(0.01), metrics=False)
    assert "knowgate calibrate" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("offset", [0.0, 1e-6, -5e-4])
def test_differences_that_threads_and_machines_make_are_accepted(offset: float) -> None:
    Guard(policy(Drifting()), scorer=Drifting(offset), metrics=False)


def test_a_score_that_is_no_number_is_rejected() -> None:
    with pytest.raises(SignalValueError, match="finite"):
        Guard(policy(Drifting()), scorer=Drifting(float("nan")), metrics=False)


def test_without_a_stored_probe_the_scorer_is_not_asked() -> None:
    scorer = Drifting()
    Guard(Policy(scorer=scorer.fingerprint, relevance_threshold=0.5), scorer=scorer, metrics=False)
    assert scorer.calls == 0


def test_a_scorer_without_weights_has_no_probe_and_files_stay_as_they_were() -> None:
    fingerprint = LexicalScorer().fingerprint
    assert fingerprint.probed(LexicalScorer()) == fingerprint
    assert "probe" not in fingerprint.model_dump()


def test_a_probe_comes_back_from_json() -> None:
    stored = policy(Drifting())
    again = Policy.model_validate_json(stored.to_json())
    assert again.scorer.probe == stored.scorer.probe
    assert again.scorer.differences(stored.scorer) == []


def test_the_embedded_scorer_gives_its_probe_again(bi_encoder: BiEncoderScorer) -> None:
    probed = bi_encoder.fingerprint.probed(bi_encoder)
    assert probed.probe is not None
    assert len(probed.probe.scores) == 2
    assert probed.differences(bi_encoder.fingerprint.probed(bi_encoder)) == []


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
