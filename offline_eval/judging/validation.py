"""Measure how well judges agree with people, and correct rates for judge errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...calibration import Interval
from ..run import RepliesRun
from ..run.replies import Judgement
from .chance_agreement import cohens_kappa


@runtime_checkable
class HumanLabels(Protocol):
    """The outcomes that people agreed on; `labelling.Labels` is one.

    Labels of a sample with unequal chances also have `inclusion_probability(reply_id)`, the
    chance in (0, 1] with which a reply was drawn, None where unknown. Those that know on
    which replies people disagree have `unsettled(criterion)`, the ids of these.
    """

    def consensus(self, criterion: str) -> Mapping[str, str]:
        """Reply id → outcome, of the replies that people agreed on."""
        ...


LabelsLike = HumanLabels | Mapping[str, Mapping[str, str]]
"""Labels of people, or criterion → (reply id → outcome)."""


def labels_for(labels: LabelsLike, criterion: str) -> Mapping[str, str]:
    """Reply id → outcome by one criterion; empty where nobody labelled it."""
    if isinstance(labels, Mapping):
        return labels.get(criterion, {})
    return labels.consensus(criterion)


def unsettled_in(labels: LabelsLike, criterion: str) -> Collection[str]:
    """Labelled replies that people did not agree on, as far as the labels know of any."""
    found = getattr(labels, "unsettled", None)
    ids: Collection[str] = () if found is None else found(criterion)
    return ids


def weights_for(labels: LabelsLike, names: Collection[str]) -> dict[str, float] | None:
    """Weight of each labelled reply, None where all weigh the same.

    Where the labels know with which chance each reply was drawn (`inclusion_probability`), the
    weight is one over that.
    """
    chance = getattr(labels, "inclusion_probability", None)
    if chance is None:
        return None
    chances = {name: chance(name) for name in names}
    found = {name: 1.0 / value if value else 1.0 for name, value in chances.items()}
    return found if len(set(found.values())) > 1 else None


Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Fewer labels than this cannot tell a judge of 80 % from one of 95 %.
FEW_LABELS = 50
POOR_KAPPA = 0.6
_POSITIVE = {Judgement.ABSTENTION: ("yes",), Judgement.FACTUALITY: Judgement.TIERS[:2]}


@dataclass(frozen=True, slots=True)
class JudgeValidation:
    """A judge against people's labels, by one criterion.

    Attributes:
        judge: its name.
        criterion: that was judged.
        positive: outcomes that count as positive in precision, recall and specificity;
            empty where none is known, and then these three are undefined.
        n: replies with both a label and a verdict.
        no_verdict: labelled replies on which the judge has none.
        unsettled: labelled replies that people do not agree on; they count nowhere.
        accuracy: share of equal outcomes, all outcomes told apart.
        precision: share of people's positives among the judge's.
        recall: share of the judge's positives among people's (sensitivity).
        specificity: share of the judge's negatives among people's.
        kappa: Cohen's, all outcomes told apart.
        confusion: (people's outcome, judge's outcome) → replies.
        warnings: what a reader must know before trusting the judge, one sentence each.
    """

    judge: str
    criterion: str
    positive: tuple[str, ...]
    n: int
    no_verdict: int
    accuracy: Interval
    precision: Interval
    recall: Interval
    specificity: Interval
    kappa: Interval
    confusion: Mapping[tuple[str, str], int]
    warnings: tuple[str, ...] = ()
    unsettled: int = 0

    @classmethod
    def of_judges(
        cls,
        run: RepliesRun,
        labels: LabelsLike,
        *,
        positive: Mapping[str, tuple[str, ...]] | None = None,
        known_of: Mapping[str, Sequence[str]] | None = None,
    ) -> tuple[JudgeValidation, ...]:
        """Compare every judge of the run with people's labels, by every criterion with both.

        Args:
            run: with verdicts.
            labels: see `LabelsLike`.
            positive: criterion → outcomes that count as positive, for criteria other than
                abstention (yes) and factuality (tier_1, tier_2).
            known_of: judge → what was found out about it elsewhere, such as
                `JudgeBias.warning`; goes before the other warnings.

        Returns:
            In the order of criteria and judges in the run. Intervals are Wilson's where each
            question was labelled once, and otherwise bootstrap intervals over questions.
        """
        asked: dict[tuple[str, str], dict[str, str]] = {}
        for judgement in run.judgements.values():
            found = asked.setdefault((judgement.criterion, judgement.judge), {})
            if judgement.outcome is not None:
                found[judgement.reply_id] = judgement.outcome
        known = {**_POSITIVE, **(positive or {})}
        validations = []
        for (criterion, judge), verdicts in sorted(asked.items(), key=lambda entry: entry[0][0]):
            people = {
                name: outcome
                for name, outcome in labels_for(labels, criterion).items()
                if name in run.replies
            }
            if people:
                validation = _validated(
                    run,
                    judge,
                    criterion,
                    verdicts,
                    people,
                    weights_for(labels, people),
                    known.get(criterion, ()),
                    unsettled=sum(name in verdicts for name in unsettled_in(labels, criterion)),
                )
                said = (*(known_of or {}).get(judge, ()), *validation.warnings)
                validations.append(replace(validation, warnings=said))
        return tuple(validations)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Labels and verdicts on the same replies, with weights and questions; shape (n,) each."""

    human: NDArray[np.str_]
    judge: NDArray[np.str_]
    weights: Floats
    questions: NDArray[np.str_]
    weighted: bool

    def rate(self, among: Bools, right: Bools) -> Interval:
        """Share of `right` among `among`, by question where questions repeat."""
        if not among.any():
            return Interval()
        questions, hits = self.questions[among].tolist(), right[among]
        if not self.weighted and len(set(questions)) == len(questions):
            return Interval.wilson(int(hits.sum()), len(hits))
        return Interval.bootstrap(
            lambda picked, weights: float(np.average(picked, weights=weights)),
            hits.astype(np.float64),
            self.weights[among],
            groups=questions,
        )

    def kappa(self) -> Interval:
        """Cohen's kappa, by question where questions repeat."""
        questions = self.questions.tolist()
        if not self.weighted or (self.human == self.judge).all():
            # Where all agree, resampling says nothing of chance: its interval does.
            return cohens_kappa(self.human.tolist(), self.judge.tolist(), groups=questions)
        names, places = np.unique([self.human, self.judge], return_inverse=True)
        human, judge = places.reshape(2, -1)
        cells = np.asarray(human * len(names) + judge, dtype=np.float64)

        def agreement(picked: Floats, weights: Floats) -> float | None:
            rows, columns = np.divmod(picked.astype(np.intp), len(names))
            return weighted_kappa(rows, columns, weights, len(names))

        return Interval.bootstrap(agreement, cells, self.weights, groups=questions)


