"""The guard as a runnable, for chains of one's own, and as a node of a LangGraph graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from ...guard.decision import Decision, Reason, Route
from ...guard.errors import InputError, KnowgateError
from ...guard.routing import at_once
from ._documents import decided, kept_documents, read_found
from ._planning import required
from ._replies import Replies

if TYPE_CHECKING:
    from ...guard import Guard

# A question as given, and what was retrieved for it.
Asked = tuple[Any, Iterable[object] | None]


async def decide_all(
    guard: Guard, asked: Sequence[Asked], *, is_async: bool
) -> list[Decision | KnowgateError]:
    """One decision per question; an error in its place only under `on_error="raise"`."""
    if len(asked) > 1:
        columns = [question for question, _ in asked], [passages for _, passages in asked]
        return await guard.adecide_each(*columns) if is_async else guard.decide_each(*columns)
    try:
        return [await decided(guard, *one, is_async=is_async) for one in asked]
    except KnowgateError as error:
        return [error]


GuardInput = Mapping[str, Any]


class GuardRunnable(RunnableLambda[GuardInput, Decision]):
    """A mapping with `question` and `documents` (or `context`) → the guard's decision.

    `documents` is looked at first; a `context` that is one text counts as one
    passage. Acting on the decision is left to the chain, which should branch on
    `decision.route` and, where `decision.kept` is set, use only those documents.

    Args:
        guard: decides.
        name: of the runs in traces.

    Example:
        >>> from langchain_core.runnables import RunnablePassthrough
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> scorer = FakeScorer({"nine": 0.9})
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> guard = Guard(policy, scorer=scorer, metrics=False)
        >>> chain = RunnablePassthrough.assign(guard=GuardRunnable(guard))
        >>> found = chain.invoke({"question": "When?", "context": "We open at nine."})
        >>> found["guard"].route.value
        'follow_context'
    """

    def __init__(self, guard: Guard, *, name: str = "guard") -> None:
        # What else a chain was called with is for its other steps.
        def decide(given: GuardInput, **_: Any) -> Decision:
            return guard.decide(*_asked(given))

        async def adecide(given: GuardInput, **_: Any) -> Decision:
            return await guard.adecide(*_asked(given))

        super().__init__(decide, adecide, name=name)
        self._guard = guard

    __hash__ = object.__hash__  # type: ignore[assignment]

    def batch(
        self,
        inputs: Sequence[GuardInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Decision]:
        """The decisions on many questions, scored together."""

        def decide(given: list[GuardInput]) -> list[Exception | Decision]:
            return at_once(self._decide(given, is_async=False))

        return self._batch_with_config(
            decide, list(inputs), config, return_exceptions=return_exceptions
        )

    async def abatch(
        self,
        inputs: Sequence[GuardInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Decision]:
        """As `batch`, without blocking the event loop."""
        return await self._abatch_with_config(
            partial(self._decide, is_async=True),
            list(inputs),
            config,
            return_exceptions=return_exceptions,
        )

    async def _decide(
        self, inputs: list[GuardInput], *, is_async: bool
    ) -> list[Exception | Decision]:
        read: list[Asked | InputError] = []
        for given in inputs:
            try:
                read.append(_asked(given))
            except InputError as error:
                read.append(error)
        readable = [one for one in read if not isinstance(one, InputError)]
        found = iter(await decide_all(self._guard, readable, is_async=is_async))
        return [one if isinstance(one, InputError) else next(found) for one in read]


def _asked(given: GuardInput) -> Asked:
    question = required(given, "question")
    for key in ("documents", "context"):
        if key in given:
            return question, given[key]
    what = "the input has neither 'documents' nor 'context'"
    raise InputError(what, hint="give what was retrieved, or None where nothing was")


# -- graphs -------------------------------------------------------------------------------------


def guard_node(
    guard: Guard,
    *,
    question: str = "question",
    documents: str = "documents",
    replies: str | Mapping[Reason | str, str] | Replies | None = None,
) -> Runnable[Any, dict[str, Any]]:
    """Make a node that judges what was retrieved and says in the state where to go.

    The node writes four keys, of which the graph's state has those that it declares:

    - `documents` (the key given here): the passages that bear on the question, with their
      scores; none unless they suffice.
    - `route`: `follow_context`, `answer` or `abstain`, for conditional edges. It is `abstain`
      wherever `reply` is what the user is to get.
    - `reply`: the reply for an abstention, or the one that shows all views of sources in
      conflict; None otherwise.
    - `decision`: the decision as a JSON object, which every checkpointer can store.

    In shadow mode the route is `follow_context` and the documents stay as they are.

    Args:
        guard: decides.
        question: key of the question in the state, which is a mapping or an object.
        documents: key of what was retrieved.
        replies: as for `GuardedRAG`.

    Raises:
        InputError: by the node, where the state lacks a key.
        KnowgateError: by the node, only under the guard's `on_error="raise"`.

    Example:
        >>> from knowgate.guard import Guard, Policy
        >>> from knowgate.guard.testing import FakeScorer
        >>> scorer = FakeScorer({"nine": 0.9})
        >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
        >>> node = guard_node(Guard(policy, scorer=scorer, metrics=False), replies="Sorry.")
        >>> state = node.invoke({"question": "When?", "documents": []})
        >>> state["route"], state["reply"]
        ('abstain', 'Sorry.')
    """
    said = Replies.of(replies, guard)

    async def update(state: Any, *, is_async: bool) -> dict[str, Any]:
        asked = _value(state, question)
        found = await read_found(guard, _value(state, documents), is_async=is_async)
        decision = await decided(guard, asked, found, is_async=is_async)
        written: dict[str, Any] = {"decision": decision.model_dump(mode="json")}
        if not decision.acts:
            return {**written, "route": Route.FOLLOW_CONTEXT.value, "reply": None}
        reply = said.standing(decision, found)
        route = decision.route if reply is None else Route.ABSTAIN
        kept = kept_documents(decision, found)
        return {**written, documents: kept, "route": route.value, "reply": reply}

    def node(state: Any) -> dict[str, Any]:
        return at_once(update(state, is_async=False))

    return RunnableLambda(node, partial(update, is_async=True), name="guard")


def _value(state: Any, key: str) -> Any:
    missing = object()
    value = state.get(key, missing) if isinstance(state, Mapping) else getattr(state, key, missing)
    if value is missing:
        raise InputError(f"the state has no {key!r}", hint="name the keys: guard_node(guard, …)")
    return value
