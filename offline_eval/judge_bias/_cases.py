"""Cases whose right verdict is known by construction, with and against a judge's belief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..memory_conflict import Believed


@dataclass(frozen=True, slots=True)
class BiasCase:
    """A question, a context, and a reply that follows the context or does not.

    Attributes:
        case_id: unique.
        key: of the question.
        question: that was asked.
        context: by which the reply is to be judged.
        reply: that is judged.
        label: whether it is right by the context.
        believed: whether it is what the judge believes.
    """

    case_id: str
    key: str
    question: str
    context: str
    reply: str
    label: bool
    believed: bool

    @property
    def conflicting(self) -> bool:
        """Whether a judge that goes by its belief judges wrongly."""
        return self.label != self.believed


def bias_cases(believed: Sequence[Believed]) -> list[BiasCase]:
    """Four cases per question: two contexts, each with both answers as the reply.

    Over the context that contradicts the judge's belief, the reply that follows it is
    contextually right and, to the judge, factually wrong; the other one is the opposite. Over
    the context that agrees, belief and label are one: the controls. Questions without a passage
    for either answer are left out.
    """
    found = []
    for one in believed:
        sides = (("own", one.own), ("rival", one.rival))
        if not all(answer.passages for _, answer in sides):
            continue
        for context, source in sides:
            for reply, answer in sides:
                found.append(
                    BiasCase(
                        case_id=f"{one.item.key}/{context}_context/{reply}_reply",
                        key=one.item.key,
                        question=one.item.question,
                        context=source.passages[0],
                        reply=answer.text,
                        label=context == reply,
                        believed=reply == "own",
                    )
                )
    return found
