"""Sections of a report, laid out in its template around tables and plots.

A macro of the template is given a `Page` first. Its paragraphs are text, unless they begin with a
tag:

    <section> Title         begins a section; `<folded> Title` one that is folded
    <part> Title            begins a section within a section; `<folded_part> Title` likewise
    <end>                   ends it, where the outer one goes on
    <item> Text             a bullet; with `::` in it a term and what it means, as in all of these
    <small> Text            small print
    <under> Text            a note of the table above
    <fact> Name :: value    a line of facts
    <small intervals best>  explanations by their names, also for `<under …>` and `<text …>`

`{{ page.table(…) }}` and `{{ page.show(block) }}` stand for blocks. A section is left out where all
blocks that it would show are None. Inserted text is escaped and makes no tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from .document import Block, Facts, Prose, Section
from .prose import Templates, explained, plain_text, term_of
from .tables import Table, Text

if TYPE_CHECKING:
    from markupsafe import Markup

_TAG = re.compile(r"\s*<(\w+)((?: \w+)*)>")
_SECTIONS, _PARTS = ("section", "folded"), ("part", "folded_part")
_Line = tuple[str, tuple[Text, ...]]
"""A tag, empty for plain text, and the texts that it is about."""
_Lines = list["_Line | _Lines"]
"""A section: its tag and title, and what it holds; sections within it as lists."""


class Page:
    """What a template calls to show blocks, and what reads the sections that it writes.

    Args:
        texts: the template.
    """

    def __init__(self, texts: Templates) -> None:
        self._texts = texts
        self._blocks: list[Block | None] = []

    def show(self, block: Block | None) -> Markup:
        """Stand for a block in the template; None leaves its section out, if it is alone."""
        from markupsafe import Markup

        self._blocks.append(block)
        return Markup(f"\n\n<block>{len(self._blocks) - 1}\n\n")  # noqa: S704 - a number

    def table(
        self,
        first: str,
        lines: Mapping[str, Any] | Sequence[tuple[str, Any]],
        columns: Iterable[Sequence[Any]],
        **options: Any,
    ) -> Markup:
        """Stand for a table of `Table.of_lines`; without lines for None."""
        return self.show(Table.of_lines(first, lines, columns, **options) if lines else None)

    def texts(self, columns: Sequence[str], lines: Sequence[Sequence[str | int]]) -> Markup:
        """Stand for a table of `Table.of_text`; without lines for None."""
        return self.show(Table.of_text(columns, lines) if lines else None)

    def sections(self, macro: str, *given: Any) -> list[Section]:
        """Return the sections that a macro writes.

        Args:
            macro: its name; the page is its first argument.
            given: its further arguments.
        """
        sections: list[_Lines] = []
        for paragraph in self._texts.written(macro, self, *given):
            line = self._line(paragraph)
            if line[0] in _SECTIONS:
                inner = outer = [line]
                sections.append(outer)
            elif line[0] in _PARTS:
                inner = [line]
                outer.append(inner)
            elif line[0] == "end":
                inner = outer
            elif any(line[1]):
                inner.append(line)
        return [made for one in sections if (made := self._section(one)) is not None]

    def _line(self, paragraph: str) -> _Line:
        tag = _TAG.match(paragraph)
        if tag is None:
            return "", (plain_text(paragraph),)
        text = plain_text(paragraph[tag.end() :])
        kind = "" if tag[1] == "text" else tag[1]
        return kind, explained(*tag[2].split()) or (term_of(text),)

    def _section(self, lines: _Lines) -> Section | None:
        tag, (title,) = cast(_Line, lines[0])
        found: list[Block | None] = []
        shown: list[Block | None] = []
        for kind, some in groupby(
            lines[1:], key=lambda one: "part" if isinstance(one, list) else one[0]
        ):
            blocks = self._blocks_of(kind, list(some), found)
            found += blocks
            shown += blocks if kind in ("part", "block") else ()
        if shown and not any(shown):
            return None
        return Section(str(title), tuple(found), folded=tag.startswith("folded"))

    def _blocks_of(
        self, kind: str, lines: list[Any], before: list[Block | None]
    ) -> list[Block | None]:
        """Make the blocks of neighbouring lines of one kind."""
        if kind == "part":
            return list(map(self._section, lines))
        texts = tuple(text for _, own in lines for text in own)
        if kind == "block":
            return [self._blocks[int(text)] for text in texts]
        if kind == "under":
            if isinstance(before[-1], Table):
                before[-1] = replace(before[-1], notes=texts)
            return []
        if kind == "fact":
            return [Facts(texts)]
        return (
            [Prose(texts, small=kind == "small", bullets=kind == "item")] if kind else list(texts)
        )
