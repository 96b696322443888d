"""Counts and rates of replies, each rate with its interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....calibration import UNDEFINED, Interval, wilson_interval
from ...replies import ABSTENTION, FACTUALITY, TIERS
from ...uniknow._resampling import QuestionResamples, share_interval
from ._evidence import Evidence, JudgedReply

_RESAMPLES, _SEED = 1000, 0


@dataclass(frozen=True, slots=True)
class ReplyCounts:
    """What became of replies of one kind of case.

    Attributes:
        n: replies without an error.
        questions: different ones among them.
        errors: replies that ended in one; they count nowhere else.
        abstained: None where nobody judged that.
        answered: judged not to abstain, None likewise.
        tiers: of those that did not abstain, by name; None where nobody judged that.
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
                ABSTENTION: self.unjudged_abstention,
                FACTUALITY: self.unjudged_factuality,
            },
            "abstention_rate": self.abstention_rate.to_dict(),
            "factuality_rate": self.factuality_rate.to_dict(),
            "wrong_answer_rate": self.wrong_answer_rate.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class ReplyShape:
    """What became of replies, by whether the knowledge base held the answer.

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
    """The shape of replies and of failed ones."""
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
    """The counts of replies without an error."""
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
            tier: sum(reply.tier == tier for reply in tiered) if known else None for tier in TIERS
        },
        unjudged_abstention=len(replies) - len(judged),
        unjudged_factuality=len(open_ones) - len(tiered),
        abstention_rate=rate([(reply, reply.abstained is True) for reply in judged]),
        factuality_rate=rate([(reply, reply.tier != TIERS[2]) for reply in tiered]),
        # Without any tier, nothing is known of answers: only abstentions would be left.
        wrong_answer_rate=rate(
            [(reply, reply.wrong) for reply in replies if reply.wrong is not None]
        )
        if known
        else UNDEFINED,
    )


def rate(flagged: Sequence[tuple[JudgedReply, bool]]) -> Interval:
    """The share of replies with the flag set.

    Wilson's interval where each question stands once; otherwise, as where several systems
    answered the same question, a bootstrap that draws whole questions.
    """
    return clustered_rate(
        [flag for _, flag in flagged], [reply.case.question_id for reply, _ in flagged]
    )


def clustered_rate(flags: Sequence[bool], clusters: Sequence[Hashable]) -> Interval:
    """As `rate`, of flags and what each belongs to; `n` counts clusters."""
    if not flags:
        return UNDEFINED
    names = list(dict.fromkeys(clusters))
    if len(names) == len(flags):
        return wilson_interval(sum(flags), len(flags))
    resamples = QuestionResamples(names, resamples=_RESAMPLES, seed=_SEED)
    counts = np.zeros((len(names), 2))
    for flag, cluster in zip(flags, clusters, strict=True):
        counts[resamples.position(cluster)] += (float(flag), 1.0)
    totals = resamples.totals(counts)
    value = sum(flags) / len(flags)
    return share_interval(value, totals[:, 0] / totals[:, 1], len(names))


def judge_counts(evidence: Evidence) -> dict[str, ReplyShape]:
    """The same counts by each judge alone, on the replies that it judged."""
    names = dict.fromkeys(
        judge for name in (ABSTENTION, FACTUALITY) for judge in evidence.judges.get(name, ())
    )
    return {name: shape_of(evidence.judged_by(name)) for name in names}
