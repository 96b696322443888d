"""What passages state, and which of it answers a question.

Statements are answered questions, triples, and sentences, with the periods in which they hold.
They answer a question, or one half of it, and may tell all answers there are.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import IntEnum
from itertools import islice
from typing import Literal

from ...language import compiled, listed, word_list
from ._phrases import Phrase, fold, is_cjk, read_phrase, same_words, words_of

_TIME = compiled("premises", "time")
_MONTHS = (*word_list("dates", "months"), *map(str, range(1, 13)))
_DAYS = dict(zip(_MONTHS, (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31) * 2, strict=True))
# From which on no question asks about what has been.
_FIRST_FUTURE = 2200
_IN_PASSAGE = (
    r"\b{month}\s+(?:the )?{day}(?:st|nd|rd|th)?\b|\b{day}(?:st|nd|rd|th)?\s+(?:of )?{month}\b"
)


def impossible_day(text: str) -> re.Pattern[str] | None:
    """How passages may write a day that no calendar has; None where a text has none.

    Example:
        >>> impossible_day("What happened on 30 February 1990?").search("On February 30th.").group()
        'February 30th'
        >>> impossible_day("What caused the protests of May 68?")
    """
    for match in _TIME["day"].finditer(text):
        name, day = match["m1"] or match["m2"], int(match["d1"] or match["d2"] or match["d3"])
        month = name.casefold() if name else str(int(match["m3"]))
        if not 1 <= day <= _DAYS.get(month, 0):
            written = _IN_PASSAGE if name else r"(?<!\d){month} ?月 ?{day} ?[日号]"
            return re.compile(written.format(month=month, day=day), re.IGNORECASE)
    return None


def future_year(text: str) -> int | None:
    """A year far ahead in which something is asked about; None where a text names none.

    Example:
        >>> future_year("Who won the cup in 2999?"), future_year("What pays in 2999 points?")
        (2999, None)
    """
    years = (int(match["en"] or match["zh"]) for match in _TIME["future"].finditer(text))
    return next((year for year in years if year >= _FIRST_FUTURE), None)


def span_reversed(text: str) -> tuple[int, int] | None:
    """A span of years that ends before it begins; None where a text has none.

    Example:
        >>> span_reversed("Who led Rill from 1912 to 1907?")
        (1912, 1907)
    """
    for match in _TIME["span"].finditer(text):
        start, end = int(match["a"] or match["b"] or match["d"]), int(match["c"] or match["e"])
        if end < start:
            return start, end
    return None


_HALF_OPEN = re.compile(r"\((?:(\d{3,4})\s*-\s*\??|\??\s*-\s*(\d{3,4}))\)")
_DATED = re.compile(r"(?<!\d)(\d{4})-\d{2}-\d{2}(?!\d)")
_NAME_GOES_ON = re.compile(r"\s+[A-Z]")
_AFTER = frozenset({"since", "after", "以后", "之后", "后", "以来"})


# First and last year, both within; infinite where it is open, and the last one before the first
# where the text has them the wrong way round.
Period = tuple[float, float]


def outside(period: Period, other: Period) -> bool:
    """Whether the two have no year in common."""
    return period[1] < other[0] or other[1] < period[0]


def within(period: Period, other: Period) -> bool:
    """Whether all of it lies in the other."""
    return other[0] <= period[0] and period[1] <= other[1]


def read_periods(text: str) -> tuple[list[Period], str]:
    """The periods in a folded text, and the text without them.

    None where years are counted backwards. Runs of spaces must have been made one.

    Example:
        >>> read_periods("Who led Rill from 1907 to 1912?")
        ([(1907.0, 1912.0)], 'Who led Rill  ?')
    """
    found: list[Period] = []
    if _TIME["not_ours"].search(text):
        return found, text

    def take(period: Period) -> str:
        found.append(period)
        return " "

    def span(match: re.Match[str]) -> str:
        # "1990 and 1995" are two years.
        if " and " in match.group() and not match.group().casefold().startswith("between"):
            return match.group()
        return take((float(match[1]), float(match[2])))

    text = _TIME["span_periods"].sub(span, text)
    text = _HALF_OPEN.sub(lambda m: take((float(m[1] or -math.inf), float(m[2] or math.inf))), text)
    text = _TIME["open"].sub(lambda m: take(_open_ended(m)), text)
    text = _TIME["decade"].sub(lambda m: take(_years(m[1] or m[2], 9)), text)
    text = _DATED.sub(lambda m: take(_years(m[1])), text)

    def one(match: re.Match[str]) -> str:
        # "in 2006 World Cup" is a name.
        if match[1] and _NAME_GOES_ON.match(text, match.end()):
            return match.group()
        return take(_years(match[1] or match[2]))

    return found, _TIME["one"].sub(one, text)


def _years(first: str, further: int = 0) -> Period:
    return float(first), float(first) + further


def _open_ended(match: re.Match[str]) -> Period:
    year = float(match[2] or match[3])
    word = match["en"] or match["zh"]
    # Whether the year itself counts, people disagree: it does.
    return (year, math.inf) if word in _AFTER else (-math.inf, year)


_RULE = compiled("premises", "statements")
_ROMAN = re.compile(r"[ivxlc]+")
_ASIDE = listed("premises", "beside_names")
# Chinese words of two letters are common ones more often than names.
_SHORTEST_CJK = 3
_ORDINALS = frozenset("一二三四五六七八九十")
# Beyond that many letters a text is no name.
_LONGEST = 160
_NEAR = 0.85
_NEAR_CJK = 0.6


class Likeness(IntEnum):
    """Whether two names denote the same thing."""

    DIFFERENT = 0
    MAYBE = 1
    SAME = 2


def split_names(text: str) -> list[str]:
    """The parts of a list, folded; a name with a comma in it falls apart too."""
    return [part.strip() for part in _RULE["between"].split(fold(text)) if words_of(part)]


def likeness(first: str, second: str, *, one_source: bool = False) -> Likeness:
    """Of two folded names.

    Args:
        first: a name.
        second: another one.
        one_source: whether both come from one collection, which calls a thing by one name: then
            names in two scripts are two things.

    Example:
        >>> likeness("Winston Churchill", "Randolph Churchill").name
        'DIFFERENT'
        >>> likeness("Hassanal Bolkiah", "Hassanal Bolkiah I of Brunei").name
        'MAYBE'
    """
    left = _name(first)
    right = _name(second)
    if not left or not right:
        return Likeness.MAYBE
    if left == right:
        return Likeness.SAME
    if max(len(first), len(second)) > _LONGEST:
        return Likeness.MAYBE
    if _counted(left, right):
        return Likeness.DIFFERENT
    if set(left) <= set(right) or set(right) <= set(left) or _shortened(left, right):
        return Likeness.MAYBE
    if is_cjk(first) != is_cjk(second):
        # One is written in another script: it may be the same name.
        is_number = any(all(map(str.isdigit, words)) for words in (left, right))
        return Likeness.DIFFERENT if one_source or is_number else Likeness.MAYBE
    return Likeness.MAYBE if _near(left, right, first) else Likeness.DIFFERENT


def is_proper(name: str) -> bool:
    """Whether a folded text is written as a name, which a thing has one of, or few.

    Example:
        >>> is_proper("Bell Medal"), is_proper("the buyer"), is_proper("$100")
        (True, False, False)
    """
    if is_cjk(name):
        return len(words_of(name)) >= _SHORTEST_CJK and not name[0].isdigit()
    words = [word for word in _WRITTEN.findall(name) if word.casefold() not in _ASIDE]
    return any(word != word.lower() for word in words) and not _QUANTITY.match(name)


_WRITTEN = re.compile(r"[^\W\d_]+")
_QUANTITY = re.compile(
    rf"\W*(?:\d|(?:{'|'.join(word_list('numbers', 'quantities'))})\b)", re.IGNORECASE
)


def nearest(name: str, others: Sequence[str], *, one_source: bool = False) -> Likeness:
    """The greatest likeness of a folded name to any of the others; see `likeness`."""
    return max(
        (likeness(name, other, one_source=one_source) for other in others),
        default=Likeness.DIFFERENT,
    )


def _name(text: str) -> tuple[str, ...]:
    words = words_of(text)
    return tuple(word for word in words if word not in _ASIDE) or words


def _counted(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether they differ in a number alone, as Gordian I and Gordian II do."""
    if len(left) != len(right):
        return False
    unlike = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    return all(_is_number(a) and _is_number(b) for a, b in unlike)


