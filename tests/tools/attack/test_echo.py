"""Repeating the question, or naming its subject, on the help desk of the examples."""

from __future__ import annotations

from pathlib import Path

from tools.attack import mentions
from tools.attack.echo import ECHOES, attacks


def test_no_way_of_repeating_the_question_lets_more_pass(tmp_path: Path) -> None:
    outcomes = list(attacks(tmp_path, full=False))
    assert len(outcomes) == len(ECHOES)
    assert {one.attack: one.cases for one in outcomes if not one.held} == {}


def test_no_way_of_naming_the_subject_lets_more_pass_than_measured(tmp_path: Path) -> None:
    outcomes = list(mentions.attacks(tmp_path, full=False))
    assert len(outcomes) == len(mentions.MENTIONS) / 3
    assert {one.attack: one.cases for one in outcomes if not one.held} == {}
