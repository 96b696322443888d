"""Read Markdown: headings, paragraphs, lists, tables, and FAQ headings as pairs."""

from __future__ import annotations

import re
from dataclasses import replace

from markdown_it import MarkdownIt

from ._blocks import Content
from ._html import read_html

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)


def read_markdown(text: str) -> Content:
    """The content of a Markdown document; front matter is left out.

    Raises:
        DocumentError: `empty`.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    page = parser.render(_FRONT_MATTER.sub("", text, count=1))
    return replace(read_html(f"<html><body>{page}</body>"), kind="markdown")