def _is_number(word: str) -> bool:
    return word.isdigit() or word in _ORDINALS or _ROMAN.fullmatch(word) is not None


def _shortened(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether one may be short for the other: "US", "Man Utd", "W. S. Churchill"."""
    shorter, longer = sorted((left, right), key=lambda name: sum(map(len, name)))
    letters = "".join(shorter)
    initials = "".join(word[0] for word in longer)
    short = len(longer) > 1 and 1 < len(letters) <= len(longer) + 1 and letters.isascii()
    if short and _in_order(letters, initials):
        return True
    if shorter[-1] == longer[-1] and shorter[0][0] == longer[0][0]:
        # An initial, or a second name that one leaves out.
        return len(shorter[0]) == 1 or len(longer[0]) == 1 or shorter[0] == longer[0]
    return len(shorter) == len(longer) and all(
        word[0] == whole[0] and word.isascii() and _in_order(word, whole)
        for word, whole in zip(shorter, longer, strict=True)
    )


def _in_order(letters: str, text: str) -> bool:
    """Whether the letters stand in a text in their order, others between them or not."""
    rest = iter(text)
    return all(letter in rest for letter in letters)


def _near(left: tuple[str, ...], right: tuple[str, ...], first: str) -> bool:
    if is_cjk(first):
        shared = sum((Counter(left) & Counter(right)).values())
        return shared >= _NEAR_CJK * max(len(left), len(right))
    return SequenceMatcher(None, " ".join(left), " ".join(right), False).ratio() >= _NEAR


# Longer lines are prose whatever is in them, and longer sentences no statements.
_LONGEST_STATEMENTS = 2000
_LONGEST_ANSWER = 1500
_SPACES = re.compile(r"[^\S\n]+")
_EDGES = " .。,，;；:：?？!！\"“”'"


# How a passage states something: by a question and its answer, in three parts, or in words.
Form = Literal["answered", "triple", "sentence"]


@dataclass(frozen=True)
class Statement:
    """An answer to a question, or a sentence in which an answer may be found.

    Attributes:
        passage: where it stands, from 0.
        form: how it is stated.
        asked: what it answers; for a bare sentence, all of its words.
        answer: the answer as written, folded; empty for a bare sentence.
        text: all of it, folded.
        periods: when it holds.
        any_shape: whether it answers questions of any shape.
    """

    passage: int
    form: Form
    asked: Phrase
    answer: str
    text: str
    periods: tuple[Period, ...] = ()
    any_shape: bool = False


def plain_text(text: str) -> str:
    """A text folded, its runs of spaces made one."""
    return _SPACES.sub(" ", fold(text))


def read_statements(passages: Sequence[str], wanted: frozenset[str]) -> Iterator[Statement]:
    """The statements of passages, in order.

    Args:
        passages: any texts.
        wanted: words in lower case of which a statement must have one to be of use.
    """
    for index, passage in enumerate(passages):
        # Dashes tell a triple's parts and are folded away with the rest.
        text = _RULE["answer_below"].sub(r"\1 ", _SPACES.sub(" ", passage))
        for raw in text.split("\n"):
            line = _RULE["label"].sub("", raw.strip())
            if not _has(line, wanted):
                continue
            short = len(line) <= _LONGEST_STATEMENTS
            if short and (found := _answered(index, line) or _triple(index, line)):
                yield from found
                continue
            for sentence in _RULE["sentence_end"].split(line):
                if len(sentence) <= _LONGEST_STATEMENTS and _has(sentence, wanted):
                    yield from _sentence(index, plain_text(sentence))


def _has(line: str, wanted: frozenset[str]) -> bool:
    lower = fold(line).casefold()
    return any(word in lower for word in wanted)


def _answered(passage: int, line: str) -> list[Statement]:
    """ "The mother of Ann is? Mary": a question and its answers in one line."""
    folded = plain_text(line)
    marks = [m.end() for m in re.finditer(r"\?(?: ?\?)*", folded)]
    if len(marks) != 1:
        return []
    question, answer = folded[: marks[0]].rstrip("? "), folded[marks[0] :].strip()
    if not answer or not question.strip() or _RULE["nobody"].fullmatch(answer):
        return []
    asked = read_phrase(question)
    return [Statement(passage, "answered", asked, answer, question)]


def _triple(passage: int, line: str) -> list[Statement]:
    """ "Ann — mother — Mary (1990–1995)": subject, relation, object, and its time."""
    parts = [part.strip(" -") for part in _RULE["triple"].split(line)]
    if len(parts) != 3 or not all(words_of(fold(part)) for part in parts):
        return []
    subject, relation, value = (plain_text(part) for part in parts)
    periods, value = read_periods(value.replace("(?-?)", ""))
    value = value.strip(" ()")
    text, bounds = plain_text(line), tuple(periods)
    known = read_phrase(f"{subject} {relation}")
    inverse = read_phrase(f"{relation} {value}")
    to_object = Statement(passage, "triple", known.shaped(), value, text, bounds, True)
    to_subject = Statement(passage, "triple", inverse.shaped(), subject, text, bounds, True)
    # "Bo — mayor of — Rill" answers who is mayor of Rill; "Ann — mother — Mary" does not
    # answer who is the mother of Mary.
    if "left open" in read_phrase(relation).shape:
        known = known.shaped("left open")
        return [to_subject, Statement(passage, "triple", known, value, text, bounds)]
    return [
        to_object,
        *(
            Statement(passage, "triple", inverse.shaped(shape), subject, text, bounds)
            for shape in ("whose", "by")
        ),
    ]


def _sentence(passage: int, sentence: str) -> Iterator[Statement]:
    """A sentence as it is, and the questions that it answers by its structure."""
    if _RULE["negated"].search(sentence) or sentence.rstrip(_EDGES + " ").endswith("?"):
        return
    periods, timeless = read_periods(sentence)
    bounds = tuple(periods)
    timeless = timeless.strip(_EDGES)
    yield Statement(passage, "sentence", read_phrase(timeless), "", sentence, bounds)
    for match in list(_RULE["copula"].finditer(timeless))[:3]:
        left, right = timeless[: match.start()], timeless[match.end() :]
        done, _, doer = right.partition(" by ")
        readings = [(left, right)] if left else []
        if " by " in f" {right} ":
            readings, right = [(f"{left} {done}", doer)], doer
        elif left and (right.startswith("the ") or "'s " in right or "的" in right):
            readings.append((right, left))
        for asked, told in readings if len(right) <= _LONGEST_ANSWER else ():
            if told:
                phrase = read_phrase(asked).shaped()
                yield Statement(passage, "sentence", phrase, told, sentence, bounds)


# A list as long as this may have been cut: what it lacks may be right all the same.
LONGEST_LIST = 10
# So many statements on one question settle it, or nothing does.
_MOST = 64
# Of these everything has one.
_SINGLE = listed("premises", "single")


@dataclass(frozen=True)
class Answers:
    """What passages give as answers to one question.

    Attributes:
        names: as written, folded; one with a comma in it stands in its parts.
        whole: the answers as written.
        complete: whether these are all answers there are, as far as the passages tell.
        passages: which state them, rising.
        forms: how they are stated.
    """

    names: tuple[str, ...]
    whole: tuple[str, ...]
    complete: bool
    passages: tuple[int, ...]
    forms: frozenset[Form]

    @property
    def one_source(self) -> bool:
        """Whether all of it comes from answered questions, which call a thing by one name."""
        return self.forms == {"answered"}


def words_by_passage(statements: Sequence[Statement]) -> list[set[str]]:
    """The words of each passage, as far as it states anything that may be of use."""
    found: dict[int, set[str]] = defaultdict(set)
    for statement in statements:
        if statement.form == "sentence" and not statement.answer:
            found[statement.passage].update(words_of(statement.text))
    return list(found.values())


def find_answers(
    half: Phrase,
    statements: Sequence[Statement],
    *,
    closed_world: bool,
    cut_at: int = LONGEST_LIST,
) -> Answers | None:
    """The answers to a question; None where no statement has any.

    Args:
        half: what is asked.
        statements: of all passages.
        closed_world: whether sentences and triples are taken to tell all answers.
        cut_at: from how many names on a list may be a mere selection.
    """
    if not half.texts:
        return None
    answered = ((s, answer) for s in statements if (answer := _answer(half, s, closed_world)))
    linked = list(islice(answered, _MOST + 1))
    if not linked or len(linked) > _MOST:
        return None
    names = [name for _, answer in linked for name in split_names(answer)]
    return Answers(
        names=tuple(dict.fromkeys(names)),
        whole=tuple(dict.fromkeys(answer for _, answer in linked)),
        complete=bool(names)
        and _complete(half, [statement for statement, _ in linked], closed_world)
        and not any(len(split_names(answer)) >= cut_at for _, answer in linked),
        passages=tuple(sorted({statement.passage for statement, _ in linked})),
        forms=frozenset(statement.form for statement, _ in linked),
    )


def _complete(half: Phrase, linked: Iterable[Statement], closed_world: bool) -> bool:
    texts = half.texts
    joined = "".join(texts)
    single = any(word in texts or (not word.isascii() and word in joined) for word in _SINGLE)
    told = (s.form == "answered" or _RULE["complete"].search(s.text) for s in linked)
    return closed_world or single or any(told)


def _answer(half: Phrase, statement: Statement, closed_world: bool) -> str:
    """The statement's answer to the question; empty where it has none."""
    asked = statement.asked
    if not statement.answer:
        return _within(half, asked.texts)
    alike = half.shape == asked.shape or (
        statement.any_shape and not half.shape & {"whose", "left open", "by"}
    )
    if not alike:
        return ""
    fits = same_words(half.texts, asked.texts) or same_words(half.bare, asked.texts)
    # "Which house was founded by Ann?" leaves out what else she founded.
    among_all = closed_world and statement.form == "answered"
    fits = fits or (among_all and same_words(half.bare, asked.bare))
    return statement.answer if fits else ""


def _within(half: Phrase, words: tuple[str, ...]) -> str:
    """What a sentence has beside the words of the question, where those stand together."""
    asked = half.bare
    count = len(asked)
    # One word alone stands in many sentences.
    if count < 2 or len(words) <= count or half.shape & {"whose", "by"}:
        return ""
    starts = same_words(words[:count], asked)
    ends = same_words(words[-count:], asked)
    between = " " if asked[0].isascii() else ""
    if starts and not ends:
        return between.join(words[count:])
    if ends and "done to" not in half.shape:
        return between.join(words[:-count])
    return ""
