"""Read HTML and Markdown: the visible text without menus, and FAQs as pairs."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.element import PreformattedString
from markdown_it import MarkdownIt

from ....guard.errors import NO_JSON
from ..rules import Rules
from ._blocks import Block, DocumentError, Pair, ReadDocument, TextKind, headed_pairs, joined

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_RULES = Rules(__file__, "html")
_WORDS = _RULES.words
_BLOCKS = _WORDS["blocks"] | _HEADINGS.keys()


def read_html(raw: bytes | str) -> ReadDocument:
    """Read the content of an HTML page.

    Args:
        raw: bytes in any encoding that the page names, or text.

    Raises:
        DocumentError: `empty`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        soup = BeautifulSoup(raw, "lxml")
    pairs = _structured_pairs(soup)
    for tag in soup.find_all(_is_menu):
        # One inside another is gone already.
        if not tag.decomposed:
            tag.decompose()
    text = list(_blocks(soup))
    shown = {block.text for block in text}
    text += [pair.as_block() for pair in pairs if pair.question not in shown]
    pairs += _marked_pairs(soup)
    blocks, headed = headed_pairs([one for one in _blocks(soup) if one.kind is not TextKind.CODE])
    unique: dict[str, Pair] = {}
    for pair in (*pairs, *headed):
        unique.setdefault(pair.question, pair)
    if not blocks and not unique:
        raise DocumentError("empty", "the page has no text")
    return ReadDocument("html", tuple(blocks), tuple(unique.values()), text=tuple(text))


def read_markdown(text: str) -> ReadDocument:
    """The content of a Markdown document; front matter is left out.

    Raises:
        DocumentError: `empty`.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    page = parser.render(_FRONT_MATTER.sub("", text, count=1))
    return replace(read_html(f"<html><body>{page}</body>"), kind="markdown")


def _is_menu(tag: Tag) -> bool:
    if tag.name in _WORDS["dropped"] or tag.has_attr("hidden") or tag.get("aria-hidden") == "true":
        return True
    if str(tag.get("role", "")) in _WORDS["menu_roles"]:
        return True
    if tag.name in ("header", "footer"):
        # Of the page, not of an article in it.
        return tag.find_parent(["article", "main", "section"]) is None
    if tag.name in ("html", "body", "main", "article"):
        return False
    names = [*tag.get_attribute_list("class"), *tag.get_attribute_list("id")]
    return _RULES.finds(" ".join(map(str, names)).lower(), "menu_names")


def _structured_pairs(soup: BeautifulSoup) -> list[Pair]:
    """Pairs that the page declares for search engines (schema.org's FAQPage)."""
    pairs: list[Pair] = []
    for script in soup.find_all("script", type="application/ld+json"):
        try:
            value = json.loads(script.get_text())
        except NO_JSON:
            continue
        for item in _questions_within(value, depth=0):
            answer = item.get("acceptedAnswer") or item.get("suggestedAnswer")
            answer = answer[0] if isinstance(answer, list) and answer else answer
            text = answer.get("text") if isinstance(answer, dict) else None
            name = item.get("name")
            if isinstance(name, str) and isinstance(text, str):
                plain = _text(BeautifulSoup(text, "lxml"))
                if name.strip() and plain:
                    pairs.append(Pair(joined([name]), plain))
    return pairs


def _questions_within(value: Any, *, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and depth <= 8 and value.get("@type") == "Question":
        yield value
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list) and depth <= 8:
        for item in inner:
            yield from _questions_within(item, depth=depth + 1)


def _marked_pairs(soup: BeautifulSoup) -> list[Pair]:
    """Pairs marked up as such; their tags are taken out of the page."""
    pairs: list[Pair] = []
    for tag in [*soup.find_all("details"), *soup.find_all("dt")]:
        folded = not tag.decomposed and tag.name == "details"
        asked = tag.find("summary") if folded else tag
        answer = tag if folded or tag.decomposed else tag.find_next_sibling(["dt", "dd"])
        if tag.decomposed or asked is None or answer is None or answer.name == "dt":
            continue
        question, heading = _text(asked), tag.find_previous(list(_HEADINGS))
        topic = (_text(heading) or None) if heading is not None else None
        if not question.endswith(("?", "？")):
            continue
        asked.extract()
        if told := _text(answer):
            pairs.append(Pair(question, told, topic))
            answer.decompose()
        elif folded:
            answer.insert(0, asked)
        else:
            answer.insert_before(asked)
    return pairs


def _text(tag: Tag) -> str:
    """All text in a tag on one line; blocks in it are apart."""
    return joined([" ".join(text for _, text in _pieces(tag))])


def _pieces(root: Tag) -> Iterator[tuple[Tag, str]]:
    """Text that no edge of a block cuts, in reading order, with the block that it stands in."""
    edges, found = 0, list[tuple[int, Tag, str]]()
    for node in root.descendants:
        if isinstance(node, Tag):
            edges += node.name in _BLOCKS
        elif not isinstance(node, PreformattedString):
            around = (one for one in node.parents if one is root or one.name in _BLOCKS)
            found.append((edges, next(around), str(node)))
    for _, several in groupby(found, key=lambda one: (one[0], id(one[1]))):
        piece = list(several)
        yield piece[0][1], "".join(text for *_, text in piece)


def _blocks(soup: BeautifulSoup) -> Iterator[Block]:
    """Blocks in reading order."""
    for table in soup.find_all("table"):
        if table.find("table") is None and table.find("th") is not None:
            _flatten(soup, table)
    topic: str | None = None
    for tag, raw in _pieces(soup):
        kind, level = _kind_of(tag)
        text = raw.strip("\n") if kind is TextKind.CODE else joined([raw])
        if text:
            topic = text if kind is TextKind.HEADING else topic
            yield Block(kind, text, topic, level=level)


def _kind_of(tag: Tag | None) -> tuple[TextKind, int]:
    while tag is not None:
        if tag.name in _HEADINGS:
            return TextKind.HEADING, _HEADINGS[tag.name]
        if tag.name == "li":
            return TextKind.ITEM, 0
        if tag.name == "pre" and tag.find("code") is not None:
            return TextKind.CODE, 0
        if tag.get("data-knowgate-row") is not None:
            return TextKind.TABLE_ROW, 0
        if tag.name in _BLOCKS and tag.name not in ("p", "br"):
            break
        tag = tag.parent
    return TextKind.PARAGRAPH, 0


def _flatten(soup: BeautifulSoup, table: Tag) -> None:
    """Rows of a table with a head as `head: value` lines in its place."""
    rows = [[_text(cell) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")]
    rows = [row for row in rows if any(row)]
    if len(rows) < 2:
        return
    head, caption = rows[0], table.find("caption")
    if isinstance(caption, Tag) and _text(caption):
        line = soup.new_tag("p")
        line.string = _text(caption)
        table.insert_before(line)
    for row in rows[1:]:
        line = soup.new_tag("p", attrs={"data-knowgate-row": ""})
        line.string = table_line(head, row)
        table.insert_before(line)
    table.decompose()


def table_line(head: list[str], row: list[str]) -> str:
    """A row of a table as text.

    Example:
        >>> table_line(["Class", "Age"], ["3A", "18"])
        'Class: 3A; Age: 18'
    """
    names = [*head, *([""] * max(0, len(row) - len(head)))]
    cells = zip(names, row, strict=False)
    return "; ".join(f"{name}: {value}" if name else value for name, value in cells if value)
