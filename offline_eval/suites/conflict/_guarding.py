"""A guard before the model in PK: it may take the passage away, and then nothing is ignored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ....guard.decision import Decision
from ....guard.errors import KnowgateError
from ...systems import choose_reply
from ._plan import Planned
from ._rows import REMOVES, ConflictRow, row_id


class Decider(Protocol):
    """What decides like `knowgate.guard.Guard`."""

    def decide(self, question: str, passages: Sequence[str]) -> Decision:
        """Whether the passages let the question be answered."""
        ...


def guard_rows(
    name: str,
    guard: Decider,
    plan: Sequence[Planned],
    behind: Mapping[str, Mapping[str, Any]],
    done: Collection[str],
) -> list[dict[str, Any]]:
    """A row per planned question: the model's own, with the passage or without it.

    Where the guard follows the context, the model's reply with the passage stands; where it
    answers from memory, the reply without it; where it abstains, none, which is not right.

    Args:
        name: the system.
        guard: decides on question and passage.
        plan: of PK.
        behind: the model's rows, by id.
        done: ids that are there already.
    """
    rows = []
    for one in plan:
        identifier = row_id(name, one.task, one.evidence, one.instance.key)
        if identifier in done or one.evidence is None:
            continue
        own: dict[str, Any] = {
            "row_id": identifier, "system": name, "evidence": one.evidence.value
        }  # fmt: skip
        kept = behind[one.row_id]
        try:
            decision = guard.decide(
                one.instance.question, [one.instance.evidence[one.evidence].passage]
            )
        except KnowgateError as error:
            note = {"type": type(error).__name__, "detail": str(error)}
            row = {**kept, **own, "response": None, "letters": None, "correct": None}
            row |= {"likelihoods": None, "error": note}
        else:
            own |= {"route": decision.route.value, "reason": str(decision.reason)}
            abstained = {"response": None, "letters": None, "correct": False}
            abstained |= {"likelihoods": None, "error": None}
            chosen = choose_reply(
                decision,
                with_context=kept,
                closed_book=behind[row_id(REMOVES, one.task, None, one.instance.key)],
                abstention={**kept, **abstained},
            )
            row = {**chosen, **own}
        rows.append(ConflictRow.model_validate(row).model_dump(mode="json"))
    return rows
