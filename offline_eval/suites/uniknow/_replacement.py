"""Replace the right answer in a text by another one, and keep the grammar correct."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._answer_kinds import AnswerKind
from ._matching import holds_answer, occurrences
from ._numbers import NUMBER

_ARTICLE_BEFORE = re.compile(r"\b([Aa])(n?)(\s+)$")
_LEADING = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_DETERMINED = re.compile(
    r"(?:the|an?|its|his|her|their|our|this|that|these|those|some|any|every)\s", re.IGNORECASE
)
_DETERMINER_BEFORE = re.compile(
    r"\b(?:the|an?|its|his|her|their|our|this|that|these|those)\s+$", re.IGNORECASE
)
_SENTENCE_BEFORE = re.compile(r"(?:^|[.!?][\"'”)]*\s+)[\"'“(]*$")
_VOWEL_SOUND = re.compile(r"[aeiou]|8|11(?!\d)|18(?!\d)|honest|honou?r|hour|heir", re.IGNORECASE)
_CONSONANT_SOUND = re.compile(
    r"eu|uni(?!n|m)|us[aeiu]|ut[ei]|ubi|one\b|once\b|U[A-Z]|[B-DGJKPQTV-Z][A-Z]"
)
# Initials are pronounced letter by letter: an FBI agent.
_VOWEL_LETTER = re.compile(r"[AEFHILMNORSX](?:[A-Z]|\b)(?![a-z])")


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
        pieces += [_corrected_article(before, new), new]
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
        leading = _LEADING.match(stated)
        if leading and not _DETERMINED.match(new) and kind is not AnswerKind.PERSON:
            new = leading.group() + new  # its own article stays
        elif _DETERMINED.match(new) and _DETERMINER_BEFORE.search(before):
            new = _DETERMINED.sub("", new, count=1)
        new = _corrected_own_article(new)
        if stated.endswith(".") and not new.endswith("."):
            new += "."
    if _SENTENCE_BEFORE.search(before):
        return new[:1].upper() + new[1:] if stated[:1].isupper() else new
    # In its own source the alternative stands at the beginning of a sentence.
    return new[:1].lower() + new[1:] if _LEADING.match(new) and stated[:1].islower() else new


def _spelt_like(found: re.Match[str], number: str) -> str:
    """Return a number word, with a capital only if the word it replaces has one."""
    return number.capitalize() if found.group()[:1].isupper() else number.lower()


def _corrected_own_article(text: str) -> str:
    found = re.match(r"([Aa])n?\s+(?=\S)", text)
    if not found:
        return text
    rest = text[found.end() :]
    return f"{found.group(1)}{'n' if takes_an(rest) else ''} {rest}"


def _corrected_article(before: str, new: str) -> str:
    """Return the text before an answer, with `a` or `an` to suit the new answer."""
    found = _ARTICLE_BEFORE.search(before)
    # A capital within a sentence is a name, such as "vitamin A".
    if not found or (
        found.group(1) == "A" and not _SENTENCE_BEFORE.search(before[: found.start()])
    ):
        return before
    article = found.group(1) + ("n" if takes_an(new) else "")
    return before[: found.start()] + article + found.group(3)


def takes_an(text: str) -> bool:
    """Return whether the indefinite article before `text` is `an`, by its sound.

    Example:
        >>> [takes_an(word) for word in ("hour", "unit", "FBI agent", "8", "uncle", "UN envoy")]
        [True, False, True, True, True, False]
    """
    if len(text) > 1 and text[1].isupper() and _VOWEL_LETTER.match(text):
        return True
    lowered = text if text[:2].isupper() else text[:1].lower() + text[1:]
    return bool(_VOWEL_SOUND.match(text)) and not _CONSONANT_SOUND.match(lowered)


def _other_surname(text: str, answers: tuple[str, ...], alternative: str) -> str:
    """Replace the right person's surname where it occurs without the first name."""
    new = alternative.split()
    if len(new) < 2:
        return text
    for surname in {answer.split()[-1] for answer in answers if len(answer.split()) > 1}:
        if len(surname) > 2 and surname[0].isupper():
            text = re.sub(rf"(?<!\w){re.escape(surname)}(?!\w)", lambda _: new[-1], text)
    return text
