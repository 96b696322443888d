"""What people's labels say: of each other, of the judges, and of the rates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....calibration import Interval
from ....guard.errors import InputError
from ....guard.files import read_jsonl
from ...judging import JudgeValidation, corrected_rate
from ...judging.labelling import Agreement, Labels
from ...report import Cell, Section, Table, counted, decimal, one_line
from ...run import (
    Judgement,
    RepliesRun,
)
from ._replies_costs import judge_warnings
from ._replies_evidence import Evidence, JudgedReply, rate

# With fewer labels a corrected rate of one system says nothing.
_FEWEST_PER_SYSTEM = 30
_ESTIMATES = ("accuracy", "precision", "recall", "specificity", "kappa")


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate by the judge, and corrected by people's labels.

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
    """Summarise people's labels in the run folder; None where nobody labelled.

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
    return LabelsSummary(
        annotators=annotators,
        agreements=tuple(
            Agreement.of(labels, name, run=evidence.run) for name in names if labels.votes(name)
        ),
        validations=tuple(map(_honest, _validations(evidence, labels))),
        corrected=tuple(_corrected(evidence, labels)),
    )


def _validations(evidence: Evidence, labels: Labels) -> tuple[JudgeValidation, ...]:
    return JudgeValidation.of_judges(evidence.run, labels, known_of=judge_warnings(evidence.run))


def _honest(found: JudgeValidation) -> JudgeValidation:
    """Drop intervals without width: no number of labels makes a judge certain."""
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
        Judgement.ABSTENTION,
        ("yes",),
        lambda reply: reply.out_of_kb and reply.abstained is not None,
        lambda reply: reply.abstained is True,
    ),
    _Rate(
        "factuality_rate",
        Judgement.FACTUALITY,
        Judgement.TIERS[:2],
        lambda reply: reply.out_of_kb and reply.tier is not None,
        lambda reply: reply.tier in Judgement.TIERS[:2],
    ),
    _Rate(
        "false_abstention_rate",
        Judgement.ABSTENTION,
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


_RATE_NAMES = {
    "abstention_rate": "Abstained, answer not in KB",
    "factuality_rate": "Right of those answered",
    "false_abstention_rate": "False abstentions",
}


def label_blocks(summary: LabelsSummary | None, names: Mapping[str, str]) -> list[str | Section]:
    """Write what people's labels say; one paragraph where nobody labelled.

    Args:
        summary: None where nobody labelled.
        names: of systems, by id.
    """
    if summary is None:
        return [
            "Nobody has labelled replies of this run, so it is not known how often its judges "
            "err. 'knowgate label' with this run folder and --annotator NAME opens a page for "
            "that; a hundred labels say a good deal. The next report then shows how far people "
            "agree, how far the judges agree with them, and rates corrected for the judges’ errors."
        ]
    people = ", ".join(
        f"{one_line(name, 40)} ({counted(count, 'label')})"
        for name, count in summary.annotators.items()
    )
    cautions = [
        f"Caution, {found.judge} on {found.criterion}: {warning}."
        for found in summary.validations
        for warning in found.warnings
    ]
    tables = (
        ("People among each other", _agreement_table(summary)),
        ("Judges against people", _validation_table(summary.validations)),
        ("Rates corrected for the judges’ errors", _corrected_table(summary.corrected, names)),
    )
    return [
        f"Labelled by {people}. The majority counts; ties are left out.",
        *cautions,
        *(Section(title, (table,)) for title, table in tables if table.lines),
    ]


def _agreement_table(summary: LabelsSummary) -> Table:
    found = summary.agreements
    columns: list[tuple[str, list[Cell]]] = [
        ("Labelled", [Cell(str(one.replies)) for one in found]),
        ("By two or more", [Cell(str(one.by_two)) for one in found]),
        ("Disagreed", [Cell(str(one.disagreements)) for one in found]),
        ("Fleiss’ κ", Cell.column([one.fleiss for one in found], _two)),
        ("Krippendorff’s α", Cell.column([one.alpha for one in found], _two)),
    ]
    if any(len(one.cohen) == 1 for one in found):
        cohen = [
            next(iter(one.cohen.values())) if len(one.cohen) == 1 else _UNDEFINED for one in found
        ]
        columns.insert(3, ("Cohen’s κ", Cell.column(cohen, _two)))
    return Table.from_columns("Criterion", [one.criterion for one in found], columns)


def _validation_table(found: tuple[JudgeValidation, ...]) -> Table:
    columns: list[tuple[str, list[Cell]]] = [("Labels", [Cell(str(one.n)) for one in found])]
    columns += [
        (name.capitalize(), Cell.column([getattr(one, name) for one in found]))
        for name in ("accuracy", "precision", "recall")
    ]
    columns.append(("κ", Cell.column([one.kappa for one in found], _two)))
    lines = [f"{one.criterion}, {one.judge}" for one in found]
    return Table.from_columns("Criterion, judge", lines, columns)


def _corrected_table(found: tuple[CorrectedRate, ...], names: Mapping[str, str]) -> Table:
    lines = [
        f"{_RATE_NAMES[one.name]}: {names.get(one.system, one.system) or 'all systems'}"
        for one in found
    ]
    columns: list[tuple[str, list[Cell]]] = [
        ("As judged", Cell.column([one.raw for one in found])),
        ("As people would find it", Cell.column([one.corrected for one in found])),
        ("Labels", [Cell(str(one.labels)) for one in found]),
        ("Judge", [Cell(one.judge) for one in found]),
    ]
    return Table.from_columns("Rate", lines, columns)


_UNDEFINED = Interval(None, None, None, 0)


def _two(value: float) -> str:
    return decimal(value, 2)


FILE_NAME = "left_out_check.jsonl"


@dataclass(frozen=True, slots=True)
class AnsweredElsewhere:
    """A passage that may answer a question whose own passage was left out.

    Attributes:
        question_id: of the run.
        passage_id: of the passage.
        similarity: to the question's own passage or answer; None where not measured.
        how: it was found.
    """

    question_id: str
    passage_id: str
    similarity: float | None
    how: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "question_id": self.question_id,
            "passage_id": self.passage_id,
            "similarity": self.similarity,
            "how": self.how,
        }


def read_left_out_check(run: RepliesRun) -> tuple[AnsweredElsewhere, ...] | None:
    """Read what the check found, in the order of the file; None where it was not made.

    Raises:
        InputError: a line of the file is broken; names file and line.
    """
    path = run.folder / FILE_NAME
    if not path.exists():
        return None
    found = []
    for number, value in read_jsonl(path, links=False):
        question, passage = value.get("question_id"), value.get("passage_id")
        similarity = value.get("similarity")
        if not isinstance(question, str) or not isinstance(passage, str):
            raise InputError(
                "field 'question_id' or 'passage_id' is missing or no text",
                where=f"{path}:{number}",
                hint="remove the file, or make the check again",
            )
        found.append(
            AnsweredElsewhere(
                question,
                passage,
                _number(similarity),
                str(value.get("how") or ""),
            )
        )
    return tuple(found)


def _number(value: Any) -> float | None:
    """Return a number that JSON can hold; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e9 else None
