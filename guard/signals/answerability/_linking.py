"""Which statements answer a question, or one half of it, and whether they tell all answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...language import listed
from ._phrases import Phrase, same_words, words_of
from ._statements import Form, Statement, split_names

# A list as long as this may have been cut: what it lacks may be right all the same.
LONGEST_LIST = 10
# So many statements on one question settle it, or nothing does.
_MOST = 64
_COMPLETE = re.compile(
    r"\b(?:only|sole|solely|all of|in total|exclusively|the following)\b"
    r"|唯一|只有|仅有|仅|全部|一共|共有",
    re.IGNORECASE,
)
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
        return self.forms == {Form.ANSWERED}


def words_by_passage(statements: Sequence[Statement]) -> dict[int, frozenset[str]]:
    """The words of each passage, as far as it states anything that may be of use."""
    found: dict[int, set[str]] = {}
    for statement in statements:
        if statement.form is Form.SENTENCE and not statement.answer:
            found.setdefault(statement.passage, set()).update(words_of(statement.text))
    return {passage: frozenset(words) for passage, words in found.items()}


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
    if not half.words:
        return None
    linked = []
    for statement in statements:
        answer = _answer(half, statement, closed_world)
        if answer:
            linked.append((statement, answer))
        if len(linked) > _MOST:
            return None
    if not linked:
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
    if closed_world or _is_single(half):
        return True
    return any(s.form is Form.ANSWERED or _COMPLETE.search(s.text) for s in linked)


def _is_single(half: Phrase) -> bool:
    texts = half.texts
    joined = "".join(texts)
    return any(word in texts or (not word.isascii() and word in joined) for word in _SINGLE)


def _answer(half: Phrase, statement: Statement, closed_world: bool) -> str:
    """The statement's answer to the question; empty where it has none."""
    asked = statement.asked.texts
    if statement.form is Form.ANSWERED:
        if half.shape != statement.asked.shape:
            return ""
        fits = same_words(half.texts, asked) or same_words(half.bare, asked)
        # "Which house was founded by Ann?" leaves out what else she founded.
        fits = fits or (closed_world and same_words(half.bare, statement.asked.bare))
        return statement.answer if fits else ""
    if statement.answer:
        fits = half.shape == statement.asked.shape or (
            statement.any_shape and not half.shape & {"whose", "left open", "by"}
        )
        fits = fits and (same_words(half.texts, asked) or same_words(half.bare, asked))
        return statement.answer if fits else ""
    return _within(half, statement.asked.texts)


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
