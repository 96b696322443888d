"""What a report is made from: each reply with its case and what judges made of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....calibration import Interval, QuestionResamples
from ...run import (
    CaseKind,
    Judgement,
    Question,
    RepliesRun,
    ReplyCase,
    ReplyRow,
    ReplySystem,
)


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """A reply with its case, question, system and verdicts.

    Attributes:
        row: as stored.
        case: that it answers.
        question: likewise.
        system: that gave it.
        abstained: None where no judge said.
        tier: of its factuality; None where it abstained, or no judge said.
        failure: kind of a wrong answer; None where no judge said.
    """

    row: ReplyRow
    case: ReplyCase
    question: Question
    system: ReplySystem
    abstained: bool | None
    tier: str | None
    failure: str | None

    @property
    def out_of_kb(self) -> bool:
        """Whether the knowledge base does not hold the answer: abstaining is right."""
        return self.case.kind is not CaseKind.IN_KB

    @property
    def wrong(self) -> bool | None:
        """Whether it states something unacceptable; None where that is not known."""
        if self.abstained:
            return False
        return None if self.tier is None else self.tier == Judgement.TIERS[2]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with the verdicts sorted.

    Attributes:
        run: as read.
        judges: per criterion, those who judged; the verdict of the first one counts.
        verdicts: judgements without error by reply, criterion and judge.
        replies: without error, in the order of the manifest's systems and of the cases.
        failed: replies that ended in an error, likewise.
    """

    run: RepliesRun
    judges: Mapping[str, tuple[str, ...]]
    verdicts: Mapping[str, Mapping[str, Mapping[str, Judgement]]]
    replies: tuple[JudgedReply, ...]
    failed: tuple[JudgedReply, ...]

    def primary(self, criterion: str) -> str | None:
        """Return the judge whose verdict counts."""
        return next(iter(self.judges.get(criterion, ())), None)

    def verdict(self, reply_id: str, criterion: str) -> Judgement | None:
        """Return the verdict of the first judge in rank who judged the reply.

        Where the first of all gives judgements, an offline estimate does not fill its gaps.
        """
        found = self.verdicts.get(reply_id, {}).get(criterion, {})
        for rank, judge in enumerate(self.judges.get(criterion, ())):
            if judge in found and (rank == 0 or not found[judge].estimate):
                return found[judge]
        return None

    def judged_by(self, judge: str) -> tuple[JudgedReply, ...]:
        """Return the replies that a judge judged, with the verdicts of this judge.

        Whether they abstained is taken from the first judge of that where this one does
        not say.
        """
        own = []
        for reply in self.replies:
            found = {
                criterion: by_judge[judge].outcome
                for criterion, by_judge in self.verdicts.get(reply.row.reply_id, {}).items()
                if judge in by_judge
            }
            if Judgement.ABSTENTION in found or Judgement.FACTUALITY in found:
                said = found.get(Judgement.ABSTENTION)
                abstained = reply.abstained if said is None else said == "yes"
                factuality = found.get(Judgement.FACTUALITY)
                own.append(
                    _judged(self.run, reply.row, reply.system, (abstained, factuality, None))
                )
        return tuple(own)


def read_evidence(run_dir: str | os.PathLike[str]) -> Evidence:
    """Read the evidence of a run folder, finished or not.

    Raises:
        InputError: a file of the run is missing, broken or written by a newer knowgate.
    """
    run = RepliesRun.read(run_dir)
    verdicts: dict[str, dict[str, dict[str, Judgement]]] = {}
    for made in run.judgements.values():
        if made.error is None and made.outcome is not None:
            of_reply = verdicts.setdefault(made.reply_id, {})
            of_reply.setdefault(made.criterion, {})[made.judge] = made
    criteria = sorted({name for of_reply in verdicts.values() for name in of_reply})
    judges = {name: run.judges_of(name) for name in criteria}
    bare = Evidence(run, judges, verdicts, (), ())
    systems = run.systems
    judged = [_sorted_out(bare, row, systems[row.system_id]) for row in _in_order(run)]
    return Evidence(
        run=run,
        judges=judges,
        verdicts=verdicts,
        replies=tuple(reply for reply in judged if reply.row.error is None),
        failed=tuple(reply for reply in judged if reply.row.error is not None),
    )


def _in_order(run: RepliesRun) -> Sequence[ReplyRow]:
    # Replies stand in the order in which they finished, which chance decides.
    systems = {name: rank for rank, name in enumerate(run.systems)}
    cases = {name: rank for rank, name in enumerate(run.cases)}
    return sorted(
        run.replies.values(),
        key=lambda row: (systems[row.system_id], cases[row.case_id], row.reply_id),
    )


