"""Judge all replies of a run; interrupted judging resumes without asking again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.files import AnyPath
from ..run import CallLimits, RepliesRun
from ..run.calls import Calls, Progress, RunOptions
from ..run.event_loop import run_interruptibly
from ..run.replies import Judgement
from ..run.table import Table
from .contract import Judge, JudgedReply, Verdict, judged_reply
from .llm_judge import LLMJudge, NoVerdictError

_CHARACTERS_PER_TOKEN = 4
# What is known of a reply that a guard gave in the model's place, and why; no judge is asked by
# these criteria. It is no failure, either.
OF_GUARD = {Judgement.ABSTENTION: "yes", Judgement.FACTUALITY: Judgement.NOT_APPLICABLE}
_SETTLED = (*OF_GUARD, Judgement.FAILURE)
GUARDS_OWN = "the guard's own reply"
_LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of a judge, by its name; it may travel to another process."""

    judge: str
    criterion: str
    material: JudgedReply
    known: Mapping[str, str]

    @property
    def key(self) -> str:
        return f"{self.material.reply_id}/{self.criterion}/{self.judge}"


_Ask = Callable[[_Asked], Awaitable[Verdict]]


def _ask_judges(
    load: Callable[[], Sequence[Judge]], versions: Mapping[tuple[str, str], str]
) -> _Ask:
    """Return what asks judges by name, here or in a worker process.

    Args:
        load: makes the judges.
        versions: that they must have, by name and criterion.

    Raises:
        InputError: a judge is another version.
    """
    judges = {judge.name: judge for judge in load()}
    for (name, criterion), version in versions.items():
        if judges[name].version(criterion) != version:
            what = f"the worker's judge {name!r} is another version"
            hint = "install the same weights and libraries on all machines"
            raise InputError(what, where="--calls engine=ray", hint=hint)
    return lambda asked: judges[asked.judge].judge(asked.criterion, asked.material, asked.known)


def judge_run(
    folder: AnyPath,
    judges: Sequence[Judge],
    options: RunOptions | None = None,
    *,
    load: Callable[[], Sequence[Judge]] | None = None,
) -> Progress:
    """Judge every reply of a run and append the verdicts to `judgements`.

    Verdicts that the run has are not asked for again, so a killed round resumes.
    Rows of failed replies are not judged, and replies that a guard gave in the model's place are
    abstentions without asking; criteria of the user's own are asked about them, too. A judge's
    failure is a row, too, and is asked again on demand alone. Not to be called where an event
    loop runs: use `asyncio.to_thread` there.

    Args:
        folder: of the run of replies.
        judges: at least one, of different names.
        options: limits (a timeout includes reminders), whether the failures of these judges are
            taken out of the run, to ask again, workers that judge, and progress. Criteria that
            depend on earlier ones come in rounds of their own, and `done` and `total` are those
            of the round.
        load: makes the same judges in each worker; picklable. By default the judges
            themselves travel.

    Raises:
        InputError: the run or a judge cannot be used, or it holds verdicts of another
            version of the same judge.
        MissingDependencyError: a judge needs a package that is not there.
    """
    root = Path(folder)
    run = RepliesRun.read(root)
    how = options or RunOptions()
    _reject_other_versions(run, judges, failed_too=not how.retry_failed)
    names = {judge.name for judge in judges}
    with RepliesRun.JUDGEMENTS.open(root) as table:
        if how.retry_failed and table.drop(lambda row: bool(row.error) and row.judge in names):
            run = RepliesRun.read(root)
        judging = _Judging(run, judges)
        make = partial(_ask_judges, load or partial(tuple, judges), _versions(judges))
        work = judging.all_rounds(table, how, make)
        return run_interruptibly(work)


