"""The guard as a node of a LangGraph graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableLambda

from ...guard.decision import Decision, Reason, Route
from ...guard.errors import InputError
from ._replies import Replies
from ._retrieval_filter import aread_found, kept_documents, read_found

if TYPE_CHECKING:
    from ...guard import Guard


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

    def update(decision: Decision, found: Sequence[Any]) -> dict[str, Any]:
        written: dict[str, Any] = {"decision": decision.model_dump(mode="json")}
        if not decision.acts:
            return {**written, "route": Route.FOLLOW_CONTEXT.value, "reply": None}
        reply = said.action(decision, found).reply
        route = decision.route if reply is None else Route.ABSTAIN
        kept = kept_documents(decision, found)
        return {**written, documents: kept, "route": route.value, "reply": reply}

    def node(state: Any) -> dict[str, Any]:
        asked, found = _value(state, question), read_found(guard, _value(state, documents))
        return update(guard.decide(asked, found), found)

    async def anode(state: Any) -> dict[str, Any]:
        asked, found = _value(state, question), await aread_found(guard, _value(state, documents))
        return update(await guard.adecide(asked, found), found)

    return RunnableLambda(node, anode, name="guard")


def _value(state: Any, key: str) -> Any:
    missing = object()
    value = state.get(key, missing) if isinstance(state, Mapping) else getattr(state, key, missing)
    if value is missing:
        raise InputError(f"the state has no {key!r}", hint="name the keys: guard_node(guard, …)")
    return value
