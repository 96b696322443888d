"""Read HTML and Markdown: the visible text without menus, and FAQs as pairs."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.element import NavigableString, PreformattedString
from markdown_it import MarkdownIt

from ._blocks import Block, BlockKind, Content, DocumentError, Pair, headed_pairs, joined

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_DROPPED = (
    "script", "style", "noscript", "template", "svg", "iframe", "form", "button", "select",
    "textarea", "nav", "aside", "dialog", "head", "object", "canvas", "math",
)  # fmt: skip
_MENU_ROLES = {"navigation", "banner", "contentinfo", "search", "menu", "dialog", "alert"}
_MENU_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|menu|breadcrumbs?|cookies?|sidebar|share|social|skip)(?:$|[\s_-])"
)
_BLOCKS = (
    "address", "article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "header", "hr", "html", "legend", "li",
    "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th",
    "thead", "tr", "ul", "br", *_HEADINGS,
)  # fmt: skip


def read_html(raw: bytes | str) -> Content:
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
    prose = (block for block in _blocks(soup) if block.kind is not BlockKind.CODE)
    blocks, headed = headed_pairs(_with_topics(prose))
    seen: set[str] = set()
    unique = [
        pair
        for pair in [*pairs, *headed]
        if pair.question not in seen and not seen.add(pair.question)  # type: ignore[func-returns-value]
    ]
    if not blocks and not unique:
        raise DocumentError("empty", "the page has no text")
    return Content("html", tuple(blocks), tuple(unique), text=tuple(text))


def read_markdown(text: str) -> Content:
    """The content of a Markdown document; front matter is left out.

    Raises:
        DocumentError: `empty`.
    """
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    page = parser.render(_FRONT_MATTER.sub("", text, count=1))
    return replace(read_html(f"<html><body>{page}</body>"), kind="markdown")


def _is_menu(tag: Tag) -> bool:
    if tag.name in _DROPPED or tag.has_attr("hidden") or tag.get("aria-hidden") == "true":
        return True
    if str(tag.get("role", "")) in _MENU_ROLES:
        return True
    if tag.name in ("header", "footer"):
        # Of the page, not of an article in it.
        return tag.find_parent(["article", "main", "section"]) is None
    if tag.name in ("html", "body", "main", "article"):
        return False
    names = [*tag.get_attribute_list("class"), *tag.get_attribute_list("id")]
    return bool(_MENU_NAMES.search(" ".join(str(name) for name in names).lower()))


def _structured_pairs(soup: BeautifulSoup) -> list[Pair]:
    """Pairs that the page declares for search engines (schema.org's FAQPage)."""
    pairs: list[Pair] = []
    for script in soup.find_all("script", type="application/ld+json"):
        try:
            value = json.loads(script.get_text())
        except (ValueError, RecursionError):
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
    for details in soup.find_all("details"):
        summary = None if details.decomposed else details.find("summary")
        if not isinstance(summary, Tag):
            continue
        question = _text(summary)
        if not question.endswith(("?", "？")):
            continue
        summary.extract()
        if answer := _text(details):
            pairs.append(Pair(question, answer, _topic_before(details)))
            details.decompose()
        else:
            details.insert(0, summary)
    for term in soup.find_all("dt"):
        question = _text(term)
        definition = term.find_next_sibling(["dt", "dd"])
        if not question.endswith(("?", "？")) or definition is None or definition.name != "dd":
            continue
        if answer := _text(definition):
            pairs.append(Pair(question, answer, _topic_before(term)))
            term.decompose()
            definition.decompose()
    return pairs


def _topic_before(tag: Tag) -> str | None:
    heading = tag.find_previous(list(_HEADINGS))
    return (_text(heading) or None) if heading is not None else None


def _text(tag: Tag) -> str:
    """All text in a tag on one line; blocks in it are apart."""
    parts = [
        (" " if node.name in _BLOCKS else "") if isinstance(node, Tag) else str(node)
        for node, _ in _walk(tag)
        if not isinstance(node, PreformattedString)
    ]
    return joined(["".join(parts)])


def _blocks(soup: BeautifulSoup) -> Iterator[Block]:
    """Blocks in reading order."""
    for table in soup.find_all("table"):
        if table.find("table") is None and table.find("th") is not None:
            _flatten(soup, table)
    held: list[str] = []
    kind, level = BlockKind.PARAGRAPH, 0

    def closed() -> Iterator[Block]:
        code = kind is BlockKind.CODE
        text = "".join(held).strip("\n") if code else joined(["".join(held)])
        held.clear()
        if text:
            yield Block(kind, text, level=level)

    for node, opened in _walk(soup):
        if isinstance(node, Tag):
            if node.name not in _BLOCKS:
                continue
            yield from closed()
            kind, level = _kind_of(node if opened else node.parent)
        elif not isinstance(node, PreformattedString):
            held.append(str(node))
    yield from closed()


def _walk(root: Tag) -> Iterator[tuple[Tag | NavigableString, bool]]:
    """Every node, tags twice: when they open and when they close; not recursive."""
    stack: list[tuple[Any, bool]] = [(child, True) for child in reversed(root.contents)]
    while stack:
        node, opening = stack.pop()
        yield node, opening
        if opening and isinstance(node, Tag):
            stack.append((node, False))
            stack.extend((child, True) for child in reversed(node.contents))


def _kind_of(tag: Tag | None) -> tuple[BlockKind, int]:
    while tag is not None:
        if tag.name in _HEADINGS:
            return BlockKind.HEADING, _HEADINGS[tag.name]
        if tag.name == "li":
            return BlockKind.ITEM, 0
        if tag.name == "pre" and tag.find("code") is not None:
            return BlockKind.CODE, 0
        if tag.get("data-knowgate-row") is not None:
            return BlockKind.TABLE_ROW, 0
        if tag.name in _BLOCKS and tag.name not in ("p", "br"):
            break
        tag = tag.parent
    return BlockKind.PARAGRAPH, 0


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


def _with_topics(blocks: Iterator[Block]) -> list[Block]:
    topic: str | None = None
    found: list[Block] = []
    for block in blocks:
        if block.kind is BlockKind.HEADING:
            topic = block.text
        found.append(replace(block, topic=topic))
    return found
