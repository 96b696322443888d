"""A judge from a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from knowgate.offline_eval.judging.contract import JudgedReply, Known, Verdict, sha256_of

Judging = Callable[[JudgedReply], str | Verdict | Awaitable[str | Verdict]]


class FunctionJudge:
    """A judge of one criterion, from a function of a reply to an outcome."""

    def __init__(
        self,
        name: str,
        criterion: str,
        function: Judging,
        *,
        version: str = "1",
        estimate: bool = False,
    ) -> None:
        self.name, self.estimate = name, estimate
        self._criterion, self._function, self._version = criterion, function, version

    @property
    def criteria(self) -> tuple[str, ...]:
        return (self._criterion,)

    def version(self, criterion: str) -> str:
        return sha256_of(self.name, criterion, self._version)

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        del criterion, material, known
        return True

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        del criterion, known
        found = self._function(material)
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, Verdict) else Verdict(found)
