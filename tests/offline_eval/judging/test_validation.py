"""Judges against people's labels, and rates corrected for what judges get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from knowgate.calibration import Interval
from knowgate.offline_eval.judging.contract import JudgedReply
from knowgate.offline_eval.judging.correction import corrected_rate, prediction_powered_rate
from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.judging.run import judge_run
from knowgate.offline_eval.judging.validation import JudgeValidation
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.cli.commands import write_lines
from tests.offline_eval.judging.runs import replies_run
from tests.support.function_judge import FunctionJudge


def judged(
    folder: Path,
    outcomes: list[str],
    *,
    criterion: str = "abstention",
    systems: tuple[str, ...] = ("s",),
) -> RepliesRun:
    """A run of which a judge said these, one reply after another."""
    replies = {f"q{index}": f"reply {index}" for index in range(len(outcomes))}
    run = replies_run(folder, replies, systems=systems)

    def say(reply: JudgedReply) -> str:
        return outcomes[int(reply.reply.split()[1])]

    judge_run(run, [FunctionJudge("mine", criterion, say)])
    return RepliesRun.read(run)


def people(run: RepliesRun, outcomes: list[str], criterion: str = "abstention") -> Labels:
    names = [f"s/q{index}" for index in range(len(outcomes))]
    return labelled(run, dict(zip(names, outcomes, strict=True)), criterion)


def labelled(run: RepliesRun, outcomes: Mapping[str, str], criterion: str = "abstention") -> Labels:
    rows = [
        {"reply_id": name, "criterion": criterion, "outcome": outcome, "annotator": "anna"}
        for name, outcome in outcomes.items()
    ]
    folder = run.folder / "labels"
    folder.mkdir(exist_ok=True)
    write_lines(folder / "anna.jsonl", rows)
    return Labels.read(run.folder)


# People's positives: 4 found, 1 missed; negatives: 2 false alarms, 3 left alone.
HUMAN = ["yes"] * 5 + ["no"] * 5
JUDGE = ["yes"] * 4 + ["no"] + ["yes"] * 2 + ["no"] * 3


def test_agreement_is_what_the_table_says(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", JUDGE)
    [found] = JudgeValidation.of_judges(run, people(run, HUMAN))
    assert (found.judge, found.criterion, found.n, found.no_verdict) == (
        "mine",
        "abstention",
        10,
        0,
    )
    assert found.confusion == {
        ("yes", "yes"): 4,
        ("yes", "no"): 1,
        ("no", "yes"): 2,
        ("no", "no"): 3,
    }
    assert found.accuracy == Interval.wilson(7, 10)
    assert found.precision == Interval.wilson(4, 6)
    assert found.recall == Interval.wilson(4, 5)
    assert found.specificity == Interval.wilson(3, 5)
    # Observed .7; by chance .5 · .6 + .5 · .4 = .5.
    assert found.kappa.value == pytest.approx(0.4)
    assert found.kappa.low is not None
    assert found.kappa.low < 0.4
    assert "only 10 replies" in found.warnings[0]
    assert "kappa 0.40" in found.warnings[1]


def test_full_agreement_on_lopsided_outcomes_proves_little_beyond_chance(tmp_path: Path) -> None:
    outcomes = ["yes"] * 30 + ["no"] * 3
    run = judged(tmp_path / "run", outcomes)
    [found] = JudgeValidation.of_judges(run, people(run, outcomes))
    assert found.kappa.value == 1.0
    # 10 % more disagreements are possible, where chance alone gives 17 %.
    assert found.kappa.low is not None
    assert found.kappa.low < 0.5


def test_labels_may_know_the_chance_with_which_they_were_drawn(tmp_path: Path) -> None:
    replies = [
        {"reply_id": f"s/q{index}", "inclusion_probability": 0.25 if index < 5 else 0.75}
        for index in range(10)
    ]
    sample = {"schema_version": 1, "seed": 0, "replies_sha256": "", "population": 10}
    run = judged(tmp_path / "run", JUDGE)
    (run.folder / "labels").mkdir()
    write_lines(run.folder / "labels" / "_sample.json", [{**sample, "replies": replies}])
    [found] = JudgeValidation.of_judges(run, people(run, HUMAN))
    assert found.accuracy.value == pytest.approx(15 / 20)


def test_factuality_is_measured_on_what_was_answered(tmp_path: Path) -> None:
    human = ["tier_1", "tier_2", "tier_3", "tier_3", "tier_1"]
    said = ["tier_2", "tier_3", "tier_3", "tier_1", "NA"]
    run = judged(tmp_path / "run", said, criterion="factuality")
    [found] = JudgeValidation.of_judges(run, people(run, human, "factuality"))
    assert found.accuracy == Interval.wilson(1, 5)
    assert found.recall == Interval.wilson(1, 2)
    assert found.specificity == Interval.wilson(1, 2)
    assert found.precision == Interval.wilson(1, 2)


def corrected(run: RepliesRun, labels: Labels) -> Interval:
    said = {one.reply_id: str(one.outcome) for one in run.judgements.values()}
    questions = {name: run.case_of(row).question_id for name, row in run.replies.items()}
    return corrected_rate(labels, "abstention", ("yes",), said, questions)


def test_a_rate_is_corrected_by_the_labelled_replies(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", JUDGE * 10)
    # The first twenty are labelled; the judge says yes 6 times in ten, people 5 times.
    labels = people(run, HUMAN * 2)
    found = corrected(run, labels)
    assert found.value == pytest.approx(0.5)
    assert found.n == 20
    assert found.low is not None
    assert found.low < 0.45


def test_replies_to_one_question_are_one_unit_of_a_corrected_rate(tmp_path: Path) -> None:
    systems = ("s", "t", "u", "v")
    run = judged(tmp_path / "run", JUDGE * 3, systems=systems)
    names = [f"{system}/q{index}" for system in systems for index in range(10)]
    labels = labelled(run, dict(zip(names, HUMAN * 4, strict=True)))
    questions = [f"q{index}" for index in range(10)] * 4
    rest = [f"q{index}" for index in range(10, 30)] * 4
    wanted = prediction_powered_rate(
        [outcome == "yes" for outcome in HUMAN * 4],
        [outcome == "yes" for outcome in JUDGE * 4],
        [outcome == "yes" for outcome in JUDGE * 8],
        groups=questions,
        groups_unlabelled=rest,
    )
    found = corrected(run, labels)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
