"""Taking a reply apart: what it says, and what it names as its source."""

from __future__ import annotations

import re

# Models set the word off in many ways: **Citation:** 2, - citation: [2], 引用：2.
_LINE = re.compile(
    r"^[\s>*_#\-\[(]*(?:citations?|sources?)[\s*_]*:[\s*_]*(?P<cited>.*?)[\s*_]*$",
    re.IGNORECASE,
)
_TAG = re.compile(r"<citation>(?P<cited>.*?)</citation>", re.IGNORECASE | re.DOTALL)


def split_citation(text: str) -> tuple[str, str | None]:
    """A reply without its last citation line or tag, and the citation.

    The bundled prompts ask for a last line `Citation: …`; a tag `<citation>…</citation>`
    is read as well, the last one where there are several.

    Returns:
        The reply, and what it cites as it stands there: None where it has no such
        line, `""` where nothing follows the word.

    Example:
        >>> split_citation("At nine.\\nCitation: 2")
        ('At nine.', '2')
        >>> split_citation("At nine.")
        ('At nine.', None)
    """
    tags = list(_TAG.finditer(text))
    if tags:
        last = tags[-1]
        rest = (text[: last.start()] + text[last.end() :]).strip()
        return (rest or text, last.group("cited").strip())
    lines = text.rstrip().split("\n")
    found = _LINE.match(lines[-1]) if lines else None
    rest = "\n".join(lines[:-1]).rstrip()
    if found is None or not rest:
        # A reply that is nothing but its citation stays as it is.
        return text, None
    return rest, found.group("cited")
