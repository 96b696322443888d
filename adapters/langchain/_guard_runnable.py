"""The guard as a runnable, for chains of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from ...guard import Guard
from ...guard.decision import Decision
from ...guard.errors import InputError, KnowgateError
from ._planning import required


def decide_all(
    guard: Guard, questions: Sequence[Any], passages: Sequence[Iterable[object] | None]
) -> Sequence[Decision | Exception]:
    """One decision per question; an error in its place only under `on_error="raise"`."""
    try:
        return guard.decide_batch(questions, passages)
    except KnowgateError:
        # Some question raised: one by one, to raise for that question alone.
        decided: list[Decision | Exception] = []
        for question, found in zip(questions, passages, strict=True):
            try:
                decided.append(guard.decide(question, found))
            except KnowgateError as error:
                decided.append(error)
        return decided


async def adecide_all(
    guard: Guard, questions: Sequence[Any], passages: Sequence[Iterable[object] | None]
) -> Sequence[Decision | Exception]:
    """As `decide_all`, without blocking the event loop."""
    try:
        return await guard.adecide_batch(questions, passages)
    except KnowgateError:
        decided: list[Decision | Exception] = []
        for question, found in zip(questions, passages, strict=True):
            try:
                decided.append(await guard.adecide(question, found))
            except KnowgateError as error:
                decided.append(error)
        return decided


GuardInput = Mapping[str, Any]


class GuardRunnable(Runnable[GuardInput, Decision]):
    """A mapping with `question` and `documents` (or `context`) → the guard's decision.

    `documents` is looked at first; a `context` that is one text counts as one
    passage. Acting on the decision is left to the chain, which should branch on
    `decision.route` and, where `decision.kept` is set, use only those documents.

    Args:
        guard: decides.
        name: of the runs in traces.

    Example:
        >>> from langchain_core.runnables import RunnablePassthrough
        >>> from knowgate.guard import Policy
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
        self._guard = guard
        self.name = name

    def invoke(
        self, input: GuardInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Decision:
        """The decision on one question.

        Raises:
            InputError: a key is missing.
            KnowgateError: only under the guard's `on_error="raise"`.
        """
        return self._call_with_config(self._decide, input, config)

    async def ainvoke(
        self, input: GuardInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Decision:
        """As `invoke`, without blocking the event loop."""
        return await self._acall_with_config(self._adecide, input, config)

    def batch(
        self,
        inputs: Sequence[GuardInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Decision]:
        """The decisions on many questions, scored together."""
        return self._batch_with_config(
            self._decide_batch, list(inputs), config, return_exceptions=return_exceptions
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
            self._adecide_batch, list(inputs), config, return_exceptions=return_exceptions
        )

    def _decide(self, given: GuardInput) -> Decision:
        return self._guard.decide(required(given, "question"), _passages(given))

    async def _adecide(self, given: GuardInput) -> Decision:
        return await self._guard.adecide(required(given, "question"), _passages(given))

    def _decide_batch(self, inputs: list[GuardInput]) -> list[Exception | Decision]:
        readable, results = _read_all(inputs)
        decided = decide_all(self._guard, *_columns(readable))
        results.update(zip(readable, decided, strict=True))
        return [results[index] for index in range(len(inputs))]

    async def _adecide_batch(self, inputs: list[GuardInput]) -> list[Exception | Decision]:
        readable, results = _read_all(inputs)
        decided = await adecide_all(self._guard, *_columns(readable))
        results.update(zip(readable, decided, strict=True))
        return [results[index] for index in range(len(inputs))]


_Asked = tuple[Any, Iterable[object] | None]


def _read_all(
    inputs: list[GuardInput],
) -> tuple[dict[int, _Asked], dict[int, Exception | Decision]]:
    readable: dict[int, _Asked] = {}
    errors: dict[int, Exception | Decision] = {}
    for index, given in enumerate(inputs):
        try:
            readable[index] = (required(given, "question"), _passages(given))
        except InputError as error:
            errors[index] = error
    return readable, errors


def _columns(readable: dict[int, _Asked]) -> tuple[list[Any], list[Iterable[object] | None]]:
    return [asked[0] for asked in readable.values()], [asked[1] for asked in readable.values()]


def _passages(given: GuardInput) -> Iterable[object] | None:
    if "documents" in given:
        documents: Iterable[object] | None = given["documents"]
        return documents
    if "context" not in given:
        raise InputError(
            "the input has neither 'documents' nor 'context'",
            hint="give what was retrieved, or None where nothing was",
        )
    context: Iterable[object] | None = given["context"]
    return context
