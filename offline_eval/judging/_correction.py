"""Correct a judge's rate by a sample that people labelled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from ...calibration import Interval
from ..run import RepliesRun
from ._judge_error import prediction_powered_rate, rogan_gladen
from ._validation import LabelsLike, labels_for, weights_for

Correction = Literal["prediction_powered", "rogan_gladen"]


def corrected_rate(
    run: RepliesRun,
    judge: str,
    criterion: str,
    outcome: str | Collection[str],
    labels: LabelsLike,
    *,
    among: Collection[str] | None = None,
    weights: Mapping[str, float] | None = None,
    method: Correction = "prediction_powered",
) -> Interval:
    """Estimate the rate of `outcome` that people would find, from a judge and a labelled sample.

    Replies that the judge gave no verdict on are left out, with their labels. Replies to
    one question count as one unit, except with `rogan_gladen`, which takes each for itself.

    Args:
        run: with verdicts.
        judge: its name.
        criterion: that was judged and labelled.
        outcome: one of its outcomes, or several that count together.
        labels: see `LabelsLike`.
        among: ids of the replies whose rate it is; None for all of the run. The labels
            among them must be a sample of these.
        weights: reply id → one over the chance to be labelled, where chances were unequal;
            None for what the labels themselves know of that.
        method: `prediction_powered`, or `rogan_gladen`, which takes sensitivity and
            specificity for the same everywhere.

    Returns:
        As `prediction_powered_rate` and `rogan_gladen`; undefined without labels.
    """
    wanted = {outcome} if isinstance(outcome, str) else set(outcome)
    chosen = None if among is None else set(among)
    verdicts = {
        name: found in wanted
        for name, found in _outcomes(run, judge, criterion).items()
        if chosen is None or name in chosen
    }
    people = {
        name: label in wanted
        for name, label in labels_for(labels, criterion).items()
        if name in verdicts
    }
    if not people:
        return Interval()
    weighing = weights_for(labels, weights, people) or dict.fromkeys(people, 1.0)
    if method == "rogan_gladen":
        return _rogan_gladen(verdicts, people, weighing)
    rest = [name for name in verdicts if name not in people]
    return prediction_powered_rate(
        list(people.values()),
        [verdicts[name] for name in people],
        [verdicts[name] for name in rest],
        weights=list(weighing.values()),
        groups=[_question(run, name) for name in people],
        groups_unlabelled=[_question(run, name) for name in rest],
    )


def _outcomes(run: RepliesRun, judge: str, criterion: str) -> dict[str, str]:
    """Reply id → the judge's verdict, where there is one."""
    return {
        found.reply_id: found.outcome
        for found in run.judgements.values()
        if found.judge == judge and found.criterion == criterion and found.outcome is not None
    }


def _rogan_gladen(
    verdicts: Mapping[str, bool],
    people: Mapping[str, bool],
    weights: Mapping[str, float],
) -> Interval:
    right_yes, all_yes = _effective(verdicts, people, weights, label=True)
    right_no, all_no = _effective(verdicts, people, weights, label=False)
    return rogan_gladen(
        sum(verdicts.values()),
        len(verdicts),
        true_positives=right_yes,
        human_positives=all_yes,
        true_negatives=right_no,
        human_negatives=all_no,
    )


def _effective(
    verdicts: Mapping[str, bool],
    people: Mapping[str, bool],
    weights: Mapping[str, float],
    *,
    label: bool,
) -> tuple[float, float]:
    """Right verdicts and all, among the labels of one kind, as effective numbers.

    Source: Kish 1965, Survey sampling, for the effective number (Σw)² / Σw².
    """
    those = [name for name, said in people.items() if said is label]
    total = sum(weights[name] for name in those)
    if not those or total <= 0:
        return 0.0, 0.0
    effective = total**2 / sum(weights[name] ** 2 for name in those)
    right = sum(weights[name] for name in those if verdicts[name] is label)
    return effective * min(1.0, right / total), effective


def _question(run: RepliesRun, reply_id: str) -> str:
    return run.question_of(run.replies[reply_id]).question_id
