"""Judging by workers of a pool: the same verdicts as in this process."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.judging.contract import Verdict
from knowgate.offline_eval.judging.judges import DetectorJudge
from knowgate.offline_eval.judging.run import judge_run
from knowgate.offline_eval.run import CallLimits, RepliesRun
from knowgate.offline_eval.run.calls import RayPool, RunOptions
from tests.offline_eval.judging.runs import replies_run

REPLIES = {
    str(number): f"I do not know {number}." if number % 3 else "At least 1.6 mm."
    for number in range(9)
}


class Twice(DetectorJudge):
    """Asked twice; the second question depends on the first verdict."""

    name = "twice"
    criteria = ("abstention", "again")  # type: ignore[assignment]

    def wants(self, criterion: str, material: Any, known: Any) -> bool:
        """The second criterion for abstentions only."""
        return criterion == "abstention" or known.get("abstention") == "yes"

    async def judge(self, criterion: str, material: Any, known: Any) -> Verdict:
        """As the detector, and after it what is known by then."""
        if criterion == "abstention":
            return await super().judge(criterion, material, known)
        return Verdict("yes", reasoning=f"{material.reply} {sorted(known.items())}")


class Newer(Twice):
    """Of another version."""

    def version(self, criterion: str) -> str:
        """Another one."""
        return f"newer {super().version(criterion)}"


def newer() -> list[Newer]:
    return [Newer()]


@dataclass(frozen=True)
class PickledPool(RayPool):
    """One worker in this process; whatever goes to it and comes back is pickled."""

    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def open(
        self, factory: Callable[[], Callable[[Any], Awaitable[Any]]], limits: CallLimits
    ) -> AsyncIterator[Callable[[Any], Awaitable[Any]]]:
        """Make the call, and yield it."""
        call = pickle.loads(pickle.dumps(factory))()

        async def ask(item: Any) -> Any:
            self.asked.append(item.criterion)
            return pickle.loads(pickle.dumps(await call(pickle.loads(pickle.dumps(item)))))

        yield ask


def verdicts(folder: Path) -> dict[str, Any]:
    rows = RepliesRun.read(folder).judgements.values()
    return {row.judgement_id: row.model_dump(mode="json") for row in rows}


@pytest.mark.parametrize("load", [None, partial(list, [Twice()])])
def test_workers_give_the_same_verdicts_and_a_finished_round_asks_none(
    tmp_path: Path, load: Any
) -> None:
    here, there = replies_run(tmp_path / "1", REPLIES), replies_run(tmp_path / "2", REPLIES)
    pool = PickledPool()

    judge_run(here, [Twice()])
    judge_run(there, [Twice()], RunOptions(pool=pool), load=load)
    again = judge_run(there, [Twice()], RunOptions(pool=pool), load=load)

    assert verdicts(there) == verdicts(here)
    assert pool.asked == 9 * ["abstention"] + 6 * ["again"]
    assert (again.stored, again.already) == (0, 15)


def test_a_worker_with_another_version_of_the_judge_is_refused(tmp_path: Path) -> None:
    run = replies_run(tmp_path / "run", REPLIES)

    with pytest.raises(InputError, match="is another version"):
        judge_run(run, [Twice()], RunOptions(pool=PickledPool()), load=newer)
    assert verdicts(run) == {}
