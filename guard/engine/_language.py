"""Whether a question is in a script that a model knows.

The script tells Chinese, Arabic or Russian from English. It cannot tell French or
Malay from English, so those pass here whatever the model knows of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from ..text import clean_text

# More than a model reads of a question; a megabyte need not be looked at letter by letter.
_MOST_CHARACTERS = 4000
_LEAST_LATIN = 0.5
_MOST_UNKNOWN = 0.5
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lo"})


def latin_share(text: str) -> float | None:
    """Share of Latin letters among all letters, in [0, 1]; None for a text without letters.

    Only the first 4,000 characters count. Accented letters are Latin; signs that modify
    letters, digits and symbols are no letters.

    Example:
        >>> latin_share("Où?"), latin_share("图书馆"), latin_share("1 + 1 = ?")
        (1.0, 0.0, None)
    """
    text = clean_text(text[:_MOST_CHARACTERS])
    found = [kind for kind in map(_is_latin, text) if kind is not None]
    return sum(found) / len(found) if found else None


def is_readable(text: str, pieces: Sequence[int], unknown: int | None, *, latin_only: bool) -> bool:
    """Whether a model can make something of a text.

    Args:
        text: the question.
        pieces: ids of its word pieces, without [CLS] and [SEP].
        unknown: the id of word pieces that the vocabulary lacks; None where it has all.
        latin_only: whether the model knows no other script than the Latin one.

    Returns:
        False when there are no word pieces, when more than half of them are unknown,
        or, with `latin_only`, when less than half of the letters are Latin.
    """
    if not pieces:
        return False
    if unknown is not None and list(pieces).count(unknown) > _MOST_UNKNOWN * len(pieces):
        return False
    share = latin_share(text) if latin_only else None
    return share is None or share >= _LEAST_LATIN


@lru_cache(maxsize=4096)
def _is_latin(character: str) -> bool | None:
    """Whether a letter is a Latin one; None for what is no letter."""
    if unicodedata.category(character) not in _LETTERS:
        return None
    return "LATIN" in unicodedata.name(character, "").split()
