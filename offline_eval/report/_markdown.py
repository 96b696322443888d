"""Render a document as Markdown, for pull requests; plots stay in the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ._gates import GateResult, gate_table
from .document import (
    Block,
    Case,
    CaseLine,
    Cases,
    Document,
    Facts,
    Figures,
    Passages,
    Prose,
    Section,
)
from .plots import Plot
from .tables import Cell, Table, Text
from .text import one_line
from .what_if import WhatIf

# An underscore inside a word means nothing and is left readable.
_SPECIAL = re.compile(r"([\\`*\[\]|~$#!]|(?<![^\W_])_|_(?![^\W_]))")
_LIST_START = re.compile(r"^(\d*)([-+=.)])(?=[\s\-+=]|$)")
_MARKS = {"best": " ★", "clear": " ●", "chosen": " ◀"}


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


def render_markdown(document: Document, gates: Sequence[GateResult] = ()) -> str:
    """Render the document; every text of it is escaped.

    Args:
        document: to render.
        gates: shown in a table of their own.
    """
    first, *others = document.headline or ("",)
    parts = [f"# {escaped(document.title)}", escaped(document.subtitle)]
    parts += [f"**{escaped(first)}**" if first else "", *map(escaped, others)]
    parts += [f"> {escaped(line)}" for line in document.warnings]
    if _has_plots(document.sections):
        parts.append("The plots are in report.html.")
    if gates:
        parts += ["## Gates", *_table(gate_table(gates))]
    for section in document.sections:
        parts += _block(section, 1)
    return "\n\n".join(part for part in parts if part) + "\n"


def _has_plots(blocks: Sequence[Block | None]) -> bool:
    return any(
        isinstance(block, Plot) or (isinstance(block, Section) and _has_plots(block.blocks))
        for block in blocks
    )


def _section(section: Section, level: int) -> Iterator[str]:
    if section.title:
        yield f"{'#' * level} {escaped(section.title)}"
    for block in section.blocks:
        yield from _block(block, level)


def _block(block: Block | None, level: int) -> Iterator[str]:
    match block:
        case str():
            yield escaped(block)
        case Prose(lines, _, bullets):
            yield from (
                ["\n".join(f"- {_text(x)}" for x in lines)] if bullets else map(_text, lines)
            )
        case Figures():
            yield _figures(block)
        case Table():
            if block.caption:
                yield f"{'#' * (level + 1)} {escaped(block.caption)}"
            yield from _table(block)
        case Cases(cases, empty):
            numbered = (_case(number, case) for number, case in enumerate(cases, start=1))
            yield "\n".join(numbered) if cases else escaped(empty)
        case Facts(pairs):
            yield _grid(("", ""), [(escaped(name), escaped(value)) for name, value in pairs])
        case WhatIf():
            yield from map(escaped, block.intro)
            for table in block.tables:
                yield from _block(table, level)
        case Section():
            yield from _section(block, level + 1)
        case Plot() | None:
            return


def _text(line: Text) -> str:
    if isinstance(line, str):
        return escaped(line)
    term, meaning = line
    return f"**{escaped(term)}**: {escaped(meaning)}"


def _figures(figures: Figures) -> str:
    heads = (figures.name, "Value", "95 % interval", figures.unit, "What it means")
    lines = [(line.name, *line.cells, line.meaning) for line in figures.lines]
    return _grid(heads, [tuple(map(escaped, line)) for line in lines])


def _table(table: Table) -> Iterator[str]:
    lines = [
        (escaped(line.name) + _MARKS.get(line.mark, ""), *map(_cell, line.cells))
        for line in table.lines
    ]
    yield _grid(tuple(map(escaped, (table.name, *table.columns))), lines)
    yield from map(_text, table.notes)


def _cell(cell: Cell) -> str:
    value = escaped(cell.value) + _MARKS.get(cell.mark, "")
    if cell.mark == "failed":
        value = f"**{value}**"
    return f"{value} ({escaped(cell.under)})" if cell.under else value


def _grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|" + "---|" * len(heads)
    rows = [f"| {' | '.join(line)} |" for line in (heads, *lines)]
    return "\n".join([rows[0], rule, *rows[1:]])


def _case(number: int, case: Case) -> str:
    note = "; ".join(escaped(part) for part in (case.note, case.tag) if part)
    lines = [f"{number}. **{escaped(case.question)}**" + (f" ({note})" if note else "")]
    # Nested lines start below the text of the item, which "10. " moves to the right.
    indent = " " * len(f"{number}. ")
    for part in case.parts:
        if isinstance(part, CaseLine):
            lines.append(f"{indent}- {_case_line(part)}")
        else:
            lines += [f"{indent}{line}" for line in _passages(part)]
    return "\n".join(lines)


def _passages(passages: Passages) -> Iterator[str]:
    indent = "  " if passages.title else ""
    if passages.title:
        yield f"- {escaped(passages.title)}"
    for line in passages.lines:
        text = f"{escaped(line.text)} ({escaped(line.note)})" if line.note else escaped(line.text)
        own = "*holds the answer*" if line.right else ""
        yield f"{indent}- {' · '.join(part for part in (escaped(line.label), own, text) if part)}"
    if passages.more:
        yield f"{indent}- and {passages.more} more"


def _case_line(line: CaseLine) -> str:
    text = escaped(line.text)
    parts = [
        f"{escaped(line.label)}: {text}" if line.label else text,
        f"*{escaped(line.tag)}*" if line.tag else "",
        escaped(line.note),
        f"judge: {escaped(line.reason)}" if line.reason else "",
    ]
    return " · ".join(part for part in parts if part)
