"""Render a document as a page, or as Markdown for pull requests, where plots are left out.

The page needs nothing from outside. It runs no script, except one of knowgate's own where a
reader can try other thresholds; the page's Content-Security-Policy names its hash, so that no
other one runs.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._gates import Gate, gate_table
from .document import Document, Section
from .plots import Plot
from .prose import template_environment
from .text import one_line, printable
from .what_if import WhatIf

if TYPE_CHECKING:
    from jinja2 import Environment

    from .document import Block

_TEMPLATES = Path(__file__).parent / "templates"
# What templates call blocks; others go by their class.
_KINDS: dict[type, str] = {str: "paragraph", WhatIf: "what_if"}
# An underscore inside a word means nothing and is left readable.
_SPECIAL = re.compile(r"([\\`*\[\]|~$#!]|(?<![^\W_])_|_(?![^\W_]))")
_LIST_START = re.compile(r"^(\d*)([-+=.)])(?=[\s\-+=]|$)")


def escaped(text: str) -> str:
    """Escape text so that Markdown shows it as it is.

    HTML, links, images, emphasis, tables and code lose their meaning.

    Example:
        >>> escaped("<b> a|b [x](http://y)")
        '&lt;b&gt; a\\\\|b \\\\[x\\\\](http:\\\\//y)'
    """
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    # What GitHub would turn into a link.
    text = text.replace("://", ":\\//")
    text = re.sub(r"(?i)\bwww\.", lambda found: found.group()[:-1] + "\\.", text)
    return _LIST_START.sub(r"\1\\\2", text)


def rendered(document: Document, gates: Sequence[Gate], *, page: bool) -> str:
    """Render the document; every text is escaped.

    Args:
        document: the report.
        gates: shown in a table of their own, where there are some.
        page: as a page, rather than as Markdown.
    """
    environment = _environment(printable if page else str)
    template = environment.get_template("document.html" if page else "document.txt")
    kinds = set(_kinds(document.sections))
    text = template.render(
        document=document,
        gates=gate_table(gates) if gates else None,
        plots=Plot in kinds,
        script=_script() if WhatIf in kinds else None,
    )
    # Without the lines that the macros leave.
    return text.lstrip() if page else re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _kinds(blocks: Sequence[Block | None]) -> list[type]:
    found = []
    for block in blocks:
        found += [type(block), *(_kinds(block.blocks) if isinstance(block, Section) else ())]
    return found


@cache
def _script() -> dict[str, Any]:
    """The script of the page, and its hash as a source of the Content-Security-Policy."""
    from markupsafe import Markup

    text = (_TEMPLATES / "what_if.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    # A file of this package, and digits.
    return {"text": Markup(text), "source": Markup(f"'sha256-{digest}'")}  # noqa: S704


def _kind(block: object) -> str:
    return _KINDS.get(type(block), type(block).__name__.lower())


@cache
def _environment(clean: Callable[[str], str]) -> Environment:
    from markupsafe import Markup

    environment = template_environment(_TEMPLATES, clean=clean)
    environment.filters["kind"] = _kind
    environment.filters["escaped"] = lambda text: Markup(escaped(text))  # noqa: S704
    # Drawn from numbers and fixed words alone, hence safe.
    environment.filters["svg"] = lambda plot: Markup(plot.svg())  # noqa: S704
    # JSON in which every sign that could end the element is escaped.
    environment.filters["script_data"] = Markup
    return environment
