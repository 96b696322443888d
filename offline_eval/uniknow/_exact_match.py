"""Exact match, as the paper counts it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ...guard import normalise_answer

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def is_right(answer: str, accepted: Sequence[str]) -> bool:
    """Whether an answer equals an accepted one; an empty one never does.

    Compared in lower case, without punctuation and articles, with single spaces.
    Punctuation may stand for nothing, as in "U.S.", or for a space, as in "long-term".

    Example:
        >>> is_right("The U.S.", ["US"]), is_right("long-term", ["Long term"]), is_right("", [""])
        (True, True, False)
    """
    closed, spaced = _closed(answer), normalise_answer(answer)
    return any(
        (bool(closed) and closed == _closed(one))
        or (bool(spaced) and spaced == normalise_answer(one))
        for one in accepted
    )


def _closed(text: str) -> str:
    lowered = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(c for c in lowered if not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLE.sub(" ", bare).split())
