"""What people's labels say: of each other, of the judges, and of the rates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ....calibration import Interval
from ...judging.correction import corrected_rate
from ...judging.labelling import Agreement, Labels
from ...judging.validation import JudgeValidation
from ...report.document import as_json
from ...run.replies import Judgement
from ._replies import Evidence, JudgedReply, rate

# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate by the judge, and corrected by people's labels.

    Attributes:
        rate: name as in `report.json`.
        system: id of the system; None for all together.
        judge: who counted.
        labels: replies among them that people labelled.
        raw: the judge's.
        corrected: prediction-powered: the judge's error is in value and interval.
    """

    rate: str
    system: str | None
    judge: str
    labels: int
    raw: Interval
    corrected: Interval


class LabelsSummary:
    """People's labels of a run.

    Args:
        evidence: the judged replies.
        labels: in the run folder.
        warned: what is known against judges, by name.

    Attributes:
        annotators: how many labels each gave.
        agreements: between people, by criterion.
        validations: each judge against them.
        corrected: rates, all systems together first.
    """

    def __init__(self, evidence: Evidence, labels: Labels, warned: Mapping[str, str]) -> None:
        self.annotators = {
            name: sum(label.outcome is not None for label in given)
            for name, given in labels.given.items()
        }
        names = [criterion.name for criterion in labels.criteria if labels.votes(criterion.name)]
        self.agreements = [Agreement.of(labels, name, run=evidence.run) for name in names]
        known = {name: (text,) for name, text in warned.items()}
        self.validations = JudgeValidation.of_judges(evidence.run, labels, known_of=known)
        for one in self.validations:
            for name in ("accuracy", "precision", "recall", "specificity", "kappa"):
                rate = getattr(one, name)
                # No number of labels makes a judge certain.
                if rate.low == rate.high:
                    setattr(one, name, replace(rate, low=None, high=None))
        self.corrected = list(_corrected(evidence, labels))

    @classmethod
    def of(cls, evidence: Evidence, warned: Mapping[str, str]) -> LabelsSummary | None:
        """Summarise the labels in the run folder; None where nobody labelled.

        Raises:
            InputError: a file of labels is broken.
        """
        labels = Labels.read(evidence.run.folder)
        if all(label.outcome is None for given in labels.given.values() for label in given):
            return None
        return cls(evidence, labels, warned)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; pairs of names, which JSON cannot key by, become lists."""
        agreement: dict[str, Any] = {}
        for one in self.agreements:
            cohen = [{"annotators": list(pair), **asdict(k)} for pair, k in one.cohen.items()]
            agreement[one.criterion] = {**asdict(one), "cohen": cohen}
            del agreement[one.criterion]["criterion"]
        judges = []
        for found in self.validations:
            confusion = [
                {"people": people, "judge": judge, "replies": count}
                for (people, judge), count in found.confusion.items()
            ]
            judges.append({**vars(found), "confusion": confusion})
            del judges[-1]["positive"], judges[-1]["unsettled"]
        return {
            "annotators": dict(self.annotators),
            "agreement": agreement,
            "judges": as_json(judges),
            "corrected": as_json(self.corrected),
        }


# Rates of the report: name, criterion, outcomes that count, out of the KB or in it.
_RATES: tuple[tuple[str, str, Collection[str], bool], ...] = (
    ("abstention_rate", Judgement.ABSTENTION, ("yes",), True),
    ("factuality_rate", Judgement.FACTUALITY, Judgement.TIERS[:2], True),
    ("false_abstention_rate", Judgement.ABSTENTION, ("yes",), False),
)


def _corrected(evidence: Evidence, labels: Labels) -> Iterator[CorrectedRate]:
    for name, criterion, outcomes, out_of_kb in _RATES:
        judge, people = evidence.primary(criterion), labels.consensus(criterion)
        if judge is None or not people:
            continue
        judged = [
            reply
            for reply in evidence.replies
            if reply.out_of_kb is out_of_kb
            and _outcome(reply, criterion) is not None
            and judge in evidence.said(reply, criterion)
        ]
        for system in (None, *evidence.run.systems):
            own = [reply for reply in judged if system in (None, reply.system.system_id)]
            among = [reply.row.reply_id for reply in own]
            labelled = sum(reply_id in people for reply_id in among)
            if labelled < (_FEWEST_PER_SYSTEM if system else 1):
                continue
            corrected = corrected_rate(
                evidence.run, judge, criterion, outcomes, labels, among=among
            )
            raw = rate([(reply, _outcome(reply, criterion) in outcomes) for reply in own])
            yield CorrectedRate(name, system, judge, labelled, raw, corrected)


def _outcome(reply: JudgedReply, criterion: str) -> str | None:
    if criterion == Judgement.FACTUALITY:
        return reply.tier
    return {True: "yes", False: "no", None: None}[reply.abstained]
