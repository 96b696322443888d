"""A method that keeps its replies, so that a guard over it does not ask again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ._cases import Reply, ScenarioCase
from ._methods import Method


class RememberingMethod:
    """Another method, asked once per case; failures are not kept.

    Args:
        method: what answers.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._replies: dict[str, Reply] = {}

    @property
    def name(self) -> str:
        """That of the method itself."""
        return self._method.name

    def remember(self, replies: Iterable[tuple[str, Reply]]) -> None:
        """Take over replies by case id."""
        self._replies.update((name, reply) for name, reply in replies if reply.error is None)

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order."""
        new = [case for case in cases if case.case_id not in self._replies]
        fresh = {}
        if new:
            found = self._method.answer(new)
            fresh = {case.case_id: reply for case, reply in zip(new, found, strict=True)}
            self.remember(fresh.items())
        return [self._replies.get(case.case_id) or fresh[case.case_id] for case in cases]
