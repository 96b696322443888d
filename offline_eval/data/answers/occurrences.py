"""Find names in texts: as whole words, in every script, the longer of two that overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Each maps to one character, so that positions do not change.
_ALIKE = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})
# Thai and its neighbours, Chinese, Japanese, and Korean, whose particles follow without a space.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)


def occurrences(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """Return start and end of each occurrence of an answer, in order and without overlap.

    Case, kind of quotation mark and dash, and the width of spaces do not matter. An answer
    counts only if it is not part of a longer word or number; of two that overlap the longer
    one counts.

    Example:
        >>> occurrences("Nineteen or nine? 9.5, or Nine.", ["nine"])
        [(12, 16), (26, 30)]
    """
    plain = text.translate(_ALIKE)
    found: list[tuple[int, int]] = []
    for answer in sorted(set(answers), key=lambda one: (-len(one), one)):
        pattern = _pattern(answer)
        if pattern is None:
            continue
        for match in pattern.finditer(plain):
            start, end = match.span()
            if not _stands_alone(plain, start, end):
                continue
            if all(end <= other[0] or start >= other[1] for other in found):
                found.append((start, end))
    return sorted(found)


@lru_cache(maxsize=65536)
def _pattern(answer: str) -> re.Pattern[str] | None:
    words = answer.translate(_ALIKE).split()
    if not words:
        return None
    return re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether a match is not part of a longer word or number."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if _is_word(text[start]) and _is_word(before[-1:]):
        return False
    if _is_word(text[end - 1]) and _is_word(after[:1]):
        return False
    inside_number = text[start].isdigit() and before[-1:] in {".", ","} and before[:1].isdigit()
    goes_on = text[end - 1].isdigit() and after[:1] in {".", ","} and after[1:].isdigit()
    return not (inside_number or goes_on)


def _is_word(character: str) -> bool:
    # Next to Chinese a Latin word or a number needs no space.
    return (character.isalnum() or character == "_") and not _UNSPACED.match(character)
