"""Offline judges on logged replies, against the labels that came with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from knowgate.calibration import Interval
from knowgate.offline_eval.judging.contract import JudgedReply
from knowgate.offline_eval.judging.correction import prediction_powered_rate
from knowgate.offline_eval.judging.judges import DetectorJudge
from knowgate.offline_eval.judging.validation import weighted_kappa


def logged(folder: Path) -> tuple[list[bool], list[bool], list[str]]:
    """Given abstentions, the detector's, and questions."""
    judge = DetectorJudge()
    given, found, questions = [], [], []
    for path in sorted((folder / "policybench" / "gpt-4o_runs").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            value = json.loads(line)
            reply = JudgedReply(
                value["id"], value["question"], "", value["response"], (), value["citation"]
            )
            given.append(value["abstained"] == "yes")
            found.append(judge.verdict(reply).outcome == "yes")
            questions.append(value["id"])
    return given, found, questions


def test_the_detector_agrees_with_the_given_labels(shared_data: Path) -> None:
    given, found, questions = logged(shared_data)
    kappa = weighted_kappa(
        np.asarray(given, dtype=np.intp), np.asarray(found, dtype=np.intp), np.ones(len(given)), 2
    )
    assert len(given) == 1334
    assert kappa is not None
    assert kappa > 0.96
    # A tenth of the questions labelled: the corrected rate finds the given one.
    rng = np.random.default_rng(0)
    chosen = set(rng.choice(sorted(set(questions)), 40, replace=False).tolist())
    mine = [index for index, name in enumerate(questions) if name in chosen]
    rest = [index for index, name in enumerate(questions) if name not in chosen]
    corrected = prediction_powered_rate(
        [given[i] for i in mine],
        [found[i] for i in mine],
        [found[i] for i in rest],
        groups=[questions[i] for i in mine],
        groups_unlabelled=[questions[i] for i in rest],
    )
    truth = Interval.wilson(sum(given), len(given)).value
    assert corrected.low is not None
    assert corrected.high is not None
    assert truth is not None
    assert corrected.low <= truth <= corrected.high
