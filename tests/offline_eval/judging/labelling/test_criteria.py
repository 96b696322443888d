"""Criteria by name and from files."""

from __future__ import annotations

from pathlib import Path

from knowgate.offline_eval.judging.labelling._criteria import (
    in_asking_order,
    load_criterion,
)
from knowgate.offline_eval.judging.llm_judge import Criterion
from knowgate.offline_eval.run.replies import Judgement


def test_factuality_is_asked_of_replies_that_do_not_abstain() -> None:
    found = load_criterion("factuality")

    assert found.outcomes == Judgement.TIERS
    assert found.ordinal
    assert found.only_where == {"abstention": ("no",)}


def test_a_criterion_is_asked_after_those_that_it_waits_for() -> None:
    abstention, factuality = load_criterion("abstention"), load_criterion("factuality")

    assert in_asking_order([factuality, abstention]) == (abstention, factuality)
    assert in_asking_order([factuality]) == (factuality,)


def test_a_file_of_labels_serves_for_judges_and_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "TONE.TOML"
    path.write_text(
        'question = "Is it friendly?"\nmeanings = ["warm", "cold"]\nordinal = true\n'
        'name = "tone"\nprompt = "tone.txt"\noutcomes = ["friendly", "curt"]\n',
        encoding="utf-8",
    )
    (tmp_path / "tone.txt").write_text("Is it friendly?\n", encoding="utf-8")

    assert Criterion.read(path).outcomes == load_criterion(path).outcomes == ("friendly", "curt")
