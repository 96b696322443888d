"""Questions about a time: "which position did Ann hold from 1907 to 1912?"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ...contracts import Answerability, Premise, PremiseFault
from ._bounds import Bounds, read_bounds
from ._linking import LONGEST_LIST
from ._phrases import Phrase, read_phrase, related, topics, words_of
from ._statements import Form, Statement
from ._time import Period, day_stands_in, future_year, impossible_day, read_periods, span_reversed

# A day may be asked about because there is none.
_ABOUT_CALENDARS = re.compile(
    r"\b(?:calendars?|exists?|existed|valid|invalid|no|not|ever|missing)\b|n't\b|[有没沒无無吗嗎]|存在",
    re.IGNORECASE,
)
# What falls "from 2000 to 1500" is no time.
_CHANGE = re.compile(
    r"\b(?:fall|fell|drop|decline|decrease|sink|sank|shrink|shrank|go|went|change|reduc|lower|cut|"
    r"slip|descend|count|rank|move|score|rat)\w*|[降减減跌下变變]",
    re.IGNORECASE,
)
# Of the future one may ask, and a story's present lies there; of a past in it by mistake only.
_PAST = re.compile(
    r"\b(?:was|were|did|had|won|led|held|took|wrote|\w+ed)\b|[了过過曾]", re.IGNORECASE
)
_PLANNED = re.compile(
    r"\b(?:will|would|shall|should|may|might|could|can|is|are|be|expect\w*|project\w*|"
    r"predict\w*|plan\w*)\b|'ll\b|[会會将將能可预預]",
    re.IGNORECASE,
)
# What ended in one year is often taken up in the next, by what no passage tells of.
_NEXT_YEAR = 1


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
    bounds = read_bounds(timeless, statements, closed_world=closed_world)
    if (
        bounds is not None
        and _beyond(asked, bounds, now)
        and not _spoken_of(asked, about, statements)
    ):
        return _impossible(bounds.passages)
    found = [s for s in statements if s.form is not Form.ANSWERED and _is_about(about, s)]
    stated = [s for s in found if s.periods]
    passages = tuple(sorted({s.passage for s in stated}))
    if any(asked.within(period) for s in stated for period in s.periods):
        return Answerability(Premise.ANSWERABLE, passages=passages)
    if (
        closed_world
        and not _spoken_of(asked, about, statements)
        and stated
        and len(stated) < LONGEST_LIST
        and all(asked.outside(period) for s in stated for period in s.periods)
        and all(s.periods or not _timed(s) for s in found)
    ):
        return _impossible(passages)
    return Answerability(Premise.UNDECIDED)


def impossible_by_itself(question: str, passages: str) -> bool:
    """Whether a folded question asks about a time that cannot exist, whatever the passages state.

    Only what can be nothing but a time is taken for one: not the numbers of "after 2500 points",
    "ISO 9001-2015" or "from 2200 to 0600".

    Args:
        question: folded.
        passages: all of their text, folded: a time that they speak of is left to them.
    """
    if _ABOUT_CALENDARS.search(question):
        return False
    day = impossible_day(question)
    if day is not None:
        return not day_stands_in(day, passages)
    year = future_year(question)
    if year is not None and _PAST.search(question) and not _PLANNED.search(question):
        return str(year) not in passages
    reversed_span = span_reversed(question)
    if reversed_span is None or _CHANGE.search(question):
        return False
    return not all(str(year) in passages for year in reversed_span)


def _beyond(asked: Period, bounds: Bounds, now: int | None) -> bool:
    """Whether a period is before all starts or after all ends."""
    if asked.end < bounds.start:
        return True
    return asked.start > bounds.end + _NEXT_YEAR and (now is None or asked.end < now)


def _impossible(passages: tuple[int, ...]) -> Answerability:
    return Answerability(Premise.UNANSWERABLE, PremiseFault.IMPOSSIBLE_TIME, passages=passages)


def _spoken_of(asked: Period, about: Phrase, statements: Sequence[Statement]) -> bool:
    """Whether a sentence or triple mentions that time, perhaps in words not understood."""
    names = {word.text for word in about.words if word.named}
    years = {f"{year:.0f}" for year in (asked.start, asked.end) if math.isfinite(year)}
    told = [s for s in statements if s.form is not Form.ANSWERED]
    if any(
        not asked.outside(period) and names <= set(words_of(s.text))
        for s in told
        for period in s.periods
    ):
        return True
    return any(year in s.text for s in told if s.form is Form.SENTENCE for year in years)


def _timed(statement: Statement) -> bool:
    # A bare sentence stands beside the readings of itself.
    return bool(statement.answer)


def _is_about(about: Phrase, statement: Statement) -> bool:
    """Whether a sentence or a triple mentions everything named, in the question's relation."""
    theirs = read_phrase(statement.text)
    counts = theirs.counts
    names = [word.text for word in about.words if word.named]
    if not names or any(name not in counts for name in names):
        return False
    if topics(" ".join(about.texts)) & topics(statement.text):
        return True
    others = [text for text in about.bare if text not in names]
    return any(related(word, other) for word in others for other in counts)
