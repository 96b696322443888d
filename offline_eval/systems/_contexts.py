"""Find the contexts of cases, once per retrieval and shared by all systems."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ...guard.errors import InputError, MissingDependencyError
from ..run import (
    CallLimits,
    Calls,
    OnProgress,
    ReplyContext,
    RowError,
    Stored,
    StoredPassage,
    TableSpec,
)
from ._guards import GuardChoice
from ._models import ModelUnderTest
from ._plan import Case
from ._retrieval import Retriever

_Value = TypeVar("_Value")


class FoundContext(Stored):
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

    context_id: str
    context: ReplyContext | None = None
    passages: tuple[StoredPassage, ...] = ()
    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    error: RowError | None = None


_CONTEXTS = TableSpec("contexts", FoundContext, "context_id")


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
    *,
    limits: CallLimits,
    on_progress: OnProgress | None = None,
    retry_failed: bool = False,
) -> dict[str, FoundContext]:
    """Find contexts, by id; those in the folder already are not looked for again.

    Args:
        folder: of the run.
        wanted: all of them.
        retriever: of a retrieval and a knowledge base, called at most once for each pair
            that something is still wanted from.
        limits: of the calls that retrieving may make.
        on_progress: called after each.
        retry_failed: look again for those that could not be found.
    """
    retrievers: dict[tuple[str, str], Retriever] = {}

    async def retrieve(item: Wanted) -> FoundContext:
        found = await retrievers[item.retrieval, item.base].aretrieve(item.case)
        return FoundContext(
            context_id=item.context_id,
            context=found.context,
            passages=found.passages,
            calls=found.calls,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
        )

    def failed(item: Wanted, error: Exception) -> FoundContext:
        return FoundContext(context_id=item.context_id, error=RowError.of(error))

    with _CONTEXTS.open(folder) as table:
        if retry_failed:
            table.drop(lambda found: found.error is not None)
        # Embedding a knowledge base takes its time, which is no case's own.
        for item in wanted:
            pair = (item.retrieval, item.base)
            if item.context_id not in table.done and pair not in retrievers:
                retrievers[pair] = retriever(*pair)
        # A retriever that cannot be made is not the case's fault.
        limits = replace(limits, stop_on=(InputError, MissingDependencyError))
        calls = Calls[Wanted](
            lambda item: item.context_id, failed, limits, on_progress, stage="retrieving"
        )
        calls.run_sync(wanted, retrieve, table)
    return read_contexts(folder)


def read_contexts(folder: Path) -> dict[str, FoundContext]:
    """The contexts that a folder has, by id."""
    return {row.context_id: row for row in _CONTEXTS.read(folder)}


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


@dataclass(frozen=True, slots=True)
class Shown:
    """Passages as they stand in a prompt.

    Attributes:
        context: by reference.
        texts: in the same order; cut ones as cut.
    """

    context: ReplyContext
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """What makes replies, besides the items themselves.

    Attributes:
        models: under test, by name.
        guards: by name, `off` included.
        scorer: name of the guards' scorer; None for the one that each policy names.
        contexts: found contexts by id.
        passages: knowledge base → passage id → text, in the order of the base.
        others: texts that no knowledge base holds, by passage id.
        context_chars: most characters of passages in a prompt; None for no bound.
        paid_by: retrieval → the system whose replies carry what retrieving cost, so that
            the costs of all replies add up to what was spent.
    """

    models: Mapping[str, ModelUnderTest]
    guards: Mapping[str, GuardChoice]
    scorer: str | None = None
    contexts: Mapping[str, FoundContext] = field(default_factory=dict)
    passages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    context_chars: int | None = None
    paid_by: Mapping[str, str] = field(default_factory=dict)

    def shown(self, context: ReplyContext, base: str) -> Shown:
        """The passages of a context that go into a prompt, as far as they fit.

        Raises:
            KeyError: a text is not there.
        """
        texts = self.texts(context, base)
        if self.context_chars is None:
            return Shown(context, tuple(texts.values()))
        fitting = _fitting(texts, self.context_chars)
        if len(fitting) == len(texts):
            return Shown(context, tuple(fitting.values()))
        kept = ReplyContext(kind="passages", passages=tuple(fitting))
        return Shown(kept, tuple(fitting.values()))

    def texts(self, context: ReplyContext, base: str) -> dict[str, str]:
        """Passage id → text of what a context refers to, in its order.

        Raises:
            KeyError: a text is not there.
        """
        held = self.passages.get(base, {})
        if context.kind == "passages":
            return {
                name: held[name] if name in held else self.others[name] for name in context.passages
            }
        if context.kind == "all_but":
            gone = frozenset(context.passages)
            return {name: text for name, text in held.items() if name not in gone}
        return {}


def picked(shown: Shown, indices: Sequence[int]) -> Shown:
    """Some of the passages, in their order."""
    if len(indices) == len(shown.texts):
        return shown
    if not indices:
        return Shown(ReplyContext(kind="none"), ())
    names = shown.context.passages
    return Shown(
        ReplyContext(kind="passages", passages=tuple(names[i] for i in indices)),
        tuple(shown.texts[i] for i in indices),
    )


def _fitting(texts: Mapping[str, str], most: int) -> dict[str, str]:
    """The first passages that fit together; one that is too long by itself is cut at a word."""
    fitting: dict[str, str] = {}
    room = most
    for name, text in texts.items():
        if len(text) > room:
            if not fitting:
                cut = text[:room]
                words = cut.rsplit(maxsplit=1)[0] if not text[room].isspace() else cut
                fitting[name] = words or cut
            break
        fitting[name] = text
        room -= len(text)
    return fitting
