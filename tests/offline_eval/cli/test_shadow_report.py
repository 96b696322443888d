"""`knowgate shadow-report`: what enforcing would have changed, from a log of decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Decision, DecisionLog, Guard, GuardOptions, Policy, Reason, Route
from knowgate.guard.testing import FakeScorer
from tests.calibration.monitoring.populations import calibrated_policy
from tests.offline_eval.cli.commands import Knowgate, refused, write_lines

SCORER = FakeScorer({"good": 0.9, "fair": 0.8, "broken": float("nan")}, default=0.1)
ASKED = {
    "good": [["good"]] * 6,
    "bad": [["bad"], ["bad"], ["bad"]],
    "none": [[]],
}


def certified(**changes: Any) -> Policy:
    """A policy that promises something, for the scorer here."""
    guarantee = calibrated_policy().guarantee
    assert guarantee is not None
    policy = Policy(scorer=SCORER.fingerprint, relevance_threshold=0.5)
    return policy.model_copy(
        update={"guarantee": guarantee.model_copy(update={"certified": True}), **changes}
    )


def logged(
    folder: Path, policy: Policy | None = None, *, mode: str = "shadow", **options: Any
) -> DecisionLog:
    """The log of 6 questions followed, 3 with insufficient passages, 1 without any."""
    log = DecisionLog(folder, **options)
    guard = Guard(
        Policy(scorer=SCORER.fingerprint, relevance_threshold=0.5) if policy is None else policy,
        scorer=SCORER,
        options=GuardOptions(mode=mode),
        metrics=False,
        observers=[log],
    )
    for kind, all_passages in ASKED.items():
        for number, passages in enumerate(all_passages):
            guard.decide(f"{kind} question {number}", passages)
    log.close()
    return log


@pytest.fixture
def promising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies are read without their digest, so that one need not be calibrated first."""
    stored = Policy.parse

    def parse(value: Any, *, where: str, allow_changed: bool = False) -> Policy:
        del allow_changed
        value.pop("digest", None)
        guarantee = value.pop("guarantee", None)
        found = stored(value, where=where)
        kind = type(calibrated_policy().guarantee)
        return found.model_copy(
            update={"guarantee": None if guarantee is None else kind.model_validate(guarantee)}
        )

    monkeypatch.setattr(Policy, "parse", staticmethod(parse))
