"""What people's labels say: of each other, of the judges, and of the rates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....calibration import Interval
from ...judges import JudgeValidation, corrected_rate, validate_judges
from ...labelling import Agreement, Labels, agreement, read_labels
from ...replies import ABSTENTION, FACTUALITY, TIERS
from ._biases import judge_warnings
from ._counts import rate
from ._evidence import Evidence, JudgedReply

# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30
_ESTIMATES = ("accuracy", "precision", "recall", "specificity", "kappa")


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate as the judge counted it, and as people would find it.

    Attributes:
        name: as in `report.json`.
        system: id of the system; empty for all together.
        judge: who counted.
        labels: replies among them that people labelled.
        raw: the judge's.
        corrected: prediction-powered: the judge's error is in value and interval.
    """

    name: str
    system: str
    judge: str
    labels: int
    raw: Interval
    corrected: Interval

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "rate": self.name,
            "system": self.system or None,
            "judge": self.judge,
            "labels": self.labels,
            "raw": self.raw.to_dict(),
            "corrected": self.corrected.to_dict(),
        }


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


def summarise_labels(evidence: Evidence) -> LabelsSummary | None:
    """What people's labels in the run folder say; None where nobody labelled.

    Raises:
        InputError: a file of labels is broken.
    """
    labels = read_labels(evidence.run.folder)
    annotators = {
        name: sum(label.outcome is not None for label in given)
        for name, given in labels.given.items()
    }
    if not any(annotators.values()):
        return None
    names = [criterion.name for criterion in labels.criteria]
    return LabelsSummary(
        annotators=annotators,
        agreements=tuple(
            agreement(labels, name, run=evidence.run) for name in names if labels.votes(name)
        ),
        validations=tuple(map(_honest, _validations(evidence, labels))),
        corrected=tuple(_corrected(evidence, labels)),
    )


def _validations(evidence: Evidence, labels: Labels) -> tuple[JudgeValidation, ...]:
    return validate_judges(evidence.run, labels, known_of=judge_warnings(evidence.run))


def _honest(found: JudgeValidation) -> JudgeValidation:
    """Without intervals that have no width: no number of labels makes a judge certain."""
    flat = {
        name: replace(interval, low=None, high=None)
        for name in _ESTIMATES
        if (interval := getattr(found, name)).low == interval.high
    }
    return replace(found, **flat)


@dataclass(frozen=True, slots=True)
class _Rate:
    name: str
    criterion: str
    outcomes: Collection[str]
    among: Callable[[JudgedReply], bool]
    hit: Callable[[JudgedReply], bool]


_RATES = (
    _Rate(
        "abstention_rate",
        ABSTENTION,
        ("yes",),
        lambda reply: reply.out_of_kb and reply.abstained is not None,
        lambda reply: reply.abstained is True,
    ),
    _Rate(
        "factuality_rate",
        FACTUALITY,
        TIERS[:2],
        lambda reply: reply.out_of_kb and reply.tier is not None,
        lambda reply: reply.tier in TIERS[:2],
    ),
    _Rate(
        "false_abstention_rate",
        ABSTENTION,
        ("yes",),
        lambda reply: not reply.out_of_kb and reply.abstained is not None,
        lambda reply: reply.abstained is True,
    ),
)


def _corrected(evidence: Evidence, labels: Labels) -> list[CorrectedRate]:
    found = []
    for wanted in _RATES:
        judge = evidence.primary(wanted.criterion)
        people = labels.consensus(wanted.criterion)
        if judge is None or not people:
            continue
        judged = [
            reply
            for reply in evidence.replies
            if wanted.among(reply) and _said(evidence, reply, wanted.criterion) == judge
        ]
        for system in ("", *evidence.run.systems):
            own = [reply for reply in judged if system in ("", reply.system.system_id)]
            labelled = sum(reply.row.reply_id in people for reply in own)
            if labelled >= (_FEWEST_PER_SYSTEM if system else 1):
                found.append(_rate(evidence, labels, wanted, judge, own, system, labelled))
    return found


def _rate(
    evidence: Evidence,
    labels: Labels,
    wanted: _Rate,
    judge: str,
    replies: Sequence[JudgedReply],
    system: str,
    labelled: int,
) -> CorrectedRate:
    corrected = corrected_rate(
        evidence.run,
        judge,
        wanted.criterion,
        wanted.outcomes,
        labels,
        among=[reply.row.reply_id for reply in replies],
    )
    raw = rate([(reply, wanted.hit(reply)) for reply in replies])
    return CorrectedRate(wanted.name, system, judge, labelled, raw, corrected)


def _said(evidence: Evidence, reply: JudgedReply, criterion: str) -> str | None:
    verdict = evidence.verdict(reply.row.reply_id, criterion)
    return None if verdict is None else verdict.judge


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