def plan_judging(
    folder: AnyPath, judges: Sequence[Judge], *, retry_failed: bool = False
) -> list[dict[str, Any]]:
    """Count what `judge_run` would ask, without asking.

    Returns:
        Per judge and criterion the verdicts still to be given, at most: what depends on an earlier
        verdict is counted as if it were always asked; calls of language models for them, reminders
        left out; and their input tokens, estimated at four characters per token.

    Raises:
        InputError: as `judge_run`.
        MissingDependencyError: likewise.
    """
    run = RepliesRun.read(folder)
    _reject_other_versions(run, judges, failed_too=not retry_failed)
    there = {name for name, row in run.judgements.items() if row.error is None or not retry_failed}
    judging = _Judging(run, judges)
    found: list[dict[str, Any]] = []
    for judge in judges:
        for criterion in judge.criteria:
            todo = [
                item.material
                for item in judging.asked_of(judge, criterion, at_most=True)
                if item.key not in there
            ]
            calls = tokens = 0
            if isinstance(judge, LLMJudge):
                asked = [one for one in todo if not judging.settles(criterion, one.reply_id)]
                calls = len(asked)
                characters = sum(judge.prompt_characters(criterion, one) for one in asked)
                tokens = -(-characters // _CHARACTERS_PER_TOKEN)
            counts = {"verdicts": len(todo), "calls": calls, "input_tokens": tokens}
            found.append({"judge": judge.name, "criterion": criterion, **counts})
    return found


class _Judging:
    """The verdicts of one round after another, each knowing those before it."""

    def __init__(self, run: RepliesRun, judges: Sequence[Judge]) -> None:
        self._run = run
        self._judges = {judge.name: judge for judge in judges}
        self._ask = _ask_judges(lambda: judges, {})
        self._material = {
            row.reply_id: judged_reply(run, row)
            for row in run.replies.values()
            if row.error is None and row.response is not None
        }
        rows = run.replies.values()
        self._of_guard = {row.reply_id for row in rows if row.route is Route.ABSTAIN}
        self._known: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for one in run.judgements.values():
            if one.outcome is not None:
                self._known[one.judge, one.reply_id][one.criterion] = one.outcome

    def settles(self, criterion: str, reply_id: str) -> bool:
        """Whether a guard gave the reply, which by itself answers the criterion."""
        return reply_id in self._of_guard and criterion in _SETTLED

    async def all_rounds(
        self,
        table: Table[Judgement],
        how: RunOptions,
        make: Callable[[], _Ask],
    ) -> Progress:
        """What became of all rounds; a judge's k-th criterion is asked in the k-th.

        The workers of a pool, which `make` what asks, are the same for all rounds.
        """
        whole = Progress("judging", 0)
        limits, pool = how.limits_or(CallLimits()), how.pool
        async with AsyncExitStack() as opened:
            asked = chain.from_iterable(map(self._round, range(self._rounds)))
            if pool is not None and any(one.key not in table.done for one in asked):
                self._ask = await opened.enter_async_context(pool.open(make, limits))
                limits = pool.limits(limits)
            calls = Calls[_Asked](
                lambda asked: asked.key, self._failed, limits, how.on_progress, stage=whole.stage
            )
            for number in range(self._rounds):
                # Anew: what is asked may depend on the verdicts of the rounds before.
                whole.include(await calls.run(self._round(number), self._judged, table))
        return whole

    @property
    def _rounds(self) -> int:
        return max(len(judge.criteria) for judge in self._judges.values())

    def _round(self, number: int) -> Iterator[_Asked]:
        """What is asked in a round, as far as verdicts are known."""
        for judge in self._judges.values():
            for criterion in judge.criteria[number : number + 1]:
                yield from self.asked_of(judge, criterion)

    def asked_of(self, judge: Judge, criterion: str, *, at_most: bool = False) -> Iterator[_Asked]:
        """The replies that there is something to judge of, with what is known of them."""
        for reply_id, material in self._material.items():
            known = {} if at_most else self._known[judge.name, reply_id]
            if self.settles(criterion, reply_id):
                wanted = criterion in OF_GUARD
            else:
                wanted = judge.wants(criterion, material, known)
            if wanted:
                yield _Asked(judge.name, criterion, material, known)

    async def _judged(self, asked: _Asked) -> dict[str, Any]:
        if self.settles(asked.criterion, asked.material.reply_id):
            verdict = Verdict(OF_GUARD[asked.criterion], reasoning=GUARDS_OWN)
        else:
            verdict = await self._ask(asked)
        if not (isinstance(verdict, Verdict) and isinstance(verdict.outcome, str)):
            raise NoVerdictError("the judge returned something that is no verdict")
        self._known[asked.judge, asked.material.reply_id][asked.criterion] = verdict.outcome
        return self._row(asked, **asdict(verdict))

    def _failed(self, asked: _Asked, error: Exception) -> dict[str, Any]:
        # Messages of others may hold what a user wrote, or a key: only the type is kept.
        own = type(error).__module__.startswith(__package__.partition(".")[0])
        detail = str(error)[:_LONGEST_DETAIL] if own else "the judge's call failed"
        cost = error.cost if isinstance(error, NoVerdictError) else {}
        return self._row(asked, error={"type": type(error).__name__, "detail": detail}, **cost)

    def _row(self, asked: _Asked, **found: Any) -> dict[str, Any]:
        judge = self._judges[asked.judge]
        return Judgement(
            judgement_id=asked.key,
            reply_id=asked.material.reply_id,
            judge=asked.judge,
            criterion=asked.criterion,
            estimate=judge.estimate,
            judge_sha256=judge.version(asked.criterion),
            **found,
        ).model_dump(mode="json")


def _versions(judges: Sequence[Judge]) -> dict[tuple[str, str], str]:
    return {
        (judge.name, criterion): judge.version(criterion)
        for judge in judges
        for criterion in judge.criteria
    }


def _reject_other_versions(run: RepliesRun, judges: Sequence[Judge], *, failed_too: bool) -> None:
    wanted = _versions(judges)
    for judgement in run.judgements.values():
        if judgement.error is not None and not failed_too:
            continue
        version = wanted.get((judgement.judge, judgement.criterion))
        if version is not None and judgement.judge_sha256 != version:
            raise InputError(
                f"another version of {judgement.judge!r} has judged {judgement.criterion!r} here",
                where=str(run.folder / "judgements"),
                hint="give the criterion another name, or move those verdicts away",
            )
