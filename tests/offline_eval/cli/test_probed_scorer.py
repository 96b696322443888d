"""What a scorer gives for its probe travels from the run to the policy, and is checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import FingerprintMismatchError, Guard, Policy
from knowgate.guard.fingerprint import Fingerprint
from knowgate.guard.signals.relevance import LexicalScorer, register_scorer
from tests.offline_eval.cli.commands import Knowgate


class Weighted(LexicalScorer):
    """A scorer with weights; `scale` changes its numbers and none of its hashes."""

    scale = 1.0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="weighted", weights_sha256="00")

    def score(self, question: str, passages: object) -> NDArray[np.float64]:
        return self.scale * super().score(question, passages)  # type: ignore[arg-type]

    def score_pairs(self, pairs: object) -> NDArray[np.float64]:
        return self.scale * super().score_pairs(pairs)  # type: ignore[arg-type]


register_scorer("weighted", Weighted)


def test_a_run_stores_the_probe_and_its_policy_checks_it(
    knowgate: Knowgate, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, policy = workplace / "probed", workplace / "probed.json"
    measure = (
        "measure", "--questions", workplace / "kb.jsonl", "--out", run, "--scorer", "weighted",
    )  # fmt: skip
    assert knowgate(*measure).code == 0
    fitted = knowgate("calibrate", "--run", run, "--risk", "0.2", "--out", policy)
    assert fitted.code == 0, fitted.err
    stored = Policy.load(policy).scorer.probe
    assert stored is not None
    Guard.load(policy, metrics=False)

    monkeypatch.setattr(Weighted, "scale", 0.9)
    with pytest.raises(FingerprintMismatchError, match="scores of the probe"):
        Guard.load(policy, metrics=False)
    # A run is not continued by a scorer of other scores either.
    again = knowgate(*measure)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "scores of the probe" in again.err
