"""What people's labels say: of each other, of the judges, and of the rates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ....calibration import Interval
from ...judging.correction import corrected_rate
from ...judging.labelling import Agreement, Labels
from ...judging.validation import JudgeValidation
from ...run.replies import Judgement
from ._replies import Evidence, JudgedReply, rate

# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30
_ESTIMATES = ("accuracy", "precision", "recall", "specificity", "kappa")


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate by the judge, and corrected by people's labels.

    Attributes:
        rate: name as in `report.json`.
        system: id of the system; empty for all together.
        judge: who counted.
        labels: replies among them that people labelled.
        raw: the judge's.
        corrected: prediction-powered: the judge's error is in value and interval.
    """

    rate: str
    system: str
    judge: str
    labels: int
    raw: Interval
    corrected: Interval

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "system": self.system or None}


@dataclass(frozen=True, slots=True)
class LabelsSummary:
    """People's labels of a run.

    Attributes:
        annotators: how many labels each gave.
        agreements: between people, by criterion.
        validations: each judge against them.
        corrected: rates, all systems together first.
    """

    annotators: Mapping[str, int]
    agreements: tuple[Agreement, ...]
    validations: tuple[JudgeValidation, ...]
    corrected: tuple[CorrectedRate, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "annotators": dict(self.annotators),
            "agreement": {found.criterion: _agreement(found) for found in self.agreements},
            "judges": [_validation(found) for found in self.validations],
            "corrected": [found.to_dict() for found in self.corrected],
        }


def summarise_labels(evidence: Evidence, warned: Mapping[str, str]) -> LabelsSummary | None:
    """Summarise people's labels in the run folder; None where nobody labelled.

    Args:
        evidence: the judged replies.
        warned: what is known against judges, by name.

    Raises:
        InputError: a file of labels is broken.
    """
    labels = Labels.read(evidence.run.folder)
    annotators = {
        name: sum(label.outcome is not None for label in given)
        for name, given in labels.given.items()
    }
    if not any(annotators.values()):
        return None
    names = [criterion.name for criterion in labels.criteria]
    known = {name: (text,) for name, text in warned.items()}
    return LabelsSummary(
        annotators=annotators,
        agreements=tuple(
            Agreement.of(labels, name, run=evidence.run) for name in names if labels.votes(name)
        ),
        validations=tuple(
            _drop_zero_width(found)
            for found in JudgeValidation.of_judges(evidence.run, labels, known_of=known)
        ),
        corrected=tuple(_corrected(evidence, labels)),
    )


def _drop_zero_width(found: JudgeValidation) -> JudgeValidation:
    """Drop intervals without width: no number of labels makes a judge certain."""
    flat = {
        name: replace(interval, low=None, high=None)
        for name in _ESTIMATES
        if (interval := getattr(found, name)).low == interval.high
    }
    return replace(found, **flat)


@dataclass(frozen=True, slots=True)
class _Rate:
    """A rate of the report: the outcomes that count by a criterion, in the KB or out of it."""

    name: str
    criterion: str
    outcomes: Collection[str]
    out_of_kb: bool

    def counts(self, reply: JudgedReply) -> bool:
        """Whether a reply has such an outcome."""
        return _outcome(reply, self.criterion) in self.outcomes


_RATES = (
    _Rate("abstention_rate", Judgement.ABSTENTION, ("yes",), True),
    _Rate("factuality_rate", Judgement.FACTUALITY, Judgement.TIERS[:2], True),
    _Rate("false_abstention_rate", Judgement.ABSTENTION, ("yes",), False),
)


def _corrected(evidence: Evidence, labels: Labels) -> Iterator[CorrectedRate]:
    for wanted in _RATES:
        judge = evidence.primary(wanted.criterion)
        people = labels.consensus(wanted.criterion)
        if judge is None or not people:
            continue
        judged = [
            reply
            for reply in evidence.replies
            if reply.out_of_kb is wanted.out_of_kb
            and _outcome(reply, wanted.criterion) is not None
            and judge in evidence.verdicts[reply.row.reply_id].get(wanted.criterion, {})
        ]
        for system in ("", *evidence.run.systems):
            own = [reply for reply in judged if system in ("", reply.system.system_id)]
            labelled = sum(reply.row.reply_id in people for reply in own)
            if labelled < (_FEWEST_PER_SYSTEM if system else 1):
                continue
            corrected = corrected_rate(
                evidence.run,
                judge,
                wanted.criterion,
                wanted.outcomes,
                labels,
                among=[reply.row.reply_id for reply in own],
            )
            raw = rate(own, wanted.counts)
            yield CorrectedRate(wanted.name, system, judge, labelled, raw, corrected)


def _outcome(reply: JudgedReply, criterion: str) -> str | None:
    if criterion == Judgement.FACTUALITY:
        return reply.tier
    return {True: "yes", False: "no", None: None}[reply.abstained]


def _agreement(found: Agreement) -> dict[str, Any]:
    return {
        "annotators": list(found.annotators),
        "replies": found.replies,
        "by_two": found.by_two,
        "by_all": found.by_all,
        "disagreements": found.disagreements,
        "cohen": [
            {"annotators": list(pair), **kappa.to_dict()} for pair, kappa in found.cohen.items()
        ],
        "fleiss": found.fleiss.to_dict(),
        "alpha": found.alpha.to_dict(),
        "ordinal_alpha": None if found.ordinal_alpha is None else found.ordinal_alpha.to_dict(),
    }


def _validation(found: JudgeValidation) -> dict[str, Any]:
    return {
        "judge": found.judge,
        "criterion": found.criterion,
        "n": found.n,
        "no_verdict": found.no_verdict,
        **{name: getattr(found, name).to_dict() for name in _ESTIMATES},
        "confusion": [
            {"people": people, "judge": judge, "replies": count}
            for (people, judge), count in found.confusion.items()
        ],
        "warnings": list(found.warnings),
    }
