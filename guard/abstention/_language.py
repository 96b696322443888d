"""What the patterns of a language are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Strength(IntEnum):
    """How sure a clause's wording is that no answer is given.

    Attributes:
        NONE: it refuses nothing.
        HINT: wording that real answers have as well ("is not available").
        SILENT: the source does not say ("the context does not mention").
        EXPLICIT: the speaker does not know or cannot answer.
    """

    NONE = 0
    HINT = 1
    SILENT = 2
    EXPLICIT = 3


@dataclass(frozen=True, slots=True)
class Language:
    """The patterns of one language, over clauses as `read_reply` makes them.

    Attributes:
        refusals: what to look for, strongest first.
        conditions: prefix of a match that makes it a supposition ("if you do not know").
        whole: replies that are an abstention as a whole ("unknown").
        courtesy: clauses that say nothing by themselves ("I'm sorry").
        redirect: clauses that send the reader elsewhere ("please contact").
        source_talk: openings that tell what the source says instead ("it only mentions").
        yes_or_no: openings that already answer a question ("No, ").
    """

    refusals: tuple[tuple[Strength, re.Pattern[str]], ...]
    conditions: re.Pattern[str]
    whole: re.Pattern[str]
    courtesy: re.Pattern[str]
    redirect: re.Pattern[str]
    source_talk: re.Pattern[str]
    yes_or_no: re.Pattern[str]


def compiled(
    patterns: Iterable[tuple[Strength, str]],
) -> tuple[tuple[Strength, re.Pattern[str]], ...]:
    """Patterns ready for use, strongest first."""
    ordered = sorted(patterns, key=lambda pattern: -pattern[0])
    return tuple((strength, re.compile(pattern)) for strength, pattern in ordered)
