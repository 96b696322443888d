"""Make one reply: decide, ask the model, and return the row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import HumanMessage

from ...adapters.langchain import Replies
from ...guard import Guard
from ...guard.decision import Decision, Route
from ...guard.errors import InputError, LanguageModelError
from ...guard.text import clean_text
from ..judging.contract import sha256_of
from ..run import RowError
from ..run.replies import ReplyContext, ReplyRow
from .guards import build_guard, scorer_loader
from .models import (
    CallMeter,
    ask,
    context_input,
    counted_model,
    decide,
    repeats_itself,
)
from .plan import Asked, Systems, split_citation
from .retrieval import Retrieved

_Value = TypeVar("_Value")


def context_id(retrieval: str, case_id: str) -> str:
    """Key of the context of a case."""
    return f"{retrieval}/{case_id}"


class Shown(NamedTuple):
    """Passages as they stand in a prompt: by reference, and their texts by id; cut ones as cut."""

    context: ReplyContext
    texts: Mapping[str, str] = MappingProxyType({})

    @property
    def passages(self) -> tuple[str, ...]:
        """The texts alone."""
        return tuple(self.texts.values())


def picked(shown: Shown, indices: Sequence[int]) -> Shown:
    """Some of the passages, in their order."""
    if len(indices) == len(shown.texts):
        return shown
    if not indices:
        return _CLOSED_BOOK
    names = list(shown.texts)
    texts = {names[at]: shown.texts[names[at]] for at in indices}
    return Shown(ReplyContext(kind="passages", passages=tuple(texts)), texts)


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


_CLOSED_BOOK = Shown(ReplyContext(kind="none"))


class Replier:
    """Makes the replies of a run; serves many at once on one event loop.

    A decision that several systems share (they differ by prompt alone) is taken once. A
    model that decodes greedily is asked once where a guard lets the very prompt pass that
    the system without a guard gets: the row then says `reused`, and counts no call.

    Args:
        systems: that reply.
        contexts: that were found, by id.
        passages: knowledge base → passage id → text, in the order of the base; texts that no
            knowledge base holds are below the empty name.
        characters: the most characters of passages in a prompt; None for no bound.

    Attributes:
        systems: with their models.
        contexts, passages, characters: as given.
    """

    def __init__(
        self,
        systems: Systems,
        contexts: Mapping[str, Retrieved] = MappingProxyType({}),
        passages: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        characters: int | None = None,
    ) -> None:
        self.systems = systems.loaded()
        self.contexts, self.passages, self.characters = contexts, passages, characters
        # The systems whose replies carry what retrieving cost, so that all costs add up.
        self._paid_by = {live.retrieval: live.system_id for live in reversed(systems.live)}
        self._scorer_of = scorer_loader(systems.scorer)
        self._guards: dict[tuple[str, str], Guard] = {}
        # Decisions and replies that several systems share; the keys of both differ in length.
        self._shared: dict[object, asyncio.Future[Any]] = {}
        # By reply, over all attempts: what failed was spent as well.
        self._meters: dict[str, CallMeter] = {}
        self._replies = Replies()

    def shown(self, context: ReplyContext, base: str) -> Shown:
        """The passages of a context that go into a prompt, as far as they fit.

        Raises:
            KeyError: a text is not there.
        """
        texts = self._texts(context, base)
        fitting = texts if self.characters is None else _fitting(texts, self.characters)
        if len(fitting) < len(texts):
            context = ReplyContext(kind="passages", passages=tuple(fitting))
        return Shown(context, fitting)

    def _texts(self, context: ReplyContext, base: str) -> dict[str, str]:
        """Passage id → text of what a context refers to, in its order."""
        held, others = self.passages.get(base, {}), self.passages.get("", {})
        return {name: held[name] if name in held else others[name] for name in context.names(held)}

    async def answer(self, items: Sequence[Asked], system: object) -> list[ReplyRow]:
        """Ask the systems, or take the replies of the logs; also in the worker of a Ray cluster."""
        return [await self(one) for one in items]

    async def __call__(self, item: Asked) -> ReplyRow:
        """The row of one item.

        Raises:
            Exception: the reply could not be had; see `failed`.
        """
        meter = self._meter(item)
        row = await (self._ask if item.logged is None else self._replay)(item, meter)
        del self._meters[item.reply_id]
        return row

    def failed(self, item: Asked, error: Exception) -> ReplyRow:
        """The row of an item without a reply: the error, and its cost where known."""
        meter, reason = self._meters.pop(item.reply_id, None), RowError.of(error)
        if item.logged is not None:
            return _row(item, Shown(item.context), meter=meter, error=reason)
        name = context_id(item.system.retrieval, item.case.case_id)
        found = self.contexts.get(name) or Retrieved()
        shown = None if found.context is None else self.shown(found.context, item.base)
        return _row(item, shown, meter=meter, error=found.error or reason)

    async def _once(
        self, key: object, make: Callable[[], Awaitable[_Value]]
    ) -> tuple[_Value, bool]:
        """Return a value that several replies need, and whether it was made for this one.

        Raises:
            Exception: whatever making it raised; the next caller tries again.
        """
        mine = key not in self._shared
        if mine:
            self._shared[key] = asyncio.ensure_future(make())
        task = self._shared[key]
        try:
            # Given up by one caller at its deadline, it still serves the others.
            return await asyncio.shield(task), mine
        except BaseException:
            if task.done() and self._shared.get(key) is task:
                del self._shared[key]
            raise

    def _meter(self, item: Asked) -> CallMeter:
        if item.reply_id in self._meters:
            return self._meters[item.reply_id]
        meter = self._meters[item.reply_id] = CallMeter()
        retrieval = item.system.retrieval
        pays = self._paid_by.get(retrieval) == item.system.system_id
        if pays and item.logged is None:
            found = self.contexts[context_id(retrieval, item.case.case_id)]
            meter.add(found.calls, found.input_tokens or 0, found.output_tokens or 0)
            meter.unmetered += None in (found.input_tokens, found.output_tokens)
        return meter

    # -- a system that is asked now -----------------------------------------------

    async def _ask(self, item: Asked, meter: CallMeter) -> ReplyRow:
        started, record = time.perf_counter(), item.system
        found = self.contexts[context_id(record.retrieval, item.case.case_id)]
        if found.context is None:
            raise LanguageModelError("nothing could be retrieved")
        shown = self.shown(found.context, item.base)
        decision: Decision | None = None
        if item.system.guarded:
            decision, standing = await self._decided(item, shown, meter)
            if standing is not None:
                return _row(item, shown, standing, decision, meter, started)
            if decision.route is Route.ANSWER:
                shown = _CLOSED_BOOK
            elif shown.context.kind != "all_but":  # of that the guard saw the nearest only
                shown = picked(shown, decision.kept)
        text, reused = await self._answer(item, shown, meter)
        return _row(item, shown, text, decision, meter, started, reused=reused)

    async def _answer(self, item: Asked, shown: Shown, meter: CallMeter) -> tuple[str, bool]:
        name, question = item.system.model, item.case.question
        model, prompt = self.systems.model(name), self.systems.prompts.get(item.system.prompt)
        if prompt is None:
            return await ask(model, context_input(question, shown.texts), meter), False
        text = prompt.filled(question, shown.passages)
        messages = [HumanMessage(text)]
        if not repeats_itself(model):
            return await ask(model, messages, meter), False
        key = name, sha256_of(text)
        said, mine = await self._once(key, lambda: ask(model, messages, meter))
        return said, not mine

    # -- the guard ----------------------------------------------------------------

    async def _decided(
        self, item: Asked, shown: Shown, meter: CallMeter
    ) -> tuple[Decision, str | None]:
        """The decision on what a guard gets to see, and the reply that stands by it, if any.

        A decision is shared where it is the same one.
        """
        name, model = item.system.guard, item.system.model
        guard = self.guard(name, model)
        texts = self._seen_by_guard(item, shown)
        asks = guard.policy.needs_estimator or guard.policy.check_conflict
        key = (name, model if asks else "", sha256_of(item.case.question, *texts))
        make = partial(decide, guard, item.case.question, texts, meter)
        decision, _ = await self._once(key, make)
        return decision, self._replies.standing(decision, shown.passages)

    def _seen_by_guard(self, item: Asked, shown: Shown) -> tuple[str, ...]:
        if shown.context.kind != "all_but":
            return shown.passages
        # All of a long context would cost a score per passage of the knowledge base.
        nearest = self.contexts[context_id("basic_rag", item.case.case_id)]
        if nearest.context is None:
            raise LanguageModelError("the passages nearest to the question could not be found")
        return tuple(self._texts(nearest.context, item.base).values())

    def guard(self, name: str, model: str) -> Guard:
        """The guard of a name, other than `off`, in front of a model; made once.

        Raises:
            InputError: it cannot be made.
        """
        if (name, model) not in self._guards:
            known = self.systems.models.get(model)
            asked = None if known is None else partial(counted_model, model, known)
            choice = self.systems.guards[name]
            self._guards[name, model] = build_guard(choice, self._scorer_of, asked)
        return self._guards[name, model]

    # -- a logged reply -----------------------------------------------------------

    async def _replay(self, item: Asked, meter: CallMeter) -> ReplyRow:
        assert item.logged is not None
        if not item.system.guarded:
            return item.row(item.logged)
        if item.context.kind == "unknown":
            raise InputError("the log does not say what the model was given to read")
        try:
            texts = self._texts(item.context, item.base)
        except KeyError:
            raise InputError("the log does not hold the texts of its context") from None
        shown = Shown(item.context, texts)
        decision, standing = await self._decided(item, shown, meter)
        if standing is not None:
            return _row(item, shown, standing, decision, meter)
        replies = {Route.FOLLOW_CONTEXT: item.logged, Route.ANSWER: item.closed_book}
        reply = replies.get(decision.route)
        if reply is None:
            raise InputError(
                "the guard lets the model answer from memory, and the logs hold no reply "
                "without context to this question"
            )
        return item.row(reply, decision)


def _row(
    item: Asked,
    shown: Shown | None = None,
    reply: str | None = None,
    decision: Decision | None = None,
    meter: CallMeter | None = None,
    started: float | None = None,
    *,
    reused: bool = False,
    error: RowError | None = None,
) -> ReplyRow:
    response, citation = (None, None) if reply is None else split_citation(clean_text(reply))
    read, written = (None, None) if meter is None else meter.tokens()
    return ReplyRow(
        reply_id=item.reply_id,
        case_id=item.case.case_id,
        system_id=item.system.system_id,
        context=None if shown is None else shown.context,
        response=None if response is None else response.strip(),
        citation=citation,
        input_tokens=read,
        output_tokens=written,
        calls=None if meter is None else meter.calls,
        seconds=None if started is None else round(time.perf_counter() - started, 4),
        reused=reused,
        error=error,
        **ReplyRow.of_guard(decision),
    )
