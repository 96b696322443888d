"""Wrong answers of the right kind: classify answers, choose others, put them into the text.

Rules over words and their neighbours, for English; in other languages without capitals
and articles an answer falls back to its length and figures.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from random import Random

import numpy as np
from numpy.typing import NDArray

from ....guard.matching import canonical_answer, normalise_answer
from ..rules import Rules
from .kinds import NAMES, NUMERIC_KINDS, WORDS, AnswerKind, AnswerShape, answer_shape
from .matching import (
    CJK,
    NUMBER,
    holds_answer,
    nearby_numbers,
    nearby_years,
    number_value,
    occurrences,
    words_of,
)

# Answers at most that one is compared with.
_COMPARED = 400
# Alternatives at most.
_PROPOSED = 8
# Words; longer answers are clauses, which fit nowhere else.
_LONGEST = 8
# Least cosine of two things of one sort: in general, and where the question narrows it down.
_LIKE, _NOT_FAR = 0.55, 0.3
_WHOLE = 100.0  # per cent
_VAGUE = WORDS["vague"] | {""}
_SAYS_LITTLE = _VAGUE - {"who", "where"}
_SAME_THING = {"nation": "country", "town": "city", "village": "city"}
_RULE = Rules(__file__, "alternatives").patterns


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """A right answer in a text.

    Attributes:
        id: of the question.
        question: whose answer it is.
        answers: all right ones.
        window: the text.
        text: the answer as it is spelt there.
        shape: its sort and form.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    window: str
    text: str
    shape: AnswerShape

    @classmethod
    def first(cls, id: str, question: str, answers: tuple[str, ...], window: str) -> StatedAnswer:
        """Return the first occurrence of an answer in `window`, which must hold one."""
        start, end = occurrences(window, answers)[0]
        text = _without_stop(window[start:end])
        shape = answer_shape(question, text, window[:start], window[start + len(text) :])
        return cls(id, question, answers, window, text, shape)


ByKind = Mapping[AnswerKind, Sequence[StatedAnswer]]
# The cosines of a short text with others.
Likeness = Callable[[str, Sequence[str]], NDArray[np.float32]]


def _without_stop(text: str) -> str:
    """Return an answer without the punctuation mark that belongs to its sentence."""
    text = text.rstrip(",;:") or text
    # A short word with a full stop is an abbreviation.
    return text[:-1] if re.search(r"\w{5}\.$", text) else text


def plausible(
    stated: StatedAnswer, alike: Sequence[StatedAnswer], likeness: Likeness, *, seed: int
) -> list[Alternative]:
    """Propose wrong answers that can replace a right one, the best first; may be none.

    Args:
        stated: the right answer.
        alike: answers of the data set of the same kind and grammatical form.
        likeness: tells how much alike two questions, or two answers, are.
        seed: decides among equals.
    """
    own, is_list = stated.shape, bool(_RULE["joins"].search(stated.text))
    if own.words > _LONGEST:
        return []
    if own.kind in NUMERIC_KINDS:
        return list(_other_numbers(stated))[:_PROPOSED]
    rng = Random(f"uniknow/alternatives/{seed}/{stated.id}")  # noqa: S311
    pool = [one for one in alike if one is not stated]
    if len(pool) > _COMPARED:
        pool = rng.sample(pool, _COMPARED)
    longer = 2 if own.kind in NAMES else 1
    pool = [
        one
        for one in pool
        if abs(own.words - one.shape.words) <= longer
        and not (own.joined or one.shape.joined)
        and is_list == bool(_RULE["joins"].search(one.text))
    ]
    if not pool:
        return []
    asked = likeness(stated.question, [one.question for one in pool])
    meant = likeness(stated.text, [one.text for one in pool])
    wanted = own.asked if own.asked not in _SAYS_LITTLE else None
    scores = [
        2.0 * (one.shape.asked == wanted) + 2 * float(a) + 4 * float(m)
        for one, a, m in zip(pool, asked, meant, strict=True)
    ]
    order = heapq.nlargest(3 * _PROPOSED, range(len(pool)), key=lambda i: (scores[i], -i))
    found: dict[str, Alternative] = {}
    for other, near in ((pool[index], float(meant[index])) for index in order):
        if _same_type(stated, other, near) and is_another(stated, other.text, other.answers):
            answers = tuple(dict.fromkeys((other.text, *other.answers)))
            found.setdefault(canonical_answer(other.text), Alternative(other.text, answers))
    return list(found.values())[:_PROPOSED]


