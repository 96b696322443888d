"""Measure how well judges agree with people, and correct rates for judge errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...calibration import Interval
from ...calibration.statistics import Floats
from ..run import RepliesRun
from ..run.replies import Judgement
from .chance_agreement import cohens_kappa
from .labelling import Labels

Bools = NDArray[np.bool_]
Texts = NDArray[np.str_]
# Fewer labels than this cannot tell a judge of 80 % from one of 95 %.
FEW_LABELS = 50
POOR_KAPPA = 0.6
_POSITIVE = {Judgement.ABSTENTION: ("yes",), Judgement.FACTUALITY: Judgement.TIERS[:2]}


class JudgeValidation:
    """A judge against people's labels, by one criterion.

    Args:
        run: with verdicts.
        labels: of at least one reply of the run.
        judge: its name.
        criterion: that was judged.
        verdicts: of the judge by that criterion, by reply.
        known: what was found out about the judge elsewhere; goes before the other warnings.

    Attributes:
        positive: outcomes that count as positive in precision, recall and specificity; empty
            where none is known, and then these three are undefined.
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

    def __init__(
        self,
        run: RepliesRun,
        labels: Labels,
        judge: str,
        criterion: str,
        verdicts: Mapping[str, str],
        known: Sequence[str] = (),
    ) -> None:
        self.judge, self.criterion = judge, criterion
        self.positive = positive = _POSITIVE.get(criterion, ())
        people = _labelled(run, labels, criterion)
        both = [name for name in people if name in verdicts]
        asked = [run.question_of(run.replies[name]).question_id for name in both]
        human = np.asarray([people[name] for name in both], dtype=np.str_)
        judged = np.asarray([verdicts[name] for name in both], dtype=np.str_)
        questions, weight = np.asarray(asked, dtype=np.str_), labels.weights(people)
        weights = None if weight is None else np.asarray([weight[name] for name in both])
        rate = partial(_rate, weights=weights, questions=questions)
        mine, yours = np.isin(judged, positive), np.isin(human, positive)
        answered = np.full(len(both), bool(positive))
        if criterion == Judgement.FACTUALITY:
            # Whether a reply abstains is another question: only answers are right or wrong.
            told = np.stack([human, judged])
            answered = (told != Judgement.NOT_APPLICABLE).all(axis=0)
        self.n, self.no_verdict = len(both), len(people) - len(both)
        self.unsettled = sum(name in verdicts for name in labels.unsettled(criterion))
        everything = np.ones(len(both), dtype=np.bool_)
        self.accuracy = rate(everything, human == judged)
        self.precision = rate(answered & mine, yours)
        self.recall = rate(answered & yours, mine)
        self.specificity = rate(answered & ~yours, ~mine)
        # Where all agree, resampling says nothing of chance: its interval does.
        weighted = None if (human == judged).all() else weights
        self.kappa = cohens_kappa(
            human.tolist(), judged.tolist(), groups=questions.tolist(), weights=weighted
        )
        self.confusion = dict(
            sorted(Counter(zip(human.tolist(), judged.tolist(), strict=True)).items())
        )
        self.warnings = (*known, *self._warnings())

    def _warnings(self) -> Iterator[str]:
        """What a reader must know that follows from the numbers."""
        if self.n < FEW_LABELS:
            yield f"only {self.n} replies have both a label and a verdict"
        if self.unsettled:
            yield (
                f"{self.unsettled} replies that people disagree on are left out until they are "
                "settled: they are likely to be the hard ones, and the judge to look better than "
                "it is"
            )
        kappa, recall, specificity = self.kappa.value, self.recall.value, self.specificity.value
        if kappa is not None and kappa < POOR_KAPPA:
            yield f"agreement beyond chance is poor (kappa {kappa:.2f})"
        if recall is not None and specificity is not None and recall + specificity <= 1.0:
            yield "the judge says nothing about the rate (recall + specificity is 1 or less)"

    @classmethod
    def of_judges(
        cls, run: RepliesRun, labels: Labels, *, known_of: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[JudgeValidation, ...]:
        """Compare every judge of the run with people's labels, by every criterion with both.

        Args:
            run: with verdicts.
            labels: of people.
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
        known = known_of or {}
        return tuple(
            cls(run, labels, judge, criterion, verdicts, known.get(judge, ()))
            for (criterion, judge), verdicts in sorted(asked.items(), key=lambda entry: entry[0][0])
            if _labelled(run, labels, criterion)
        )


def _labelled(run: RepliesRun, labels: Labels, criterion: str) -> dict[str, str]:
    """Outcomes by people of the replies that the run has."""
    found = labels.consensus(criterion)
    return {name: outcome for name, outcome in found.items() if name in run.replies}


def _rate(among: Bools, right: Bools, weights: Floats | None, questions: Texts) -> Interval:
    """Share of `right` among `among`, by question where questions repeat."""
    if not among.any():
        return Interval()
    asked, hits = questions[among].tolist(), right[among]
    if weights is None and len(set(asked)) == len(asked):
        return Interval.wilson(int(hits.sum()), len(hits))
    return Interval.bootstrap(
        lambda picked, weights: float(np.average(picked, weights=weights)),
        hits.astype(np.float64),
        np.ones(len(hits)) if weights is None else weights[among],
        groups=asked,
    )
