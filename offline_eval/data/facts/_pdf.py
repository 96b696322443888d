"""Read the text of a PDF's pages."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections import Counter
from collections.abc import Iterator

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from ....guard.text import clean_text
from ._blocks import Content, DocumentError, blocks_of_lines, text_pairs

_DIGITS = re.compile(r"\d+")
_MARGIN_LINES, _PAGE_WORDS = 2, 3
# Beyond these a file is taken for an attack, or for no text to ask about.
_MOST_PAGES, _MOST_OBJECTS, _MOST_CHARACTERS = 5_000, 500_000, 50_000_000


def read_pdf(raw: bytes) -> Content:
    """The content of a PDF; what repeats at the margins of its pages is left out.

    Raises:
        DocumentError: `encrypted`, `broken`, `too_large` (pages, objects or text), or `empty`
            (also a scan without text).
    """
    try:
        with _quiet():
            pages = _pages(raw)
    except DocumentError:
        raise
    except DependencyError:
        raise DocumentError("encrypted", "reading it needs `pip install cryptography`") from None
    except PyPdfError as error:
        raise DocumentError("broken", f"no readable PDF ({type(error).__name__})") from None
    except Exception as error:  # noqa: BLE001 - a broken file can raise anything inside the parser
        raise DocumentError("broken", f"no readable PDF ({type(error).__name__})") from None
    lines = [line for page in _without_margins(pages) for line in [*page, ""]]
    rest, pairs = text_pairs(lines)
    blocks = blocks_of_lines(rest)
    if not blocks and not pairs:
        raise DocumentError("empty", "no text in it; a scan needs text recognition first")
    return Content("pdf", tuple(blocks), tuple(pairs), text=tuple(blocks_of_lines(lines)))


def _pages(raw: bytes) -> list[list[str]]:
    reader = PdfReader(io.BytesIO(raw))
    if reader.is_encrypted and not reader.decrypt(""):
        raise DocumentError("encrypted", "the file asks for a password")
    objects = sum(map(len, reader.xref.values())) + len(reader.xref_objStm)
    if objects > _MOST_OBJECTS:
        raise DocumentError("too_large", f"{objects:,} objects, more than {_MOST_OBJECTS:,}")
    pages: list[list[str]] = []
    characters = 0
    for page in reader.pages:
        text = clean_text(page.extract_text())
        characters += len(text)
        if len(pages) >= _MOST_PAGES:
            raise DocumentError("too_large", f"more than {_MOST_PAGES:,} pages")
        if characters > _MOST_CHARACTERS:
            raise DocumentError("too_large", f"more than {_MOST_CHARACTERS:,} characters of text")
        pages.append(text.split("\n"))
    return pages


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The library warns about every oddity of a file, on the console."""
    logger = logging.getLogger("pypdf")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _without_margins(pages: list[list[str]]) -> list[list[str]]:
    """Pages without the first and last lines that half of them, at least three, share."""
    kept = [[line for line in page if line.strip()] for page in pages]
    seen: Counter[str] = Counter()
    for page in kept:
        seen.update({_shape(line) for line in page[:_MARGIN_LINES] + page[-_MARGIN_LINES:]})
    repeated = {shape for shape, n in seen.items() if n >= max(3, len(pages) / 2)}
    found: list[list[str]] = []
    for page in pages:
        places = [number for number, line in enumerate(page) if line.strip()]
        margin = {*places[:_MARGIN_LINES], *places[-_MARGIN_LINES:]}
        found.append(
            [
                line
                for number, line in enumerate(page)
                if number not in margin or _shape(line) not in repeated
            ]
        )
    return found


def _shape(line: str) -> str:
    """The line, without its digits where it is little else than a number of the page."""
    plain = " ".join(line.split()).lower()
    shape = _DIGITS.sub("#", plain)
    return shape if len(shape.replace("#", " ").split()) <= _PAGE_WORDS else plain