def implausible(stated: StatedAnswer, of_kind: ByKind, *, seed: int) -> list[Alternative]:
    """Propose short answers of a wrong kind, in random order; may be none."""
    wrong = [one for kind in _wrong_kinds(stated.shape.kind) for one in of_kind.get(kind, ())]
    Random(f"uniknow/untrue/{seed}/{stated.id}").shuffle(wrong)  # noqa: S311
    short = (one for one in wrong if one.shape.words <= _LONGEST // 2)
    others = (one.text for one in short if is_another(stated, one.text, one.answers))
    return [Alternative(text, (text,)) for text in islice(others, _PROPOSED)]


def _wrong_kinds(kind: AnswerKind) -> tuple[AnswerKind, ...]:
    if kind in NUMERIC_KINDS or kind is AnswerKind.DATE:
        return NAMES
    if kind in NAMES:
        return (AnswerKind.NUMBER, AnswerKind.QUANTITY, AnswerKind.DATE, AnswerKind.YEAR)
    return (AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.YEAR)


def _other_numbers(stated: StatedAnswer) -> Iterator[Alternative]:
    """Return the answer with other numbers of similar size."""
    own = NUMBER.findall(stated.text)
    value = number_value(own[0]) if len(own) == 1 else None
    # After "one" nouns are in the singular.
    if value is None or canonical_answer(own[0]) in {"1", "1st", "1%"}:
        return
    if stated.shape.kind is AnswerKind.YEAR:
        numbers = nearby_years(value)
    else:
        share = re.search(r"%|\bper ?cent", stated.text) is not None and value <= _WHOLE
        numbers = nearby_numbers(own[0], value, most=_WHOLE if share else None)
    for number in numbers:
        text = stated.text.replace(own[0], number)
        if is_another(stated, text):
            yield Alternative(text, (text,) if text == number else (text, number), number)


def is_another(stated: StatedAnswer, text: str, aliases: Sequence[str] = ()) -> bool:
    """Return whether `text` is a wrong answer that neither question nor context mentions.

    Args:
        stated: the right answer.
        text: a proposal.
        aliases: of it, which are wrong answers then too.
    """
    gold, proposed = stated.answers, (text, *aliases)
    forms = (canonical_answer, normalise_answer)
    if any(set(map(form, gold)) & set(map(form, proposed)) for form in forms):
        return False
    if any(_related(stated.shape.kind, *pair) for pair in product(gold, proposed)):
        return False
    return not any(holds_answer(told, [text]) for told in (stated.window, stated.question))


def _related(kind: AnswerKind, one: str, other: str) -> bool:
    """Return whether two answers may be the same, as far as their words or characters tell.

    That is one within the other, a shared name, or two Chinese characters.
    """
    words, others = set(words_of(one)), set(words_of(other))
    if words and others and (words <= others or others <= words):
        return True
    if kind is AnswerKind.PERSON and words & others:
        return True
    if kind is AnswerKind.DATE or re.search(r"\d", one):
        return False
    return bool(_pairs(one) & _pairs(other))


def _pairs(text: str) -> set[str]:
    return {text[i : i + 2] for i in range(len(text) - 1) if re.match(f"[{CJK}]{{2}}", text[i:])}


def _same_type(stated: StatedAnswer, other: StatedAnswer, likeness: float) -> bool:
    """Return whether two answers of one kind are surely things of the same sort.

    Any person can replace any other. For other names and phrases the kind is not enough: both
    questions must ask for the same thing, or the answers must share the word that says what they
    are, the form of their figures, or almost the same meaning.
    """
    kind = stated.shape.kind
    own, theirs = (_SAME_THING.get(one.shape.asked, one.shape.asked) for one in (stated, other))
    if kind in (AnswerKind.PERSON, AnswerKind.DATE):
        return True
    if kind is AnswerKind.PHRASE and re.search(r"[9Y]", stated.shape.pattern):
        return True
    head, other_head = (_head(one.text) for one in (stated, other))
    if head and head == other_head:
        return True
    if re.search(f"[{CJK}]", stated.text):
        # What is asked for is not read there, and cosines of its short texts mislead.
        return False
    if own not in _VAGUE:
        # A river and a county are both places: their similarity says little.
        near = likeness >= _LIKE and theirs in _VAGUE and kind is not AnswerKind.PLACE
        return own == theirs or near
    near_enough = (own == theirs and own in {"who", "where"}) or kind is AnswerKind.PLACE
    return likeness >= (_NOT_FAR if near_enough else _LIKE)


def _head(text: str) -> str:
    """Return the word for the sort of thing: `Battle of …`, `… Bridge`; empty for a single word."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    named = " ".join(words).partition(" of ")[0].split()
    return named[-1] if len(words) > 1 and len(named[-1]) > 2 else ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The answer that replaces another one.

    Attributes:
        text: the whole answer.
        answers: ways to write it, `text` first.
        number: where only the number of the answer changes, the new one; else None.
    """

    text: str
    answers: tuple[str, ...]
    number: str | None = None


def replace_answer(
    text: str, answers: tuple[str, ...], alternative: Alternative, kind: AnswerKind
) -> str | None:
    """Return `text` with every occurrence of every answer replaced.

    Articles before and at the beginning of the answer, capitals at the beginning of a
    sentence, and the surname of a person that stands alone are corrected.

    Args:
        text: holds one of `answers`.
        answers: the right answer and its aliases.
        alternative: replaces them.
        kind: kind of the right answer.

    Returns:
        The new text; None if it still contains a right answer, or if the alternative does not
        fit an occurrence.

    Example:
        >>> other = Alternative("orange", ("orange",))
        >>> replace_answer("It is a pear. Pear wins.", ("pear",), other, AnswerKind.PHRASE)
        'It is an orange. Orange wins.'
    """
    pieces: list[str] = []
    position = 0
    for start, end in occurrences(text, answers):
        before = text[position:start]
        stated = text[start:end]
        new = _in_place(text[:start], stated, alternative, kind)
        if new is None:
            return None
        pieces += [_RULE["article_before"].sub(partial(_suited, new), before), new]
        position = end
    pieces.append(text[position:])
    if kind is AnswerKind.PERSON:
        # Only between the occurrences: the new name may share a word with the old one.
        pieces[::2] = [_other_surname(piece, answers, alternative.text) for piece in pieces[::2]]
    replaced = "".join(pieces)
    return None if not position or holds_answer(replaced, answers) else replaced


def _in_place(before: str, stated: str, alternative: Alternative, kind: AnswerKind) -> str | None:
    """Return the text that replaces one occurrence of `stated`."""
    if alternative.number is not None:
        if len(NUMBER.findall(stated)) != 1:
            return None
        new = NUMBER.sub(lambda found: _spelt_like(found, alternative.number or ""), stated)
    else:
        new = alternative.text
        leading = _RULE["leading"].match(stated)
        if leading and not _RULE["determined"].match(new) and kind is not AnswerKind.PERSON:
            # Its own article stays.
            new = leading.group() + new
        elif _RULE["determined"].match(new) and _RULE["determiner_before"].search(before):
            new = _RULE["determined"].sub("", new, count=1)
        new = _RULE["own_article"].sub(lambda found: _suited(new[found.end() :], found), new)
        if stated.endswith(".") and not new.endswith("."):
            new += "."
    if _RULE["sentence_before"].search(before):
        return new[:1].upper() + new[1:] if stated[:1].isupper() else new
    # In its own source the alternative stands at the beginning of a sentence.
    return (
        new[:1].lower() + new[1:] if _RULE["leading"].match(new) and stated[:1].islower() else new
    )


def _spelt_like(found: re.Match[str], number: str) -> str:
    """Return a number word, with a capital only if the word it replaces has one."""
    return number.capitalize() if found.group()[:1].isupper() else number.lower()


def _suited(following: str, found: re.Match[str]) -> str:
    """Return an article and its space, `a` or `an` by the sound of what follows."""
    return f"{found[1]}{'n' if _RULE['vowel_sound'].match(following) else ''}{found[2]}"


def _other_surname(text: str, answers: tuple[str, ...], alternative: str) -> str:
    """Replace the right person's surname where it occurs without the first name."""
    new = alternative.split()
    if len(new) < 2:
        return text
    for surname in {answer.split()[-1] for answer in answers if len(answer.split()) > 1}:
        if len(surname) > 2 and surname[0].isupper():
            text = re.sub(rf"(?<!\w){re.escape(surname)}(?!\w)", lambda _: new[-1], text)
    return text
