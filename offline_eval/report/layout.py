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
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .document import Block, Prose, Section
from .prose import Templates, explained, plain_text, term_of
from .tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup

_TAG = re.compile(r"\s*<(\w+)((?: \w+)*)>")
_SECTIONS, _PARTS = ("section", "folded"), ("part", "folded_part")
_PROSE = ("small", "item", "fact")
# A tag, empty for plain text, and what it is about: texts, or the lines of a section within.
_Line = tuple[str, Sequence[Any]]


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
        sections: list[list[_Line]] = []
        for line in map(self._line, self._texts.written(macro, self, *given)):
            if line[0] in _SECTIONS:
                inner = outer = [line]
                sections.append(outer)
            elif line[0] in _PARTS:
                inner = [line]
                outer.append(("section", inner))
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
        # A title is text whatever is inserted into it.
        told = text if kind in (*_SECTIONS, *_PARTS) else term_of(text)
        return kind, explained(*tag[2].split()) or (told,)

    def _section(self, lines: Sequence[_Line]) -> Section | None:
        (tag, (title,)), *rest = lines
        found: list[Block | None] = []
        shown: list[Block | None] = []
        for kind, some in groupby(rest, key=itemgetter(0)):
            blocks = self._blocks_of(kind, [one for _, one in some], found)
            found += blocks
            shown += blocks if kind in ("section", "block") else ()
        if shown and not any(shown):
            return None
        return Section(title, tuple(found), folded=tag.startswith("folded"))

    def _blocks_of(
        self, kind: str, given: Sequence[Any], before: list[Block | None]
    ) -> Sequence[Block | None]:
        """Make the blocks of neighbouring lines of one kind."""
        if kind == "section":
            return list(map(self._section, given))
        texts = tuple(chain.from_iterable(given))
        if kind == "block":
            return [self._blocks[int(text)] for text in texts]
        if kind == "under" and isinstance(before[-1], Table):
            before[-1] = replace(before[-1], notes=texts)
        if kind in ("", "under"):
            return () if kind else texts
        if kind == "fact":
            texts = tuple(one for one in texts if isinstance(one, tuple))
        return [Prose(texts, kind if kind in _PROSE else "")]
