"""Agreement with the judge of logged replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard.abstention import AbstentionDetector, Citation
from knowgate.guard.abstention.detector import FEATURE_NAMES, features
from knowgate.guard.abstention.reading import read_reply

_DOMAINS = ("BTT", "CPF")
_SMOLLM2 = Path(__file__).with_name("smollm2_replies.jsonl")


@pytest.fixture(scope="module")
def logs(shared_data: Path) -> dict[str, list[dict[str, Any]]]:
    folder = shared_data / "policybench" / "gpt-4o_runs"
    return {
        domain: [
            json.loads(line)
            for path in sorted(folder.glob(f"{domain}_*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        for domain in _DOMAINS
    }


def _kappa(found: list[bool], expected: list[bool]) -> float:
    a, b = np.asarray(found), np.asarray(expected)
    chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    return float(((a == b).mean() - chance) / (1 - chance))


def _labels(rows: list[dict[str, Any]]) -> list[bool]:
    return [row["abstained"] == "yes" for row in rows]


def _matrix(rows: list[dict[str, Any]], with_citation: bool) -> np.ndarray[Any, Any]:
    found = [
        features(
            read_reply(row["response"], row["citation"] if with_citation else Citation.UNKNOWN)
        )
        for row in rows
    ]
    return np.asarray([[f[name] for name in FEATURE_NAMES] for f in found])


@pytest.mark.slow
@pytest.mark.parametrize("with_citation", [True, False])
def test_weights_fitted_on_one_domain_agree_with_the_judge_on_the_other(
    logs: dict[str, list[dict[str, Any]]], with_citation: bool
) -> None:
    from sklearn.linear_model import LogisticRegression

    found: list[bool] = []
    expected: list[bool] = []
    for seen, unseen in (_DOMAINS, _DOMAINS[::-1]):
        model = LogisticRegression(max_iter=2_000)
        model.fit(_matrix(logs[seen], with_citation), _labels(logs[seen]))
        found += model.predict(_matrix(logs[unseen], with_citation)).tolist()
        expected += _labels(logs[unseen])

    assert _kappa(found, expected) >= 0.95
    answered = [flag for flag, label in zip(found, expected, strict=True) if not label]
    assert np.mean(answered) <= 0.02


@pytest.mark.parametrize("domain", _DOMAINS)
def test_the_bundled_weights_are_those_of_these_logs(
    logs: dict[str, list[dict[str, Any]]], domain: str
) -> None:
    rows = logs[domain]

    verdicts = AbstentionDetector().detect_many(
        [row["response"] for row in rows], citations=[row["citation"] for row in rows]
    )

    assert _kappa([verdict.abstained for verdict in verdicts], _labels(rows)) >= 0.94
    gap = np.mean([verdict.probability for verdict in verdicts]) - np.mean(_labels(rows))
    assert abs(gap) < 0.02


@pytest.mark.parametrize(("half", "least"), [("seen", 0.97), ("held_out", 0.96)])
def test_verdicts_on_a_small_models_replies_agree_with_labels_set_by_hand(
    half: str, least: float
) -> None:
    lines = _SMOLLM2.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["half"] == half]

    verdicts = AbstentionDetector().detect_many([row["reply"] for row in rows])

    assert len(rows) == 150
    found = [verdict.abstained for verdict in verdicts]
    labels = [row["abstained"] for row in rows]
    assert _kappa(found, labels) >= least
    assert not any(flag and not label for flag, label in zip(found, labels, strict=True))
