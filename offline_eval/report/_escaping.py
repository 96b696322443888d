"""Text from a knowledge base, made fit to be shown."""

from __future__ import annotations

import re
import unicodedata

# Overrides and isolates of the writing direction can make a page read otherwise
# than it is stored.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# An underscore inside a word means nothing and is left readable.
_MARKDOWN = re.compile(r"([\\`*\[\]|~$#!]|(?<![^\W_])_|_(?![^\W_]))")
_LIST_START = re.compile(r"^(\d*)([-+=.)])(?=[\s\-+=]|$)")


def one_line(text: str) -> str:
    """The text on one line, without control and direction characters.

    Example:
        >>> one_line("a\\n  b\\x07")
        'a b'
    """
    text = _DIRECTION.sub("", text)
    text = "".join(" " if unicodedata.category(sign) == "Cc" else sign for sign in text)
    return " ".join(text.split())


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters, cut at a space where there is one.

    Example:
        >>> shortened("a knowledge base", 12)
        'a knowledge…'
    """
    text = one_line(text)
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    at_space = cut if text[limit - 1] == " " else cut.rpartition(" ")[0]
    return (at_space if len(at_space) > limit // 2 else cut).rstrip() + "…"


def markdown(value: object) -> str:
    """`value` as Markdown text that renders as itself.

    HTML, links, images, emphasis, tables and code all lose their meaning.

    Example:
        >>> markdown("<b> a|b [x](http://y)")
        '&lt;b&gt; a\\\\|b \\\\[x\\\\](http:\\\\//y)'
    """
    text = one_line(str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    # What GitHub would make a link of without being asked.
    text = text.replace("://", ":\\//")
    text = re.sub(r"(?i)\bwww\.", lambda found: found.group()[:-1] + "\\.", text)
    return _LIST_START.sub(r"\1\\\2", text)
