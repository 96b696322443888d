from __future__ import annotations

from dataclasses import replace

from knowgate.offline_eval.calibrating import calibrate_records
from tests.offline_eval.calibrating.measured import drawn


def _warnings(**changes: object) -> str:
    measured = replace(drawn(200), **changes)  # type: ignore[arg-type]
    return " ".join(calibrate_records(measured, risk=0.3, delta=0.1).warnings)


def test_independent_questions_of_named_instruments_need_no_warning() -> None:
    assert _warnings() == ""


def test_instruments_that_are_not_named_are_warned_of() -> None:
    assert "do not name the relevance scorer" in _warnings(scorer=None)
    assert "do not name the confidence estimator" in _warnings(estimator=None)


def test_few_groups_are_warned_of() -> None:
    crowded = tuple(replace(case, group=f"d{i % 12}") for i, case in enumerate(drawn(200).cases))

    words = _warnings(cases=crowded)

    assert "independent units certify" in words
    assert "groups. Questions of one group tend to go alike" in words


def test_replies_that_nobody_judged_are_warned_of() -> None:
    cases = drawn(200).cases
    unjudged = tuple(replace(case, context_right=None) for case in cases[:10]) + cases[10:]

    assert "Of 10 cases nobody knows whether the context's answer is right" in _warnings(
        cases=unjudged
    )


def test_each_route_on_its_own_is_promised_only_where_it_was_asked_for() -> None:
    pooled = calibrate_records(drawn(400), risk=0.3, delta=0.1)
    apart = calibrate_records(drawn(400), risk=0.3, delta=0.1, per_route=True)

    assert any("each route on its own" in line for line in pooled.not_promised)
    assert not any("each route on its own" in line for line in apart.not_promised)
