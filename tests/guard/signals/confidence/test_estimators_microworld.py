"""The confidence estimators on the embedded language model, whose knowledge is known."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration import SelectiveCurve, fit_hidden_state_probe
from knowgate.calibration.hidden_state_probe import ProbeSearch
from knowgate.guard import Confidence
from knowgate.guard.matching import same_answer
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import StepwiseEstimator, load_estimator
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path
from knowgate.offline_eval.testbed.entities import Fact

CLOSED_BOOK = Prompt("microworld_closed_book", World.prompt("closed_book"))
FACTS: Sequence[Fact] = Random(2).sample(default_world().facts, 80)
QUESTIONS = [default_world().questions(fact, held_out=True)[0].text for fact in FACTS]


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(
        microworld_model_path(), device="cpu", dtype="float32", batch_size=80, max_new_tokens=16
    )


def loaded(name: str, lm: HuggingFaceLM, **settings: Any) -> StepwiseEstimator:
    found = load_estimator(name, lm, prompt=CLOSED_BOOK, **settings)
    assert isinstance(found, StepwiseEstimator)
    return found


def auroc_of(found: Sequence[Confidence], facts: Sequence[Fact]) -> float:
    sides: tuple[list[float], list[float]] = ([], [])
    for row, fact in zip(found, facts, strict=True):
        sides[0 if same_answer(row.answer, fact.value) else 1].append(row.value)
    value = SelectiveCurve.auroc(*sides)
    assert value is not None
    return value


@pytest.mark.slow
def test_the_cascade_is_as_good_as_ten_samples_at_three_calls(lm: HuggingFaceLM) -> None:
    full = loaded("sampled_consistency", lm, stopping="none", shortcut=None)
    ten = full.estimate_many(QUESTIONS)
    found = loaded("cascade", lm).estimate_many(QUESTIONS)
    assert auroc_of(found, FACTS) >= auroc_of(ten, FACTS) - 0.01
    assert statistics.mean(row.calls for row in found) <= 3
    assert {row.calls for row in ten} == {11}
    decisions = [
        (one.value >= 0.7) == (other.value >= 0.7) for one, other in zip(found, ten, strict=True)
    ]
    assert statistics.mean(decisions) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("token_probability", {}),
        ("token_probability", {"statistic": "mean"}),
        ("token_probability", {"statistic": "minimum"}),
        ("semantic_entropy", {}),
        ("semantic_entropy", {"variant": "likelihood"}),
    ],
)
def test_estimators_tell_known_from_unknown(
    lm: HuggingFaceLM, name: str, settings: dict[str, Any]
) -> None:
    found = loaded(name, lm, **settings).estimate_many(QUESTIONS)
    assert auroc_of(found, FACTS) > 0.9
    assert all(0.0 <= row.value <= 1.0 for row in found)


@pytest.mark.slow
def test_a_probe_fitted_on_some_subjects_works_on_others(lm: HuggingFaceLM) -> None:
    right = [
        same_answer(row.answer, fact.value)
        for row, fact in zip(
            loaded("token_probability", lm).estimate_many(QUESTIONS), FACTS, strict=True
        )
    ]
    subjects = [fact.subject for fact in FACTS]
    inside = [at for at, subject in enumerate(subjects) if int(subject[-1], 36) % 3]
    outside = [at for at in range(len(subjects)) if at not in set(inside)]
    fit = fit_hidden_state_probe(
        lm,
        [QUESTIONS[at] for at in inside],
        [right[at] for at in inside],
        [subjects[at] for at in inside],
        search=ProbeSearch((3,), (0.01,), 3),
        prompt=CLOSED_BOOK,
    )
    probe = loaded("hidden_state_probe", lm, probe=fit.probe)
    found = probe.estimate_many([QUESTIONS[at] for at in outside])
    assert auroc_of(found, [FACTS[at] for at in outside]) > 0.7
