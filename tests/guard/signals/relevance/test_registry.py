"""Scorers by name, and what goes with them by default."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.fingerprint import default_aggregator
from knowgate.guard.policy import default_calibrator
from knowgate.guard.signals.relevance import LexicalScorer, load_scorer, register_scorer
from knowgate.guard.signals.relevance import registry as _registry
from knowgate.guard.signals.relevance.registry import scorer_names
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer


def test_the_trained_scorers_have_names() -> None:
    assert {"sufficiency", "late_interaction", "bi_encoder"} <= set(scorer_names())
    assert list(scorer_names()) == sorted(scorer_names())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sufficiency", "joint"),
        ("judge", "joint"),
        ("bi_encoder", "max"),
        ("late_interaction", "max"),
        ("a user's own", "max"),
    ],
)
def test_trained_scorers_are_gone_by_together_and_others_by_the_best(
    kind: str, expected: str
) -> None:
    assert default_aggregator(kind) == expected


def test_log_odds_become_probabilities(scorer: SufficiencyScorer) -> None:
    calibrator = default_calibrator(scorer.fingerprint)
    for value in (-3.0, 0.0, 1.5):
        assert calibrator.apply(value) == pytest.approx(1 / (1 + math.exp(-value)))


@pytest.mark.parametrize("lost", ["sufficiency.json", "adapter_config.json"])
def test_a_tuned_folder_that_lost_a_file_is_told_which(
    folder: Path, tmp_path: Path, lost: str
) -> None:
    for path in folder.iterdir():
        if path.name != lost:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=rf"{lost}: no such file"):
        load_scorer(str(tmp_path))


def test_a_prefix_makes_a_scorer_from_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(_registry._SCORERS, "mine:", raising=False)
    made: list[str] = []

    def factory(rest: str) -> LexicalScorer:
        made.append(rest)
        return LexicalScorer()

    register_scorer("mine:", factory)
    assert load_scorer("mine:a:b,c=d").fingerprint.kind == "lexical"
    assert made == ["a:b,c=d"]
    assert "mine:" not in scorer_names()
    with pytest.raises(InputError, match="'mine:' exists already"):
        register_scorer("mine:", factory)
    with pytest.raises(InputError, match="device: the scorer 'mine:' takes no options"):
        load_scorer("mine:a", device="cpu")
    with pytest.raises(InputError, match=r"unknown scorer 'other:a' .* mine:…"):
        load_scorer("other:a")
