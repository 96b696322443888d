"""Sentences of a report from templates, so that prose reads as prose.

A template file holds macros, each of which writes paragraphs with a blank line between them:

    {% macro few(asked) %}
    {% if asked < 30 %}
    Only {{ asked|counted("question") }}: the intervals are accordingly wide.
    {% endif %}
    {% endmacro %}

Lines are joined, and inserted text is put on one line; of what goes through the filters `path` and
`shell` all blanks are kept. Nothing is escaped: renderers do that.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from .tables import Text
from .text import (
    counted,
    decimal,
    estimate_text,
    one_line,
    p_value,
    percent,
    printable,
    range_text,
    signed_points,
)

if TYPE_CHECKING:
    from jinja2 import Environment

_BREAK = re.compile(r"\n\s*\n")
# Stands for a blank that is part of a path, while lines are joined: no character, unlike those for
# private use, which icons in documents leave.
_BLANK = "\ufdd0"
_OWN = Path(__file__).parent / "templates"


def template_environment(*folders: Path, clean: Callable[[str], str] = printable) -> Environment:
    """Return what renders the templates of some folders: texts are cleaned and escaped.

    Args:
        folders: in which templates are looked for.
        clean: what becomes of an inserted text.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def cleaned(value: Any) -> Any:
        # Markup is what a macro wrote, its paragraphs included.
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return clean(value) if is_text else value

    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        finalize=cleaned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


class Templates:
    """The macros of a template file, called by name.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def paragraphs(self, macro: str, *given: Any, **named: Any) -> list[str]:
        """Return what a macro writes, one text per paragraph; often none.

        Args:
            macro: its name.
            given: its arguments.
            named: likewise.
        """
        return [text for one in self.written(macro, *given, **named) if (text := plain_text(one))]

    def written(self, macro: str, *given: Any, **named: Any) -> list[str]:
        """Return the paragraphs of a macro as they were written, inserted text escaped."""
        return _BREAK.split(getattr(self._macros, macro)(*given, **named))

    def text(self, macro: str, *given: Any, **named: Any) -> str:
        """Return what a macro writes as one text; empty if that is nothing."""
        return " ".join(self.paragraphs(macro, *given, **named))

    def terms(self, macro: str, *given: Any, **named: Any) -> tuple[Text, ...]:
        """Return paragraphs; one with `::` in it as a term and what it means."""
        return tuple(map(term_of, self.paragraphs(macro, *given, **named)))

    def meanings(self, macro: str, *given: Any, **named: Any) -> dict[str, str]:
        """Return the terms that a macro writes, each with what it means."""
        return dict(one for one in self.terms(macro, *given, **named) if isinstance(one, tuple))

    @cached_property
    def _macros(self) -> Any:
        # Escaping tells what macros wrote from inserted text; it is taken back in `paragraphs`.
        environment = template_environment(self._path.parent, _OWN)
        environment.filters |= {
            "counted": counted,
            "decimal": decimal,
            "estimate": estimate_text,
            "one_line": one_line,
            "p_value": p_value,
            "percent": percent,
            "path": _whole,
            "range": range_text,
            "points": signed_points,
            "shell": lambda path: _whole(quote(str(path))),
            "rate": lambda estimate, text=percent: estimate_text(estimate, text, brackets=False),
            "tally": lambda counts: ", ".join(f"{name}: {n}" for name, n in counts.items()),
        }
        # As arguments of `rate` and `range`.
        environment.globals |= {"decimal": decimal, "points": signed_points}
        return environment.get_template(self._path.name).module


def _whole(path: object) -> str:
    return str(path).replace(" ", _BLANK)


def plain_text(paragraph: str) -> str:
    """Join the lines of a paragraph, and take escaping back."""
    joined = re.sub(r"[^\S\u00a0]+", " ", html.unescape(paragraph)).strip()
    return joined.replace(_BLANK, " ")


def term_of(text: str) -> Text:
    """Split a text with `::` in it into a term and what it means."""
    term, both, meaning = text.partition(" :: ")
    return (term, meaning) if both else term


_EXPLANATIONS = Templates(_OWN / "explanations.txt")


def explained(*keys: str) -> tuple[Text, ...]:
    """Look up explanations of terms and marks, each written once and shown wherever needed.

    Raises:
        AttributeError: there is no such explanation.
    """
    return tuple(text for key in keys for text in _EXPLANATIONS.terms(key))
