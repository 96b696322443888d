"""Read Markdown: headings, paragraphs, lists, tables, and FAQ headings as pairs."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from ._blocks import Content
from ._html import read_html

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)


def read_markdown(text: str) -> Content:
    """The content of a Markdown document; code blocks and front matter are left out.

    Raises:
        DocumentError: `empty`.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = [
        token
        for token in parser.parse(_FRONT_MATTER.sub("", text, count=1))
        if token.type not in ("fence", "code_block")
    ]
    found = read_html(f"<html><body>{parser.renderer.render(tokens, parser.options, {})}</body>")
    return Content("markdown", found.blocks, found.pairs)
