"""What a conflict detector can tell beyond yes and no: who says what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

ConflictKind = Literal["none", "memory", "passages", "both"]
ConflictBetween = Literal["memory", "passages", "both"]


@dataclass(frozen=True, slots=True)
class View:
    """One answer to a question, and who gives it.

    Attributes:
        answer: in the words of the first that gives it.
        passages: indices of the passages that support it, rising; empty where only
            the model's memory does.
        from_memory: whether the closed-book answer says the same.
    """

    answer: str
    passages: tuple[int, ...] = ()
    from_memory: bool = False


@dataclass(frozen=True, slots=True)
class ConflictFinding:
    """Which answers there are to one question, and whether they contradict each other.

    Attributes:
        conflict: whether any two answers differ in meaning.
        kind: `memory` where the passages answer and none of them says what the
            closed-book answer says, `passages` where they differ among themselves,
            `both`, or `none`.
        views: the answers, no two of the same meaning; those of passages first, in
            the order of their first passage.
    """

    conflict: bool
    kind: ConflictKind
    views: tuple[View, ...] = ()

    @classmethod
    def of(cls, views: Sequence[View]) -> ConflictFinding:
        """The finding that follows from `views`.

        Example:
            >>> ConflictFinding.of([View("Paris", (0,)), View("Lyon", (), True)]).kind
            'memory'
        """
        supported = [view for view in views if view.passages]
        alone = any(view.from_memory and not view.passages for view in views)
        memory = bool(supported) and alone
        passages = len(supported) > 1
        kind: ConflictKind = "none"
        if memory or passages:
            kind = "both" if memory and passages else "memory" if memory else "passages"
        return cls(kind != "none", kind, tuple(views))

    def counts(self, between: ConflictBetween) -> bool:
        """Whether there is a conflict of the kind that `between` asks for."""
        return self.conflict and (between == "both" or self.kind in (between, "both"))

    def at(self, positions: Sequence[int]) -> ConflictFinding:
        """The same finding with passage i called `positions[i]`."""
        views = tuple(
            View(view.answer, tuple(positions[i] for i in view.passages), view.from_memory)
            for view in self.views
        )
        return ConflictFinding(self.conflict, self.kind, views)


@runtime_checkable
class ConflictExaminer(Protocol):
    """A conflict detector that also tells which answers there are, and whose they are.

    The guard asks `examine` of a detector that has it, and `detect` otherwise. One that
    does not compare passages with each other says so by `compares_passages = False`.
    """

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """Whether there is any conflict."""
        ...

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`, without blocking the event loop."""
        ...

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """All answers there are; an empty closed-book answer stands for none."""
        ...

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`, without blocking the event loop."""
        ...
