"""The scores of a fixed probe tell a scorer whose numbers changed from the calibrated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Fingerprint, FingerprintMismatchError, Guard, Policy
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.errors import SignalValueError
from knowgate.guard.signals.relevance import LexicalScorer


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
