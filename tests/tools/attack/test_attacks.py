"""The attacks, as cheap as they come: each outcome must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM
from tests.support.deadlines import with_enough_time
from tools.attack import concurrency, echo, inputs, interrupted, mentions, policies, served
from tools.attack.alarms import false_drift, false_risk
from tools.attack.batches import batches, steady_guard
from tools.attack.certificates import DELTA, most
from tools.attack.writers import labels


@pytest.mark.parametrize(
    "name",
    [
        "concurrency",
        "exits",
        "inputs",
        "judged_texts",
        "streams",
        pytest.param("policies", marks=pytest.mark.slow),
        pytest.param("writers", marks=pytest.mark.slow),
        pytest.param(
            "browser",
            marks=[
                pytest.mark.slow,
                pytest.mark.enable_socket,
                pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
            ],
        ),
    ],
)
def test_every_attack_of_the_kind_is_held(tmp_path: Path, name: str) -> None:
    attacks = import_module(f"tools.attack.{name}").attacks

    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []


@pytest.mark.slow
def test_alarms_are_as_rare_as_promised() -> None:
    assert false_drift("plain", 0.3, 8) <= most(8, 0.05)
    assert false_risk(40) <= most(40, DELTA)


def test_a_batch_that_needs_twenty_deadlines_ends_after_two_and_keeps_what_is_done() -> None:
    def check(deadline: float) -> None:
        outcome = batches(steady_guard(deadline), deadline, (200,))
        assert outcome.tried == 3
        assert outcome.held, outcome

    with_enough_time(check)


def test_a_crossed_decision_would_be_noticed() -> None:
    guard = concurrency._guard()
    decision = guard.decide(concurrency._question(4), concurrency._passages(4))
    assert concurrency._right(4, decision)
    assert not concurrency._right(5, decision)


@pytest.mark.parametrize(
    ("attacks", "count"),
    [(echo.attacks, len(echo.ECHOES)), (mentions.attacks, len(mentions.MENTIONS) / 3)],
    ids=["repeating-the-question", "naming-its-subject"],
)
def test_no_way_of_repeating_the_question_lets_more_pass_than_measured(
    tmp_path: Path, attacks: Callable[..., Iterable[mentions.Outcome]], count: float
) -> None:
    outcomes = list(attacks(tmp_path, full=False))
    assert len(outcomes) == count
    assert {one.attack: one.cases for one in outcomes if not one.held} == {}


def test_a_call_that_takes_too_much_or_ends_badly_would_be_noticed() -> None:
    assert inputs.too_much(lambda: False)
    assert not inputs.too_much(lambda: True)


@pytest.mark.slow
def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the commands, one that writes a whole run; `make attack` tries all.
    run = next(one for one in interrupted._COMMANDS if one[0].startswith("import"))
    monkeypatch.setattr(interrupted, "_COMMANDS", (run,))
    monkeypatch.setattr(interrupted, "_QUICK", ("import",))
    found = list(interrupted.attacks(tmp_path, full=False))
    assert [outcome.cases for outcome in found if not outcome.held] == []
    assert len(found) == 2 + interrupted._can_mount()


def test_copies_of_policies_work_or_say_what_to_do() -> None:
    assert policies.copies().held


def test_hostile_requests_are_harmless(tmp_path: Path, socket_enabled: None) -> None:
    outcomes = list(served.attacks(tmp_path, False))
    assert [one for one in outcomes if not one.held] == []
    assert sum(one.tried for one in outcomes) > 140


@pytest.mark.slow
def test_connections_and_bodies_leave_room_for_others(socket_enabled: None) -> None:
    assert [one for one in served.crowds(full=False) if not one.held] == []


def test_no_label_of_several_sessions_is_lost(tmp_path: Path) -> None:
    outcome = labels(tmp_path / "labels", people=2, sessions=2)
    assert outcome.held, outcome
