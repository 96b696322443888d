"""A policy whose calibration questions programs made says so wherever it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Policy, PolicyError
from knowgate.guard.testing import FakeScorer


def policy(generated: float, **fields: Any) -> Policy:
    return Policy(
        scorer=FakeScorer().fingerprint,
        relevance_threshold=0.5,
        calibration_set_sha256="0" * 64,
        note="Rules made them.",
        generated=generated,
        **fields,
    )


@pytest.mark.parametrize(
    ("share", "state"), [(0.0, "costs"), (0.1, "costs"), (0.11, "generated"), (1.0, "generated")]
)
def test_more_than_a_tenth_of_them_makes_another_state(share: float, state: str) -> None:
    assert policy(share).state == state
    assert policy(share, changed=True).state == "changed"


def test_it_survives_its_file_and_cannot_be_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    policy(1.0).save(path)
    assert Policy.load(path) == policy(1.0)
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["generated"]
    path.write_text(json.dumps(fields), encoding="utf-8")

    with pytest.raises(PolicyError, match="not as it was calibrated"):
        Policy.load(path)
