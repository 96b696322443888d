"""The mix that features are computed with."""

from __future__ import annotations

from knowgate.guard.signals.relevance.match_model import MatchModel
from tools.sufficiency.fit_mix import feature_probe


def test_a_probe_has_all_features_and_says_nothing() -> None:
    probe = feature_probe(0.06)
    assert probe.features == MatchModel.all_features
    assert probe.joint_score([[1.0] * 4, [0.5] * 4], [2.0] * 4) == 0.0
