"""Questions about a time: "which position did Ann hold from 1907 to 1912?".

They are decided by what holds then, and by before and after which nothing was, as answered
questions tell: "when did Ann first …? 1951".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ...contracts import Answerability, Premise, PremiseFault
from ...language import compiled, listed, section
from ._phrases import (
    HOLDING,
    Phrase,
    is_cjk,
    read_phrase,
    related,
    topics,
    without_topics,
    words_of,
)
from ._statements import (
    LONGEST_LIST,
    Period,
    Statement,
    future_year,
    impossible_day,
    outside,
    read_periods,
    span_reversed,
    within,
)

_RULE = compiled("premises", "when")
_YEAR = re.compile(r"(?<![\d.,-])(\d{3,4})(?![\d.,]*\d)")
_RAW = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
# Words that every question about a time has.
_TIMELY, _LEADS = listed("premises", "timely") | HOLDING, listed("premises", "before_subjects")
_LIGHT_ZH = frozenset(section("premises")["light_chinese"] + " ")
_GOES_ON_ZH = frozenset(section("premises")["goes_on_chinese"])
_LONGEST = 300
_MOST = 64
_BLOCKS = 4


def read_bounds(
    timeless: str, statements: Sequence[Statement], *, closed_world: bool
) -> tuple[Period, tuple[int, ...]] | None:
    """The first beginning and the last end of what a question is about.

    Args:
        timeless: the question, folded, without its period.
        statements: of all passages.
        closed_world: whether it is enough that a clue speaks of the question's subject, as
            "when did Ann become mayor of Rill" does of Rill; otherwise it must be about it, and
            ask for the first or the last time of all: "when did Apple start selling phones?"
            does not say since when it has sold anything.

    Returns:
        The years before and after which nothing was, infinite where unknown, and the passages
        that tell; None where nothing does.
    """
    found: dict[str, list[float]] = {"start": [], "end": []}
    passages = set()
    clues = [s for s in statements if s.form == "answered" and _RULE["when"].search(s.text)]
    if len(clues) > _MOST:
        return None
    for clue in clues:
        side = _side(clue.text)
        if side is None or not (closed_world or _RULE["of_all"].search(clue.text)):
            continue
        if not _concerns(timeless, clue.text, anywhere=closed_world):
            continue
        years = [float(year) for year in _YEAR.findall(clue.answer)]
        if not years:
            # Its bound is unknown, and so is whether it is wider than the others.
            return None
        found[side] += years
        passages.add(clue.passage)
    if not passages:
        return None
    start, end = min(found["start"], default=-math.inf), max(found["end"], default=math.inf)
    return (start, end), tuple(sorted(passages))


def _side(text: str) -> str | None:
    first, last = _RULE["first"].search(text) is not None, _RULE["last"].search(text) is not None
    if first and last:
        return None
    if _RULE["stop"].search(text):
        return None if first else "end"
    if first or (_RULE["begin"].search(text) and not last):
        return "start"
    return "end" if last else None


def _concerns(question: str, clue: str, *, anywhere: bool) -> bool:
    if max(len(question), len(clue)) > _LONGEST:
        return False
    if is_cjk(question):
        return _concerns_zh(question.strip(), clue, anywhere=anywhere)
    asked, told = _RAW.findall(question), _RAW.findall(clue)
    names = [word for at, word in enumerate(asked) if _is_name(asked, at)]
    at = _stands_at(names, told) if names else None
    if at is None:
        return False
    # About the subject: "when did", perhaps an article, and there it is.
    leads = anywhere or all(word.casefold() in _LEADS for word in told[:at])
    return leads and _same_relation(asked, told, names)


def _is_name(words: list[str], at: int) -> bool:
    word = words[at]
    asks = word in ("What", "Who", "Which", "Where", "When", "s")
    return not (asks or word.islower() or (at == 0 and word.casefold() in HOLDING))


def _stands_at(names: list[str], told: list[str]) -> int | None:
    """Where all names stand together in a clue and no other name goes on with them."""
    wanted = {name.casefold().removesuffix("'s") for name in names}
    at = 0
    while at < len(told):
        found: set[str] = set()
        end = at
        while end < len(told) and (
            told[end].casefold() in wanted or (found and _joins(told, end, wanted))
        ):
            if told[end].casefold() in wanted:
                found.add(told[end].casefold())
            end += 1
        if found == wanted:
            before = told[at - 1] if at else ""
            after = told[end : end + 2]
            goes_on = bool(after) and (
                not after[0].islower()
                or (after[0] in ("of", "de", "van", "von") and not after[-1].islower())
            )
            if not goes_on and (at <= 1 or before.islower()):
                return at
        at = max(end, at + 1)
    return None


def _joins(told: list[str], at: int, wanted: set[str]) -> bool:
    """Whether a word holds a name together: "of" in "Maid of Rill"."""
    following = [word.casefold() for word in told[at + 1 : at + 3]]
    return told[at].islower() and told[at] in HOLDING and any(w in wanted for w in following)


def _same_relation(asked: list[str], told: list[str], names: list[str]) -> bool:
    named = {name.casefold() for name in names}
    mine = [w.casefold() for w in asked if w.islower() and w not in named and w not in _TIMELY]
    theirs = [w.casefold() for w in told if w.islower() and w not in _TIMELY]
    if any(related(word, other) for word in mine for other in theirs):
        return True
    return bool(topics(" ".join(mine)) & topics(" ".join(theirs)))


def _concerns_zh(question: str, clue: str, *, anywhere: bool) -> bool:
    """Whether all of a Chinese question but its question words stands in the clue."""
    turn = _RULE["turn"].search(clue)
    lead = clue[: turn.start()].strip() if turn else ""
    about = bool(lead) and lead in question and _is_whole(lead, question)
    if about:
        rest = question.replace(lead, " ", 1)
        shared = _blocks(rest, clue[len(lead) :])
        told = "".join(shared)
        return any(letter not in _LIGHT_ZH for letter in told) or bool(
            topics(rest) & topics(clue[len(lead) :])
        )
    if not anywhere:
        return False
    blocks = _blocks(question, clue)
    left = question
    for block in blocks:
        left = left.replace(block, " ", 1)
    left = without_topics(left, topics(clue))
    bare = [letter for letter in left if letter not in _LIGHT_ZH]
    telling = [block for block in blocks if any(letter not in _LIGHT_ZH for letter in block)]
    return bool(telling) and not bare


def _is_whole(name: str, question: str) -> bool:
    at = question.find(name)
    before, after = question[:at].rstrip(), question[at + len(name) :].lstrip()
    return (not before or before[-1] in _LIGHT_ZH) and (not after or after[0] in _GOES_ON_ZH)


def _blocks(first: str, second: str) -> list[str]:
    """The longest runs of letters that two texts share, each of two or more."""
    found: list[str] = []
    for _ in range(_BLOCKS):
        match = SequenceMatcher(None, first, second, False).find_longest_match()
        if match.size < 2:
            break
        block = first[match.a : match.a + match.size]
        found.append(block)
        first = first.replace(block, " ", 1)
    return found


_TIME = PremiseFault.IMPOSSIBLE_TIME
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
        and _beyond(asked, bounds[0], now)
        and not _spoken_of(asked, about, statements)
    ):
        return Answerability(Premise.UNANSWERABLE, _TIME, passages=bounds[1])
    found = [s for s in statements if s.form != "answered" and _is_about(about, s)]
    stated = [s for s in found if s.periods]
    passages = tuple(sorted({s.passage for s in stated}))
    if any(within(asked, period) for s in stated for period in s.periods):
        return Answerability(Premise.ANSWERABLE, passages=passages)
    if (
        closed_world
        and not _spoken_of(asked, about, statements)
        and stated
        and len(stated) < LONGEST_LIST
        and all(outside(asked, period) for s in stated for period in s.periods)
        # A bare sentence, without an answer, stands beside the readings of itself.
        and all(s.periods or not s.answer for s in found)
    ):
        return Answerability(Premise.UNANSWERABLE, _TIME, passages=passages)
    return Answerability(Premise.UNDECIDED)


def impossible_by_itself(question: str, passages: str) -> bool:
    """Whether a folded question asks about a time that cannot exist, whatever the passages state.

    Only what can be nothing but a time is taken for one: not the numbers of "after 2500 points",
    "ISO 9001-2015" or "from 2200 to 0600".

    Args:
        question: folded.
        passages: all of their text, folded: a time that they speak of is left to them.
    """
    if _RULE["about_calendars"].search(question):
        return False
    day = impossible_day(question)
    if day is not None:
        return day.search(passages) is None
    year = future_year(question)
    if year and _RULE["past"].search(question) and not _RULE["planned"].search(question):
        return str(year) not in passages
    reversed_span = span_reversed(question)
    if reversed_span is None or _RULE["change"].search(question):
        return False
    return not all(str(year) in passages for year in reversed_span)


def _beyond(asked: Period, bounds: Period, now: int | None) -> bool:
    """Whether a period is before all starts or after all ends."""
    (first, last), (start, end) = asked, bounds
    if last < start:
        return True
    return first > end + _NEXT_YEAR and (now is None or last < now)


def _spoken_of(asked: Period, about: Phrase, statements: Sequence[Statement]) -> bool:
    """Whether a sentence or triple mentions that time, perhaps in words not understood."""
    years = {f"{year:.0f}" for year in asked if math.isfinite(year)}
    told = [s for s in statements if s.form != "answered"]
    if any(
        not outside(asked, period) and about.names <= set(words_of(s.text))
        for s in told
        for period in s.periods
    ):
        return True
    return any(year in s.text for s in told if s.form == "sentence" for year in years)


def _is_about(about: Phrase, statement: Statement) -> bool:
    """Whether a sentence or a triple mentions everything named, in the question's relation."""
    theirs = set(read_phrase(statement.text).texts)
    if not about.names or not about.names <= theirs:
        return False
    if topics(" ".join(about.texts)) & topics(statement.text):
        return True
    others = [text for text in about.bare if text not in about.names]
    return any(related(word, other) for word in others for other in theirs)
