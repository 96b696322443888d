"""Judging a run whose guards speak for themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from ...guard import Route
from ..judges import (
    DEFAULT_JUDGES,
    NOT_APPLICABLE,
    Judge,
    JudgedReply,
    JudgeTotals,
    Verdict,
    judge_run,
    load_judges,
)
from ..replies import ABSTENTION, FACTUALITY, read_replies_run
from ._settings import CallLimits, Progress

_OF_GUARD = {ABSTENTION: "yes", FACTUALITY: NOT_APPLICABLE}
_REASONING = "the guard's own reply"


def judge_replies(
    folder: str | os.PathLike[str],
    judges: Sequence[str | Judge] = DEFAULT_JUDGES,
    *,
    limits: CallLimits | None = None,
    on_progress: Callable[[Progress], object] | None = None,
) -> JudgeTotals:
    """Judge every reply of a run; as `judge_run`, except for what guards reply.

    A guard's own reply is an abstention by what it is. No judge is asked about it, and
    none can take it for an answer because of how it is worded.

    Args:
        folder: of the run.
        judges: names or objects, see `judges.load_judges`.
        limits: of the calls that judging takes.
        on_progress: told after each verdict.

    Raises:
        InputError: the run or a judge cannot be used.
        MissingDependencyError: a judge needs a package that is not there.
    """
    limits = limits or CallLimits()
    rows = read_replies_run(folder).replies.values()
    by_guard = frozenset(row.reply_id for row in rows if row.route is Route.ABSTAIN)
    told = on_progress
    return judge_run(
        folder,
        [_KnowsGuards(judge, by_guard) for judge in load_judges(judges)],
        max_concurrency=limits.concurrency,
        rate=limits.rate,
        timeout=limits.timeout,
        max_attempts=limits.max_attempts,
        on_progress=None
        if told is None
        else lambda progress: told(
            Progress(
                stage="judging",
                done=progress.done,
                total=progress.total,
                failed=progress.failed,
                calls=progress.calls or 0,
                input_tokens=progress.input_tokens or 0,
                output_tokens=progress.output_tokens or 0,
                eta_seconds=progress.eta_seconds,
            )
        ),
    )


class _KnowsGuards:
    """A judge that is not asked about replies which guards gave in a model's place."""

    def __init__(self, judge: Judge, by_guard: Collection[str]) -> None:
        self._judge, self._by_guard = judge, by_guard
        self.name, self.estimate, self.criteria = judge.name, judge.estimate, judge.criteria

    def version(self, criterion: str) -> str:
        """Of the judge itself."""
        return self._judge.version(criterion)

    def wants(self, criterion: str, material: JudgedReply, known: Mapping[str, str]) -> bool:
        """Of a guard's reply, what is known of it; of others, what the judge wants."""
        if material.reply_id in self._by_guard:
            return criterion in _OF_GUARD
        return self._judge.wants(criterion, material, known)

    async def judge(
        self, criterion: str, material: JudgedReply, known: Mapping[str, str]
    ) -> Verdict:
        """The verdict, or what is known anyway."""
        if material.reply_id in self._by_guard:
            return Verdict(_OF_GUARD[criterion], reasoning=_REASONING)
        return await self._judge.judge(criterion, material, known)