def _sorted_out(evidence: Evidence, row: ReplyRow, system: ReplySystem) -> JudgedReply:
    said = {
        criterion: verdict.outcome
        for criterion in (Judgement.ABSTENTION, Judgement.FACTUALITY, Judgement.FAILURE)
        if (verdict := evidence.verdict(row.reply_id, criterion)) is not None
    }
    abstention = said.get(Judgement.ABSTENTION)
    abstained = None if abstention is None else abstention == "yes"
    return _judged(
        evidence.run,
        row,
        system,
        (abstained, said.get(Judgement.FACTUALITY), said.get(Judgement.FAILURE)),
    )


def _judged(
    run: RepliesRun,
    row: ReplyRow,
    system: ReplySystem,
    said: tuple[bool | None, str | None, str | None],
) -> JudgedReply:
    """The reply with what was said of its abstention, factuality and failure."""
    abstained, tier, failure = said
    return JudgedReply(
        row=row,
        case=run.case_of(row),
        question=run.question_of(row),
        system=system,
        abstained=abstained,
        tier=tier if tier in Judgement.TIERS and not abstained else None,
        failure=None if abstained else failure,
    )


def error_types(failed: Sequence[JudgedReply]) -> dict[str, int]:
    """Count errors by type, the most frequent first."""
    types = Counter(reply.row.error.type for reply in failed if reply.row.error is not None)
    return dict(sorted(types.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class CriterionCounts:
    """How often a judge gave each outcome of a criterion.

    Attributes:
        criterion: `failure` or a user's own.
        judge: who judged.
        estimate: whether these are offline estimates.
        outcomes: all that occur, the most frequent first.
        systems: per system how often each occurs; out-of-KB replies for `failure`, all
            replies for other criteria.
    """

    criterion: str
    judge: str
    estimate: bool
    outcomes: tuple[str, ...]
    systems: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "criterion": self.criterion,
            "judge": self.judge,
            "estimate": self.estimate,
            "systems": {
                name: {outcome: found.get(outcome, 0) for outcome in self.outcomes}
                for name, found in self.systems.items()
            },
        }


def criterion_counts(evidence: Evidence) -> list[CriterionCounts]:
    """Count outcomes per criterion and judge, abstention and factuality excepted."""
    return [
        _counts(evidence, criterion, judge)
        for criterion, judges in evidence.judges.items()
        if criterion not in (Judgement.ABSTENTION, Judgement.FACTUALITY)
        for judge in judges
    ]


def _counts(evidence: Evidence, criterion: str, judge: str) -> CriterionCounts:
    systems: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    estimated = False
    for reply in evidence.replies:
        verdict = evidence.verdicts.get(reply.row.reply_id, {}).get(criterion, {}).get(judge)
        if verdict is None or verdict.outcome is None:
            continue
        if criterion == "failure" and not (reply.out_of_kb and not reply.abstained):
            continue
        systems.setdefault(reply.system.system_id, Counter())[verdict.outcome] += 1
        total[verdict.outcome] += 1
        estimated = estimated or verdict.estimate
    return CriterionCounts(
        criterion=criterion,
        judge=judge,
        estimate=estimated,
        outcomes=tuple(sorted(total, key=lambda outcome: (-total[outcome], outcome))),
        systems=systems,
    )


_RESAMPLES, _SEED = 1000, 0


@dataclass(frozen=True, slots=True)
class ReplyCounts:
    """Outcomes of the replies to one kind of case.

    Attributes:
        n: replies without an error.
        questions: different ones among them.
        errors: replies that ended in one; they count nowhere else.
        abstained: None where that was not judged.
        answered: judged not to abstain, None likewise.
        tiers: of those that did not abstain, by name; None where that was not judged.
        unjudged_abstention: replies without a verdict on abstention.
        unjudged_factuality: replies that did not abstain without a tier.
        abstention_rate: of those judged.
        factuality_rate: tiers 1 and 2 among answers with a tier.
        wrong_answer_rate: tier 3 among all replies that abstained or have a tier.
    """

    n: int
    questions: int
    errors: int
    abstained: int | None
    answered: int | None
    tiers: Mapping[str, int | None]
    unjudged_abstention: int
    unjudged_factuality: int
    abstention_rate: Interval
    factuality_rate: Interval
    wrong_answer_rate: Interval

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the names of `report.json`."""
        return {
            "n": self.n,
            "questions": self.questions,
            "errors": self.errors,
            "abstained": self.abstained,
            "answered": self.answered,
            **self.tiers,
            "unjudged": {
                Judgement.ABSTENTION: self.unjudged_abstention,
                Judgement.FACTUALITY: self.unjudged_factuality,
            },
            "abstention_rate": self.abstention_rate.to_dict(),
            "factuality_rate": self.factuality_rate.to_dict(),
            "wrong_answer_rate": self.wrong_answer_rate.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class ReplyShape:
    """Outcomes of replies, by whether the knowledge base holds the answer.

    Attributes:
        out_of_kb: it did not: abstaining is right.
        in_kb: it did: abstaining is wrong.
    """

    out_of_kb: ReplyCounts
    in_kb: ReplyCounts

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the counts out of the knowledge base, the others beneath `in_kb`."""
        in_kb = self.in_kb.to_dict()
        in_kb["false_abstention_rate"] = in_kb.pop("abstention_rate")
        return {**self.out_of_kb.to_dict(), "in_kb": in_kb}


def shape_of(replies: Sequence[JudgedReply], failed: Sequence[JudgedReply] = ()) -> ReplyShape:
    """Count the replies and the failed ones, by whether the answer is in the KB."""
    return ReplyShape(
        out_of_kb=counts_of(
            [reply for reply in replies if reply.out_of_kb],
            sum(reply.out_of_kb for reply in failed),
        ),
        in_kb=counts_of(
            [reply for reply in replies if not reply.out_of_kb],
            sum(not reply.out_of_kb for reply in failed),
        ),
    )


def counts_of(replies: Sequence[JudgedReply], errors: int = 0) -> ReplyCounts:
    """Count the replies without an error."""
    judged = [reply for reply in replies if reply.abstained is not None]
    abstained = sum(reply.abstained is True for reply in judged)
    open_ones = [reply for reply in replies if not reply.abstained]
    tiered = [reply for reply in open_ones if reply.tier is not None]
    known = bool(tiered) or not open_ones
    return ReplyCounts(
        n=len(replies),
        questions=len({reply.case.question_id for reply in replies}),
        errors=errors,
        abstained=abstained if judged or not replies else None,
        answered=len(judged) - abstained if judged or not replies else None,
        tiers={
            tier: sum(reply.tier == tier for reply in tiered) if known else None
            for tier in Judgement.TIERS
        },
        unjudged_abstention=len(replies) - len(judged),
        unjudged_factuality=len(open_ones) - len(tiered),
        abstention_rate=rate([(reply, reply.abstained is True) for reply in judged]),
        factuality_rate=rate([(reply, reply.tier != Judgement.TIERS[2]) for reply in tiered]),
        # Without any tier, nothing is known of answers: only abstentions would be left.
        wrong_answer_rate=rate(
            [(reply, reply.wrong) for reply in replies if reply.wrong is not None]
        )
        if known
        else Interval(),
    )


def rate(flagged: Sequence[tuple[JudgedReply, bool]]) -> Interval:
    """Estimate the share of replies with the flag set.

    Wilson's interval where each question stands once; otherwise, as where several systems
    answered the same question, a bootstrap that draws whole questions.
    """
    return clustered_rate(
        [flag for _, flag in flagged], [reply.case.question_id for reply, _ in flagged]
    )


def clustered_rate(flags: Sequence[bool], clusters: Sequence[Hashable]) -> Interval:
    """As `rate`, of flags and the cluster of each; `n` counts clusters."""
    if not flags:
        return Interval()
    names = list(dict.fromkeys(clusters))
    if len(names) == len(flags):
        return Interval.wilson(sum(flags), len(flags))
    resamples = QuestionResamples(names, resamples=_RESAMPLES, seed=_SEED)
    counts = np.zeros((len(names), 2))
    for flag, cluster in zip(flags, clusters, strict=True):
        counts[resamples.position(cluster)] += (float(flag), 1.0)
    totals = resamples.totals(counts)
    value = sum(flags) / len(flags)
    return QuestionResamples.share_interval(value, totals[:, 0] / totals[:, 1], len(names))


def judge_counts(evidence: Evidence) -> dict[str, ReplyShape]:
    """Count for each judge alone, on the replies that it judged."""
    names = dict.fromkeys(
        judge
        for name in (Judgement.ABSTENTION, Judgement.FACTUALITY)
        for judge in evidence.judges.get(name, ())
    )
    return {name: shape_of(evidence.judged_by(name)) for name in names}
