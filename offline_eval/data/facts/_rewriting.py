"""Questions by rewriting rules: what a sentence defines, enables, is for, or says of a case."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from ..rules import Rules
from ._blocks import TextKind
from ._checks import question_fault
from ._rows import FactRow, QuestionRow, SentenceRow
from ._stages import asked_of, fact_row

_RULES = Rules(__file__, "rewriting")
_RULE, _WORDS = _RULES.patterns, _RULES.words
_BASE = {"signifies": "signify"}
_LONGEST_ANSWER = 30


def rewritten(sentence: str, small: Collection[str] = ()) -> tuple[str, str] | None:
    """A question that a sentence answers, and the answer; None where no rule fits.

    Args:
        sentence: whole, with its full stop.
        small: words that stand somewhere in small letters, so are no names.

    Example:
        >>> rewritten("A broken white line indicates the centre of a two-way road.")
        ('What does a broken white line indicate?', 'the centre of a two-way road')
        >>> rewritten("To rename a file, press F2.")
        ('How do I rename a file?', 'press F2')
        >>> rewritten("Keep left.") is None
        True
    """
    if found := _RULE["chinese_is"].match(sentence):
        if "的是" in found.group(0):
            return None
        return f"{found['subject']}是什么？", found["answer"]
    for made in (_defined(sentence, small), _done(sentence, _WAYS), _done(sentence, _CASES)):
        if made is not None and question_fault(*made) is None:
            return made
    return None


def _defined(sentence: str, small: Collection[str]) -> tuple[str, str] | None:
    """What something is, means, is called or is used for."""
    for name, question in _RULES.table["definitions"].items():
        found = _RULE[name].match(sentence)
        if found is None or _unfit(found["subject"]):
            continue
        amiss = "points" if name in ("means", "indicates") else "several"
        if name != "called" and _RULES.finds(found["subject"], amiss):
            continue
        verb, answer = found["verb"], found["answer"].strip()
        if _answers(answer):
            words = {
                "subject": _lowered(found["subject"], small),
                "helper": "does" if verb.endswith("s") else "do",
                "base": _BASE.get(verb) or verb.removesuffix("s"),
            }
            return question.format(**{**found.groupdict(), **words}), answer
    return None


def _answers(answer: str) -> bool:
    """Whether a text is short enough for an answer, and says something by itself."""
    fits = 0 < len(answer.split()) <= _LONGEST_ANSWER
    return fits and not _RULE["tells_nothing"].search(answer)


# A pattern; its group that is asked by, its fewest words, what it must not have; and how.
_Deed = tuple[re.Pattern[str], str, int, tuple[str, ...], str]
_WAYS: list[_Deed] = [
    (pattern, "deed", 2, ("leans", "broken"), "How do I {}?") for pattern in _RULES.ways
]
_CASES: list[_Deed] = [(_RULE["case"], "case", 3, ("leans",), "What if {}?")]


def _done(sentence: str, deeds: Sequence[_Deed]) -> tuple[str, str] | None:
    """How something is done, or what holds, or is to be done, in some case."""
    for pattern, group, fewest, amiss, question in deeds:
        found = pattern.match(sentence)
        if found is None or len(found[group].split()) < fewest or not _answers(found["answer"]):
            continue
        if not _RULES.finds(found[group], *amiss):
            return question.format(as_asked(found[group])), found["answer"]
    return None


def as_asked(text: str) -> str:
    """Words that speak to the reader, as the reader would say them.

    Example:
        >>> as_asked("you lose your key"), as_asked("install it for you")
        ('I lose my key', 'install it for me')
    """
    for pattern, spoken in _RULES.table["spoken"].items():
        text = re.sub(pattern, spoken, text)
    return text


def _unfit(subject: str) -> bool:
    """A subject that is a clause, or that only means something where it stands."""
    return (
        _RULES.finds(subject, "not_in_subject", "vague")
        or len(subject.split()) > 9
        or subject.split(maxsplit=1)[0].endswith("ing")
    )


def _lowered(subject: str, small: Collection[str]) -> str:
    first, space, rest = subject.partition(" ")
    # Of a name the capital stays; one that stands nowhere in small letters may be one.
    if first in ("The", "A", "An", "Your") or first.lower() in small:
        return f"{first.lower()}{space}{rest}"
    return subject


_LONGEST_HEADING = 10


def asked_by_heading(heading: str) -> str | None:
    """The question that a section answers, by a heading that names a deed; None for others.

    Example:
        >>> asked_by_heading("2.1. Installing from source")
        'How do I install from source?'
        >>> asked_by_heading("Where to store your backup")
        'Where do I store my backup?'
        >>> asked_by_heading("Compaction") is None
        True
    """
    text = _RULE["numbering"].sub("", _RULE["anchor"].sub("", heading)).strip()
    words = text.split()
    if not 2 <= len(words) <= _LONGEST_HEADING or re.search(r"[?!:;…/]|\.\s", text):
        return None
    if found := _RULE["asking"].match(text):
        return f"{found['word']} do I {as_asked(found['deed'])}?"
    deed = _base_of(words[0].lower())
    if deed is None or _RULE["leans"].search(text):
        return None
    rest = " ".join(words[1:])
    # "Logging and monitoring", "Backup frequency": no deed with an object.
    if words[1].lower() in ("and", "or", "of", "is", "are") or deed == words[1].lower():
        return None
    if words[0].lower() == deed and deed in _WORDS["nouns"] and not _RULE["object"].match(rest):
        return None
    return f"How do I {deed} {as_asked(_sentence_case(rest))}?"


def _base_of(word: str) -> str | None:
    """The verb that a word is, or is the -ing form of; None for others."""
    if word in _WORDS["deeds"]:
        return word
    if not word.endswith("ing"):
        return None
    candidates = (word[:-3], f"{word[:-3]}e", word[:-4])
    return next((one for one in candidates if one in _WORDS["deeds"]), None)


def _sentence_case(rest: str) -> str:
    """Title Case as in a sentence; a heading with a small noun has its capitals for a reason."""
    words = rest.split()
    plain = [word for word in words if word.lower() not in _WORDS["little"]]
    if not plain or any(word[0].islower() for word in plain):
        return rest
    return " ".join(word.lower() if word[1:].islower() or word == "A" else word for word in words)


_FEWEST_WORDS, _MOST_WORDS = 25, 60
_TEXT = (TextKind.SENTENCE, TextKind.ITEM)


def section_facts(
    sentences: Sequence[SentenceRow],
    taken: set[str],
) -> Iterator[tuple[FactRow, QuestionRow]]:
    """How to do what a heading names, where the text below it is long enough to say so.

    The answer is the beginning of the section: whole sentences of 25 to 60 words.
    """
    for place, row in enumerate(sentences):
        if row.kind is not TextKind.HEADING or row.boilerplate:
            continue
        question = asked_by_heading(row.text)
        told = _beginning(sentences[place + 1 :], row.document) if question else []
        answer = " ".join(one.text for one in told)
        if question is None or not told or question_fault(question, answer) is not None:
            continue
        made_of = f"{row.text}\n{answer}"
        fact = fact_row(taken, f"{row.text}: {answer}", told, made_of=made_of)
        yield fact, asked_of(fact, question, answer)


def _beginning(rows: Sequence[SentenceRow], document: str) -> list[SentenceRow]:
    """The first sentences before the next heading; none where they are too short together."""
    below = takewhile(
        lambda row: row.document == document and row.kind is not TextKind.HEADING, rows
    )
    found: list[SentenceRow] = []
    words = 0
    for row in below:
        if row.kind not in _TEXT or row.boilerplate or row.text.endswith("?"):
            continue
        words += len(row.text.split())
        if found and words > _MOST_WORDS:
            break
        found.append(row)
        if words >= _FEWEST_WORDS:
            return found
    return found if words >= _FEWEST_WORDS and len(found) > 1 else []