def weighted_kappa(
    human: NDArray[np.intp], judge: NDArray[np.intp], weights: Floats, outcomes: int
) -> float | None:
    """Cohen's kappa of two raters, each pair with its weight; None where chance is certain.

    Source: Cohen 1960, A coefficient of agreement for nominal scales.
    """
    table = np.zeros((outcomes, outcomes))
    np.add.at(table, (human, judge), weights)
    table /= table.sum()
    by_chance = float(table.sum(axis=1) @ table.sum(axis=0))
    if by_chance >= 1.0 - 1e-12:
        return None
    return (float(np.trace(table)) - by_chance) / (1.0 - by_chance)


def _validated(
    run: RepliesRun,
    judge: str,
    criterion: str,
    verdicts: Mapping[str, str],
    people: Mapping[str, str],
    weights: Mapping[str, float] | None,
    wanted: tuple[str, ...],
    *,
    unsettled: int,
) -> JudgeValidation:
    both = [name for name in people if name in verdicts]
    human, judged = [people[name] for name in both], [verdicts[name] for name in both]
    pairs = _Pairs(
        human=np.asarray(human, dtype=np.str_),
        judge=np.asarray(judged, dtype=np.str_),
        weights=np.asarray([(weights or {}).get(name, 1.0) for name in both], dtype=np.float64),
        questions=np.asarray(
            [run.question_of(run.replies[name]).question_id for name in both], dtype=np.str_
        ),
        weighted=weights is not None,
    )
    mine = np.isin(pairs.judge, wanted)
    yours = np.isin(pairs.human, wanted)
    answered = np.full(len(both), bool(wanted))
    if criterion == Judgement.FACTUALITY:
        # Whether a reply abstains is another question: only answers are right or wrong.
        answered = (pairs.human != Judgement.NOT_APPLICABLE) & (
            pairs.judge != Judgement.NOT_APPLICABLE
        )
    found = JudgeValidation(
        judge=judge,
        criterion=criterion,
        positive=wanted,
        n=len(both),
        no_verdict=len(people) - len(both),
        unsettled=unsettled,
        accuracy=pairs.rate(np.ones(len(both), dtype=np.bool_), pairs.human == pairs.judge),
        precision=pairs.rate(answered & mine, yours),
        recall=pairs.rate(answered & yours, mine),
        specificity=pairs.rate(answered & ~yours, ~mine),
        kappa=pairs.kappa(),
        confusion=dict(sorted(Counter(zip(human, judged, strict=True)).items())),
    )
    return _with_warnings(found)


def _with_warnings(found: JudgeValidation) -> JudgeValidation:
    """What a reader must know that follows from the numbers."""
    warnings = []
    if found.n < FEW_LABELS:
        warnings.append(f"only {found.n} replies have both a label and a verdict")
    if found.unsettled:
        warnings.append(
            f"{found.unsettled} replies that people disagree on are left out until they are "
            "settled: they are likely to be the hard ones, and the judge to look better than it is"
        )
    kappa, recall, specificity = found.kappa.value, found.recall.value, found.specificity.value
    if kappa is not None and kappa < POOR_KAPPA:
        warnings.append(f"agreement beyond chance is poor (kappa {kappa:.2f})")
    if recall is not None and specificity is not None and recall + specificity <= 1.0:
        warnings.append("the judge says nothing about the rate (recall + specificity is 1 or less)")
    return replace(found, warnings=tuple(warnings))
