"""Questions about a time: "which position did Ann hold from 1907 to 1912?"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from .._premise_finding import Answerability, Premise, PremiseFault
from ._bounds import read_bounds
from ._linking import LONGEST_LIST
from ._periods import Period, impossible_day, read_periods
from ._phrases import Phrase, read_phrase, related
from ._statements import Form, Statement
from ._topics import topics

_MEASURE = re.compile(
    r"\d{3,4} ?(?:m|km|kg|miles?|met(?:er|re)s?|feet|people|dollars|degrees|words|percent|"
    r"米|公里|元|人|名|个|%)(?![^\W\d_])",
    re.IGNORECASE,
)
# What ended in one year is often taken up in the next, by what no passage tells of.
_NEXT_YEAR = 1
# From which on no question asks about what has been.
_FUTURE = 2200


def check_time(
    question: str,
    statements: Sequence[Statement],
    *,
    closed_world: bool,
    now: int | None = None,
) -> Answerability | None:
    """Whether anything can hold at the time asked about; None where none is.

    Args:
        question: folded.
        statements: of all passages.
        closed_world: whether sentences and triples are taken to tell all there is.
        now: the year that a time may reach, so that what has ended does not rule it out.
    """
    periods, timeless = read_periods(question)
    if not periods:
        return None
    if len(periods) > 1:
        return Answerability(Premise.UNDECIDED)
    asked, about = periods[0], read_phrase(timeless)
    bounds = read_bounds(timeless, statements, anywhere=closed_world)
    if bounds is not None and (
        asked.end < bounds.start
        or (asked.start > bounds.end + _NEXT_YEAR and (now is None or asked.end < now))
    ):
        return _impossible(bounds.passages)
    found = [s for s in statements if s.form is not Form.ANSWERED and _is_about(about, s)]
    stated = [s for s in found if s.periods]
    passages = tuple(sorted({s.passage for s in stated}))
    if any(asked.within(period) for s in stated for period in s.periods):
        return Answerability(Premise.ANSWERABLE, passages=passages)
    if (
        closed_world
        and not _spoken_of(asked, statements)
        and stated
        and len(stated) < LONGEST_LIST
        and all(asked.outside(period) for s in stated for period in s.periods)
        and all(s.periods or not _timed(s) for s in found)
    ):
        return _impossible(passages)
    return Answerability(Premise.UNDECIDED)


def impossible_by_itself(question: str, passages: str) -> bool:
    """Whether a folded question asks about a time that cannot be, whatever anybody states.

    Args:
        question: folded.
        passages: all of their text, folded: a time that they speak of is left to them.
    """
    day = impossible_day(question)
    if day is not None:
        return day not in passages
    if _MEASURE.search(question):
        return False
    for period in read_periods(question)[0]:
        if period.start >= _FUTURE and math.isfinite(period.start):
            return f"{period.start:.0f}" not in passages
        # 1000: below, a number is as likely no year.
        if period.end < period.start and period.end >= 1000:
            return True
    return False


def _impossible(passages: tuple[int, ...]) -> Answerability:
    return Answerability(Premise.UNANSWERABLE, PremiseFault.IMPOSSIBLE_TIME, passages=passages)


def _spoken_of(asked: Period, statements: Sequence[Statement]) -> bool:
    """Whether a sentence names the year asked about: it may answer in words not understood."""
    years = {f"{year:.0f}" for year in (asked.start, asked.end) if math.isfinite(year)}
    return any(
        year in s.text for s in statements if s.form is Form.SENTENCE and s.text for year in years
    )


def _timed(statement: Statement) -> bool:
    # A bare sentence stands beside the readings of itself.
    return bool(statement.answer)


def _is_about(about: Phrase, statement: Statement) -> bool:
    """Whether a sentence or a triple speaks of all that is named, in the question's relation."""
    theirs = read_phrase(statement.text)
    counts = theirs.counts
    names = [word.text for word in about.words if word.named]
    if not names or any(name not in counts for name in names):
        return False
    if topics(" ".join(about.texts)) & topics(statement.text):
        return True
    others = [text for text in about.bare if text not in names]
    return any(related(word, other) for word in others for other in counts)
