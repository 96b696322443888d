"""What a judge is: anything that gives verdicts on replies, one criterion at a time."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...guard import InputError
from ._material import JudgedReply


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge made of one reply.

    Attributes:
        outcome: one of the criterion's.
        probability: of the positive outcome, in [0, 1], where the judge gives one.
        reasoning: its words, where it gives any.
        input_tokens: of all calls made for it, None where not metered.
        output_tokens: likewise.
        calls: of language models.
    """

    outcome: str
    probability: float | None = None
    reasoning: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int = 0


Known = Mapping[str, str]
"""Criterion → outcome that the same judge gave to the same reply before."""


@runtime_checkable
class Judge(Protocol):
    """Gives verdicts on replies.

    Attributes:
        name: unique in a run; what verdicts are stored under.
        estimate: whether its verdicts are offline estimates and no judgements.
        criteria: names, in the order in which they are asked; verdicts on the earlier
            ones are known when the later ones are asked.
    """

    @property
    def name(self) -> str: ...

    @property
    def estimate(self) -> bool: ...

    @property
    def criteria(self) -> tuple[str, ...]: ...

    def version(self, criterion: str) -> str:
        """Hexadecimal sha256 of everything that decides its verdicts."""
        ...

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Whether there is anything to judge; False leaves the reply without a verdict."""
        ...

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """The verdict. Whatever it raises becomes the row of a failure."""
        ...


Judging = Callable[[JudgedReply], str | Verdict | Awaitable[str | Verdict]]


class FunctionJudge:
    """A judge of one criterion, from a function of a reply to an outcome.

    Args:
        name: of the judge.
        criterion: that it judges.
        function: plain or async.
        version: changes when the function does, so that verdicts can be told apart.
        estimate: see `Judge`.

    Raises:
        InputError: a name is empty.

    Example:
        >>> short = FunctionJudge(
        ...     "words", "length", lambda reply: "long" if len(reply.reply) > 400 else "short"
        ... )
        >>> short.criteria
        ('length',)
    """

    def __init__(
        self,
        name: str,
        criterion: str,
        function: Judging,
        *,
        version: str = "1",
        estimate: bool = False,
    ) -> None:
        if not name or not criterion:
            raise InputError("a judge needs a name and a criterion", where="FunctionJudge")
        self.name, self.estimate = name, estimate
        self._criterion, self._function, self._version = criterion, function, version

    @property
    def criteria(self) -> tuple[str, ...]:
        """The one criterion."""
        return (self._criterion,)

    def version(self, criterion: str) -> str:
        """Of its names and the version given."""
        return sha256_of(self.name, criterion, self._version)

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Always."""
        del criterion, material, known
        return True

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """What the function says."""
        del criterion, known
        found = self._function(material)
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, Verdict) else Verdict(found)


def sha256_of(*parts: str) -> str:
    """One hash of several texts; no two lists of texts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
