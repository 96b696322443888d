"""What a report is made from: each reply with its case and what judges made of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...judges import FAILURE, judges_of
from ...ookb import CaseKind, OokbQuestion
from ...replies import (
    ABSTENTION,
    FACTUALITY,
    TIERS,
    Judgement,
    RepliesRun,
    ReplyCase,
    ReplyRow,
    ReplySystem,
    read_replies_run,
)


@dataclass(frozen=True, slots=True)
class JudgedReply:
    """A reply with all that the report says of it.

    Attributes:
        row: as stored.
        case: that it answers.
        question: likewise.
        system: whose it is.
        abstained: None where no judge said.
        tier: of its factuality; None where it abstained, or no judge said.
        failure: kind of a wrong answer; None where no judge said.
    """

    row: ReplyRow
    case: ReplyCase
    question: OokbQuestion
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
        return None if self.tier is None else self.tier == TIERS[2]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with the verdicts sorted.

    Attributes:
        run: as read.
        judges: per criterion, those who judged, the one whose word counts first.
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
        """The judge whose word counts."""
        return next(iter(self.judges.get(criterion, ())), None)

    def verdict(self, reply_id: str, criterion: str) -> Judgement | None:
        """Of the first judge in rank who judged the reply.

        Where the first of all gives judgements, an offline estimate does not fill its gaps.
        """
        found = self.verdicts.get(reply_id, {}).get(criterion, {})
        for rank, judge in enumerate(self.judges.get(criterion, ())):
            if judge in found and (rank == 0 or not found[judge].estimate):
                return found[judge]
        return None

    def judged_by(self, judge: str) -> tuple[JudgedReply, ...]:
        """The replies that a judge judged, with this judge's word.

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
            if ABSTENTION in found or FACTUALITY in found:
                said = found.get(ABSTENTION)
                abstained = reply.abstained if said is None else said == "yes"
                factuality = found.get(FACTUALITY)
                own.append(
                    _judged(self.run, reply.row, reply.system, (abstained, factuality, None))
                )
        return tuple(own)


def read_evidence(run_dir: str | os.PathLike[str]) -> Evidence:
    """The evidence of a run folder, finished or not.

    Raises:
        InputError: a file of the run is missing, broken or written by a newer knowgate.
    """
    run = read_replies_run(run_dir)
    verdicts: dict[str, dict[str, dict[str, Judgement]]] = {}
    for made in run.judgements.values():
        if made.error is None and made.outcome is not None:
            of_reply = verdicts.setdefault(made.reply_id, {})
            of_reply.setdefault(made.criterion, {})[made.judge] = made
    criteria = sorted({name for of_reply in verdicts.values() for name in of_reply})
    judges = {name: judges_of(run, name) for name in criteria}
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
        for criterion in (ABSTENTION, FACTUALITY, FAILURE)
        if (verdict := evidence.verdict(row.reply_id, criterion)) is not None
    }
    abstention = said.get(ABSTENTION)
    abstained = None if abstention is None else abstention == "yes"
    return _judged(evidence.run, row, system, (abstained, said.get(FACTUALITY), said.get(FAILURE)))


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
        tier=tier if tier in TIERS and not abstained else None,
        failure=None if abstained else failure,
    )


def error_types(failed: Sequence[JudgedReply]) -> dict[str, int]:
    """Errors by type, the most frequent first."""
    types = Counter(reply.row.error.type for reply in failed if reply.row.error is not None)
    return dict(sorted(types.items(), key=lambda item: (-item[1], item[0])))
