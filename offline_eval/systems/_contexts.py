"""What every case is given to read: found once per retrieval, shared by all systems."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from ...guard import InputError, KnowgateError, MissingDependencyError
from ..ookb import Case, RowError
from ..replies import ReplyContext, StoredPassage
from ..retrieval import Retriever
from ..runner import CallProgress, open_store, run_calls_sync, stored_rows
from ._settings import CallLimits

_STEM = "contexts"
_Value = TypeVar("_Value")


class FoundContext(BaseModel):
    """A line of `contexts.jsonl`: what one retrieval found for one case.

    Attributes:
        context_id: `<retrieval>/<case id>`.
        context: by reference; None exactly where `error` is set.
        passages: texts that the knowledge base does not hold.
        calls: of language models.
        input_tokens: of those, None where not metered.
        output_tokens: likewise.
        error: why nothing could be retrieved.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    context_id: str
    context: ReplyContext | None = None
    passages: tuple[StoredPassage, ...] = ()
    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    error: RowError | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """One context to be found."""

    retrieval: str
    base: str
    case: Case

    @property
    def context_id(self) -> str:
        """Unique in the run."""
        return context_id(self.retrieval, self.case.case_id)


def context_id(retrieval: str, case_id: str) -> str:
    """Key of the context of a case."""
    return f"{retrieval}/{case_id}"


def find_contexts(
    folder: Path,
    wanted: Sequence[Wanted],
    retriever: Callable[[str, str], Retriever],
    limits: CallLimits,
    on_progress: Callable[[CallProgress], object] | None = None,
) -> dict[str, FoundContext]:
    """Contexts by id; those in the folder already are not looked for again.

    Args:
        folder: of the run.
        wanted: all of them.
        retriever: of a retrieval and a knowledge base, called at most once for each pair
            that something is still wanted from.
        limits: of the calls that retrieving may make.
        on_progress: told after each.
    """
    retrievers: dict[tuple[str, str], Retriever] = {}

    async def retrieve(item: Wanted) -> Mapping[str, Any]:
        found = await retrievers[item.retrieval, item.base].aretrieve(item.case)
        return FoundContext(
            context_id=item.context_id,
            context=found.context,
            passages=found.passages,
            calls=found.calls,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
        ).model_dump(mode="json")

    def failed(item: Wanted, error: Exception) -> Mapping[str, Any]:
        row = FoundContext(context_id=item.context_id, error=row_error(error))
        return row.model_dump(mode="json")

    with open_store(folder / _STEM, key="context_id", kind=limits.store) as store:
        # Embedding a knowledge base takes its time, which is no case's own.
        for item in wanted:
            pair = (item.retrieval, item.base)
            if item.context_id not in store.done and pair not in retrievers:
                retrievers[pair] = retriever(*pair)
        run_calls_sync(
            wanted,
            retrieve,
            store,
            key=lambda item: item.context_id,
            failed=failed,
            max_concurrency=limits.concurrency,
            rate=limits.rate,
            timeout=limits.timeout,
            max_attempts=limits.max_attempts,
            # A retriever that cannot be made is no fault of the case.
            stop_on=(InputError, MissingDependencyError),
            on_progress=on_progress,
        )
    return read_contexts(folder)


def read_contexts(folder: Path) -> dict[str, FoundContext]:
    """The contexts that a folder has, by id."""
    rows = (FoundContext.model_validate(row) for _, row in stored_rows(folder / _STEM))
    return {row.context_id: row for row in rows}


def row_error(error: Exception) -> RowError:
    """An exception as rows have it.

    A foreign error's message may quote the question: only its type is kept.
    """
    detail = str(error) if isinstance(error, KnowgateError) else "raised by what was called"
    return RowError(type=type(error).__name__, detail=detail)


class Shared:
    """Values that several replies need and that are made once; a failure is not kept."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[Any]] = {}

    async def get(self, key: object, make: Callable[[], Awaitable[_Value]]) -> tuple[_Value, bool]:
        """The value under `key`, and whether it was made for this caller.

        Raises:
            Exception: whatever making it raised; the next caller tries again.
        """
        task = self._tasks.get(key)
        mine = task is None
        if task is None:
            task = asyncio.ensure_future(_awaited(make))
            self._tasks[key] = task
        try:
            # Given up by one caller at its deadline, it still serves the others.
            return await asyncio.shield(task), mine
        except BaseException:
            if task.done() and self._tasks.get(key) is task:
                del self._tasks[key]
            raise


async def _awaited(make: Callable[[], Awaitable[_Value]]) -> _Value:
    return await make()
