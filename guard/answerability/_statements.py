"""What passages state: answered questions, triples, and sentences, with their periods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ._names import split_names
from ._periods import Period, read_periods
from ._phrases import Phrase, fold, read_phrase, words_of

# Longer lines are prose whatever is in them, and longer sentences no statements.
_LONGEST = 2000
_LONGEST_ANSWER = 1500
_SPACES = re.compile(r"[^\S\n]+")
_ANSWER_BELOW = re.compile(r"([?？]) ?\n ?(?:A|Answer|答案|答) ?[:：] ?", re.IGNORECASE)
_LABEL = re.compile(r"^(?:- )?(?:Q|Question|问题|问) ?[:：] ?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^\W_A-Z][.!?])\s|(?<=[)'\"\]][.!?])\s|(?<=[。！？])")
_TRIPLE = re.compile(r" [—–|] | - (?=.* - )|\t")
_COPULA = re.compile(r" (?:is|are|was|were) |(?<!还)(?<!不)(?<!又)(?<!也)是")
_NEGATED = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|without)\b|n't\b"
    r"|\b(?:if|would|might|may have|allegedly)\b"
    r"|[不没沒未非]|如果|也许|可能",
    re.IGNORECASE,
)
_NOBODY = re.compile(
    r"(?:none|unknown|n/a|no answer|nobody|nothing|无|没有|未知|不详|不知道)\.?", re.IGNORECASE
)
_EDGES = " .。,，;；:：?？!！\"“”'"


class Form(StrEnum):
    """How a passage states something."""

    ANSWERED = "answered question"
    TRIPLE = "triple"
    SENTENCE = "sentence"


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


def plain(text: str) -> str:
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
        text = _ANSWER_BELOW.sub(r"\1 ", _SPACES.sub(" ", passage))
        for raw in text.split("\n"):
            line = _LABEL.sub("", raw.strip())
            if not _has(line, wanted):
                continue
            found = _answered(index, line) or _triple(index, line)
            if found:
                yield from found
                continue
            for sentence in _SENTENCE_END.split(line):
                if len(sentence) <= _LONGEST and _has(sentence, wanted):
                    yield from _sentence(index, plain(sentence))


def _has(line: str, wanted: frozenset[str]) -> bool:
    lower = fold(line).casefold()
    return any(word in lower for word in wanted)


def _answered(passage: int, line: str) -> list[Statement]:
    """ "The mother of Ann is? Mary": a question and its answers in one line."""
    if len(line) > _LONGEST:
        return []
    folded = plain(line)
    marks = [m.end() for m in re.finditer(r"\?(?: ?\?)*", folded)]
    if len(marks) != 1:
        return []
    question, answer = folded[: marks[0]].rstrip("? "), folded[marks[0] :].strip()
    if not answer or not question.strip() or _NOBODY.fullmatch(answer):
        return []
    asked = read_phrase(question)
    return [Statement(passage, Form.ANSWERED, asked, answer, question)]


def _triple(passage: int, line: str) -> list[Statement]:
    """ "Ann — mother — Mary (1990–1995)": subject, relation, object, and its time."""
    parts = [part.strip(" -") for part in _TRIPLE.split(line)] if len(line) <= _LONGEST else []
    if len(parts) != 3 or not all(words_of(fold(part)) for part in parts):
        return []
    subject, relation, value = (plain(part) for part in parts)
    periods, value = read_periods(value.replace("(?-?)", ""))
    value = value.strip(" ()")
    text, bounds = plain(line), tuple(periods)
    known = read_phrase(f"{subject} {relation}")
    inverse = read_phrase(f"{relation} {value}")
    to_object = Statement(passage, Form.TRIPLE, _of_shape(known), value, text, bounds, True)
    to_subject = Statement(passage, Form.TRIPLE, _of_shape(inverse), subject, text, bounds, True)
    # "Bo — mayor of — Rill" answers who is mayor of Rill; "Ann — mother — Mary" does not
    # answer who is the mother of Mary.
    if "left open" in read_phrase(relation).shape:
        return [to_subject, Statement(passage, Form.TRIPLE, _open(known), value, text, bounds)]
    return [
        to_object,
        *(
            Statement(passage, Form.TRIPLE, Phrase(inverse.words, shape), subject, text, bounds)
            for shape in (frozenset({"whose"}), frozenset({"by"}))
        ),
    ]


def _of_shape(phrase: Phrase) -> Phrase:
    return Phrase(phrase.words)


def _open(phrase: Phrase) -> Phrase:
    return Phrase(phrase.words, frozenset({"left open"}))


def _sentence(passage: int, sentence: str) -> Iterator[Statement]:
    """A sentence as it is, and the questions that it answers by its build."""
    if _NEGATED.search(sentence) or sentence.rstrip(_EDGES + " ").endswith("?"):
        return
    periods, timeless = read_periods(sentence)
    bounds = tuple(periods)
    timeless = timeless.strip(_EDGES)
    yield Statement(passage, Form.SENTENCE, read_phrase(timeless), "", sentence, bounds)
    for match in list(_COPULA.finditer(timeless))[:3]:
        left, right = timeless[: match.start()], timeless[match.end() :]
        if " by " in f" {right} ":
            done, _, doer = right.partition(" by ")
            asked = _of_shape(read_phrase(f"{left} {done}"))
            if doer and len(doer) <= _LONGEST_ANSWER:
                yield Statement(passage, Form.SENTENCE, asked, doer, sentence, bounds)
            continue
        if left and right and len(right) <= _LONGEST_ANSWER:
            asked = read_phrase(left)
            yield Statement(passage, Form.SENTENCE, _of_shape(asked), right, sentence, bounds)
            if right.startswith("the ") or "'s " in right or "的" in right:
                asked = _of_shape(read_phrase(right))
                yield Statement(passage, Form.SENTENCE, asked, left, sentence, bounds)


def answers_of(statement: Statement) -> list[str]:
    """The names in a statement's answer."""
    return split_names(statement.answer)
