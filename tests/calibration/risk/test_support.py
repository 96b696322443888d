"""The threshold for replies: exact tests, and its promise by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from knowgate.calibration.risk.support import fit_support
from knowgate.guard import InputError, Policy
from knowgate.guard.artefacts import SupportPolicy
from knowgate.guard.signals.support import SupportCheck
from knowgate.guard.testing import FakeScorer

CHECK = SupportCheck().fingerprint


def test_the_lowest_certified_threshold_is_found() -> None:
    supports = [0.9] * 40 + [0.1] * 40
    wrong = [False] * 40 + [True] * 40
    found = fit_support(supports, wrong, range(80), CHECK, risk=0.1, delta=0.1)
    assert (found.threshold, found.delivered, found.unsupported) == (0.9, 40, 0)
    assert found.p_value == pytest.approx(0.9**40)
    assert found.certified


def test_replies_to_one_question_count_together() -> None:
    supports, wrong = [0.9] * 40, [False] * 40
    assert fit_support(supports, wrong, range(40), CHECK).certified
    alike = fit_support(supports, wrong, [index // 4 for index in range(40)], CHECK)
    assert (alike.threshold, alike.certified) == (None, False)


@pytest.mark.slow
def test_the_promise_holds_for_dependent_replies() -> None:
    draw = np.random.default_rng(7)
    broken = certified = 0
    for _ in range(120):
        shared = np.repeat(draw.random(60), 2)
        values = draw.random(120)
        wrong = 0.7 * shared + 0.3 * draw.random(120) < 0.5 * (1 - values)
        found = fit_support(
            values.tolist(), wrong.tolist(), np.repeat(np.arange(60), 2).tolist(), CHECK
        )
        if found.threshold is None:
            continue
        certified += 1
        fresh = found.threshold + (1 - found.threshold) * draw.random(40_000)
        right = 0.7 * draw.random(40_000) + 0.3 * draw.random(40_000)
        broken += bool(np.mean(right < 0.5 * (1 - fresh)) > 0.1)
    assert certified > 40
    assert broken <= 18  # of 120 at δ = .1, with room for chance


def test_a_promise_that_its_counts_do_not_bear_out_is_rejected() -> None:
    found = fit_support([0.9] * 40, [False] * 40, range(40), CHECK)
    fields = found.model_dump()
    for change in ({"p_value": 0.2}, {"unsupported": 3}, {"groups": ()}):
        with pytest.raises(ValidationError):
            SupportPolicy.model_validate({**fields, **change})


def test_a_policy_keeps_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    bound = fit_support([0.9] * 40, [False] * 40, range(40), CHECK)
    policy = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5, support=bound)
    policy.save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").support == bound
    plain = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5)
    assert "support" not in plain.to_json().replace("support_", "")


@pytest.mark.parametrize(
    "given",
    [
        {"supports": [], "unsupported": [], "questions": []},
        {"supports": [0.5], "unsupported": [], "questions": [1]},
        {"supports": [1.5], "unsupported": [True], "questions": [1]},
        {"supports": [0.5], "unsupported": [True], "questions": [1], "risk": 0.0},
    ],
)
def test_what_cannot_be_fitted_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InputError):
        fit_support(check=CHECK, **given)  # type: ignore[arg-type]
