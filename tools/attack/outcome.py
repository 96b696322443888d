"""What every attack reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack ended.

    Attributes:
        attack: what was tried, as a phrase.
        tried: how often.
        through: how often it succeeded.
        wanted: the largest number of successes that is accepted.
        cases: names of those that succeeded, where they have names.
    """

    attack: str
    tried: int
    through: int
    wanted: int = 0
    cases: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Whether no more than the accepted number got through, of at least one try."""
        return self.tried > 0 and self.through <= self.wanted


# A folder to work in, and whether to make all tries (or a cheap selection, as tests do).
Attack = Callable[[Path, bool], Iterator[Outcome]]


def tally(
    attack: str, cases: Iterable[tuple[str, Case]], succeeds: Callable[[Case], bool]
) -> Outcome:
    """Count the named cases that succeed."""
    tried, through = 0, []
    for name, case in cases:
        tried += 1
        if succeeds(case):
            through.append(name)
    return Outcome(attack, tried, len(through), cases=tuple(through))
