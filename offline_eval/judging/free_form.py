"""Read the chosen letters, or yes or no, from a free-form reply.

Letters are looked for in this order; the first that finds something decides:

    an announced answer         "The answer is (B)", "答案：A、C", "\\boxed{B}", <answer>B</answer>
    a line of letters alone     "B", "A and C", "**(B)**"; the last such line
    letters at the beginning    "B. Because …", "(A) Ann Li"
    letters in brackets         the last sentence that has any
    the text of options         one that is named and not denied

Wordings stand in `rules.toml`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from ...guard.contracts import ScoringLanguageModel
from ...guard.errors import LanguageModelError
from ..data.rules import Rules

_RULE = Rules(__file__, "free_form").patterns
# What a read reply may be long; verdicts stand at its beginning or its end.
_HEAD, _TAIL = 6_000, 6_000
# Its longest words, what may follow them, and room for a word boundary.
_NEGATION_REACH = 80


# Letters of options, in order.
LETTERS = "ABCDEFGH"


def parse_choices(reply: str, options: Sequence[str]) -> tuple[str, ...] | None:
    """Return the letters that a reply chooses.

    Args:
        reply: as a model wrote it: with reasoning, markup, brackets, full-width letters,
            option texts in place of letters, English or Chinese.
        options: the texts of options A, B, …; at most eight.

    Returns:
        Different letters in the order of the options; None where none can be read.

    Example:
        >>> options = ["Ann Li", "Bo Ek", "Cy Orr", "Di Fu"]
        >>> parse_choices("Both are plausible.\\n\\nAnswer: (A) and (C)", options)
        ('A', 'C')
        >>> parse_choices("It must have been Bo Ek, not Ann Li.", options)
        ('B',)
        >>> parse_choices("A person from Rill.", options) is None
        True
    """
    letters = LETTERS[: len(options)]
    text = _plain(reply)
    if not text:
        return None
    for find in (_announced, _alone, _list_at_start, _bracketed):
        found = find(text, letters)
        if found:
            return tuple(letter for letter in letters if letter in found)
    named = _named(text, letters, options)
    return tuple(letter for letter in letters if letter in named) or None


def _plain(reply: str) -> str:
    if len(reply) > _HEAD + _TAIL:
        reply = f"{reply[:_HEAD]}\n{reply[-_TAIL:]}"
    # Full-width letters and brackets become plain ones.
    text = unicodedata.normalize("NFKC", reply).replace("\r", "\n")
    return _RULE["markup"].sub("", text).strip()


def _announced(text: str, letters: str) -> set[str]:
    for match in reversed(list(_RULE["announced"].finditer(text))):
        rest = _RULE["introduced"].sub("", text[match.end() :].lstrip(" \"'“‘:：")).lstrip(" \"'“‘")
        found = _list_at_start(rest, letters, loose=True)
        if found:
            return found
    return set()


def _alone(text: str, letters: str) -> set[str]:
    for line in reversed(text.splitlines()):
        stripped = _RULE["introduced"].sub("", line.strip()).strip(" .。!\"'“”‘’")
        found, end = _letter_list(stripped, letters)
        if found and end == len(stripped):
            return found
    return set()


def _bracketed(text: str, letters: str) -> set[str]:
    for sentence in reversed(_RULE["sentence"].split(text)):
        found = {
            match.group(1)
            for match in _RULE["bracketed"].finditer(sentence)
            if match.group(1) in letters and not _denied(sentence, match.start())
        }
        if found:
            return found
    return set()


def _named(text: str, letters: str, options: Sequence[str]) -> set[str]:
    folded = " ".join(text.casefold().split())
    named = _options_in(folded, letters, options)
    if len(named) < 2:
        return named
    # Weighing all options is no choice: the last sentence that names any says which.
    for sentence in reversed(_RULE["sentence"].split(text)):
        found = _options_in(" ".join(sentence.casefold().split()), letters, options)
        if found:
            return found
    return named


def _options_in(folded: str, letters: str, options: Sequence[str]) -> set[str]:
    found = set()
    taken: list[tuple[int, int]] = []
    by_length = sorted(zip(letters, options, strict=True), key=lambda pair: -len(pair[1]))
    for letter, option in by_length:
        name = " ".join(unicodedata.normalize("NFKC", option).casefold().split()).strip(" .")
        if not name:
            continue
        edge = r"(?<!\w)" if name[0].isascii() and name[0].isalnum() else ""
        tail = r"(?!\w)" if name[-1].isascii() and name[-1].isalnum() else ""
        for match in re.finditer(edge + re.escape(name) + tail, folded):
            # Within a longer option's name it is not this one that is named.
            inside = any(start <= match.start() and match.end() <= end for start, end in taken)
            if not inside and not _denied(folded, match.start()):
                found.add(letter)
            taken.append(match.span())
    return found


def _denied(text: str, position: int) -> bool:
    """Whether a negation stands shortly before a position."""
    # Only as far back as one can reach: else long replies take quadratic time.
    start = max(0, position - _NEGATION_REACH)
    return _RULE["negation"].search(text[start:position]) is not None


def _list_at_start(text: str, letters: str, *, loose: bool = False) -> set[str]:
    """Letters that a text begins with; `loose` where an answer was announced before."""
    found, end = _letter_list(text, letters)
    rest = text[end:]
    if not found:
        return set()
    # "A, an article" and "A person" are no answers; "A. …", "A) …", "A: …" and "A" are.
    if len(found) == 1 and not loose and rest[:1] == ",":
        return set()
    ends = not rest or rest[0] in ".,:;)]}】）、。，：；\n\"'”’<\\-–—!"
    return found if ends or (loose and not rest[0].isalnum()) else set()


def _letter_list(text: str, letters: str) -> tuple[set[str], int]:
    """Letters with separators between them at the start of a text, and where they end."""
    one = rf"[(\[{{]?\s*([{letters}])(?![A-Za-z0-9'])(?:\s*[)\]}}])?\.?"
    match = re.match(one, text)
    if match is None:
        # Lower case counts in brackets, or alone.
        match = re.match(rf"\(\s*([{letters.lower()}])\s*\)|([{letters.lower()}])(?=\W*$)", text)
        if match is None:
            return set(), 0
        return {(match.group(1) or match.group(2)).upper()}, match.end()
    found, end = {match.group(1)}, match.end()
    following = re.compile(f"(?:{_RULE['separator'].pattern}){one}", re.IGNORECASE)
    while (match := following.match(text, end)) is not None and match.group(1) in letters:
        found.add(match.group(1))
        end = match.end()
    if text[end - 1 : end] == ".":
        end -= 1
    return found, end


# -- Yes or no ----------------------------------------------------------------------------


def parse_yes_no(reply: str) -> bool | None:
    """Return the verdict of a reply; None where there is none, or both.

    A verdict at the beginning decides, then an announced one ("Answer: no"), then the only
    one that is there.

    Example:
        >>> parse_yes_no("**Yes**, that is right."), parse_yes_no("That is not correct.")
        (True, False)
        >>> parse_yes_no("I cannot say.") is None
        True
    """
    text = unicodedata.normalize("NFKC", reply[:4_000]).replace("’", "'").casefold()
    text = _RULE["verdict_markup"].sub("", _RULE["verdict_tag"].sub(" ", text))
    # The longer Chinese words hold the shorter ones.
    text = text.replace("不正确", "错误").replace("不对", "错误").strip()
    found = _verdict(_RULE["verdict"].match(text), text)
    if found is not None:
        return found
    for match in reversed(list(_RULE["verdict_announced"].finditer(text))):
        announced = _RULE["verdict"].match(text, match.end())
        if announced is not None:
            return _verdict(announced, text)
    verdicts = {_verdict(match, text) for match in _RULE["verdict"].finditer(text)}
    return verdicts.pop() if len(verdicts) == 1 else None


def yes_no_likelihoods(
    lm: ScoringLanguageModel, prompts: Sequence[str]
) -> list[tuple[float, float]]:
    """Return the log likelihoods (base e) of yes and no after each prompt, over all spellings.

    Raises:
        LanguageModelError: the model failed, or gave a likelihood that is not finite.
    """
    values = lm.score_options(prompts, [*_YES, *_NO])
    if not np.isfinite(values).all():
        raise LanguageModelError("the model gave a likelihood that is not finite")
    yes = np.logaddexp.reduce(values[:, : len(_YES)], axis=1)
    no = np.logaddexp.reduce(values[:, len(_YES) :], axis=1)
    return list(zip(yes.tolist(), no.tolist(), strict=True))


def _verdict(match: re.Match[str] | None, text: str) -> bool | None:
    if match is None:
        return None
    agrees = match.lastgroup in ("yes", "是")
    return agrees != bool(_RULE["denied"].search(text[: match.start()]))


# After a bare prompt the word comes with a space, in a chat without, and in either case.
_YES = (" yes", " Yes", "yes", "Yes")
_NO = (" no", " No", "no", "No")
