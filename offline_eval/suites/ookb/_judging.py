"""Judge the replies of a run; the replies of guards are abstentions without asking a judge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ....guard.decision import Route
from ...judging import (
    Judge,
    JudgedReply,
    Verdict,
    judge_run,
)
from ...run import (
    Judgement,
    ReplyRow,
)
from .._parts import RunOptions

_OF_GUARD = {Judgement.ABSTENTION: "yes", Judgement.FACTUALITY: Judgement.NOT_APPLICABLE}
_REASONING = "the guard's own reply"


def judge_replies(
    folder: Path,
    judges: Sequence[Judge],
    rows: Sequence[ReplyRow],
    options: RunOptions,
) -> int:
    """Judge every reply of a run, except the replies of guards.

    Args:
        folder: of the run.
        judges: at least one, of different names.
        rows: the replies.
        options: of the run: limits, progress, retries.

    Returns:
        How many verdicts failed.

    Raises:
        InputError: the run or a judge cannot be used.
        MissingDependencyError: a judge needs a package that is not there.
    """
    by_guard = frozenset(row.reply_id for row in rows if row.route is Route.ABSTAIN)
    totals = judge_run(
        folder,
        [_KnowsGuards(judge, by_guard) for judge in judges],
        retry_failed=options.retry_failed,
        limits=options.limits,
        on_progress=options.on_progress,
    )
    return totals.failed


class _KnowsGuards:
    """A judge that is not asked about replies which guards gave in a model's place."""

    def __init__(self, judge: Judge, by_guard: Collection[str]) -> None:
        self._judge, self._by_guard = judge, by_guard
        self.name, self.estimate, self.criteria = judge.name, judge.estimate, judge.criteria

    def version(self, criterion: str) -> str:
        """Return the version of the judge itself."""
        return self._judge.version(criterion)

    def wants(self, criterion: str, material: JudgedReply, known: Mapping[str, str]) -> bool:
        """Return what is known of a guard's reply; of others, what the judge wants."""
        if material.reply_id in self._by_guard:
            return criterion in _OF_GUARD
        return self._judge.wants(criterion, material, known)

    async def judge(
        self, criterion: str, material: JudgedReply, known: Mapping[str, str]
    ) -> Verdict:
        """Return the verdict, or what is known without asking."""
        if material.reply_id in self._by_guard:
            return Verdict(_OF_GUARD[criterion], reasoning=_REASONING)
        return await self._judge.judge(criterion, material, known)
