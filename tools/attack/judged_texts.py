"""Pass off as passages what is none, and change documents after they were judged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate import Guard, GuardedRAG, Policy
from knowgate.guard import InputLimits, Reason
from knowgate.guard.testing import FakeScorer

from .outcome import Outcome, tally


class Changing(Document):
    """A document whose text is another one whenever it is read."""

    first: str = "nine"
    reads: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name != "page_content":
            return super().__getattribute__(name)
        self.reads += 1
        return self.first if self.reads == 1 else "injected"


# What a retriever returns by mistake.
_NO_PASSAGES: dict[str, Any] = {
    "None in a list": [None],
    "a list in a list": [["nine"]],
    "documents with scores": [(Document("nine"), 0.9)],
    "a mapping without text": [{"score": 0.9}],
    "a number": 7,
    "an object without text": [object()],
}
_TOO_LARGE: dict[str, Any] = {
    "endless texts": lambda: itertools.repeat("nine"),
    "endless blanks": lambda: itertools.repeat(""),
    "a passage of three megabytes": lambda: ["nine " * 600_000],
    "a million passages": lambda: ["nine"] * 1_000_000,
}


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """All attacks of this module."""
    guard = guard_on("nine")
    yield tally(
        "things that are no passages: taken for nothing retrieved",
        _NO_PASSAGES.items(),
        lambda found: guard.decide("When?", found).reason is not Reason.INVALID_PASSAGES,
    )
    yield tally(
        "more than the limits allow: judged",
        _TOO_LARGE.items(),
        lambda make: guard.decide("When?", make()).reason is not Reason.INPUT_TOO_LARGE,
    )
    yield tally(
        "documents that change: shown with another text than judged",
        _chains(guard).items(),
        _shows_injected,
    )


def guard_on(fragment: str) -> Guard:
    """A guard to which passages with `fragment` suffice."""
    scorer = FakeScorer({fragment: 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    return Guard(policy, scorer=scorer, metrics=False)


def _chains(guard: Guard) -> dict[str, tuple[GuardedRAG, list[str]]]:
    kept = [Document("nine")]

    def injecting(pairs: Any) -> Any:
        scores = FakeScorer({"nine": 0.9}).score_pairs(pairs)
        kept[0].page_content = "injected"
        return scores

    scorer = FakeScorer()
    scorer.score_pairs = injecting  # type: ignore[method-assign]
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    over_kept = Guard(policy, scorer=scorer, metrics=False)
    found: dict[str, tuple[GuardedRAG, list[str]]] = {}
    cases: list[tuple[str, Guard, list[Any]]] = [
        ("whenever it is read", guard, [Changing(page_content="")]),
        ("after it was judged", over_kept, kept),
    ]
    for name, its_guard, documents in cases:
        shown: list[str] = []
        chain = GuardedRAG(
            guard=its_guard,
            retriever=RunnableLambda(partial(_always, documents)),
            with_context=RunnableLambda(partial(_record, shown)),
        )
        found[name] = chain, shown
    return found


def _always(documents: list[Any], question: str) -> list[Any]:
    return documents


def _record(shown: list[str], given: dict[str, Any]) -> str:
    shown.extend([given["context"], *(one.page_content for one in given["documents"])])
    return "said"


def _shows_injected(given: tuple[GuardedRAG, list[str]]) -> bool:
    chain, shown = given
    answer = chain.invoke("When?")
    texts = [*shown, *InputLimits().read_passages(list(answer.documents))[1]]
    return set(texts) != {"nine"}
