"""Find documents and read them: text, tables, records and PDF; others read HTML and Markdown."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DependencyError

from ....guard.errors import NO_JSON, InputError
from ....guard.files import AnyPath, read_bytes
from ....guard.text import clean_text
from ..fields import delimiter_of
from ..rules import Rules
from ._blocks import (
    Block,
    DocumentError,
    Pair,
    ReadDocument,
    TextKind,
    blocks_of_lines,
    joined,
    text_pairs,
)
from ._html import read_html, read_markdown, table_line

MAX_BYTES = 64 * 1024 * 1024
_HTML = (".html", ".htm", ".xhtml")


# What the build calls a document, and where it lies, without links; None where a link in the folder
# that was named leads out of that folder.
FoundFile = tuple[str, Path | None]


def find_documents(places: Sequence[AnyPath], *, without: AnyPath | None = None) -> list[FoundFile]:
    """List the files that `places` name, those in folders and subfolders included.

    Hidden files and folders are passed over, links to folders are not followed, and links to
    files outside of the folder that was named are found but not read.

    Args:
        places: files and folders.
        without: a folder that is passed over where it lies below one of them.

    Returns:
        In order of their names: paths below the folder that was named; where two would
        be called the same, the folder's name stands before.

    Raises:
        InputError: a place does not exist, or there is no file at all.
    """
    found: dict[Path, tuple[str, str, bool]] = {}
    gone = Path(without).resolve() if without is not None else None
    for place in places:
        root = Path(place)
        if not root.exists():
            raise InputError("no such file or folder", where=str(root), hint="check the path")
        inside = root.resolve()
        if not root.is_dir():
            found.setdefault(inside, (root.name, str(root.parent.resolve().name), False))
            continue
        for path in sorted(root.rglob("*")):
            short = path.relative_to(root)
            hidden = any(part.startswith(".") for part in short.parts)
            if not hidden and not path.is_dir() and gone not in (inside / short).parents:
                # Unlike `resolve`, also of a loop.
                real = Path(os.path.realpath(path))
                outside = not real.is_relative_to(inside)
                found.setdefault(real, (short.as_posix(), inside.name, outside))
    if not found:
        where = ", ".join(os.fspath(place) for place in places)
        raise InputError("there is no document", where=where, hint="name files or folders")
    counts = Counter(clean_text(below) for below, _, _ in found.values())
    files: dict[str, Path | None] = {}
    for path, (below, folder, outside) in found.items():
        name = clean_text(below)
        name = name if counts[name] == 1 else clean_text(f"{folder}/{name}")
        while name in files:
            name += "'"
        files[name] = None if outside else path
    return sorted(files.items(), key=lambda file: file[0])


def read_document(file: FoundFile) -> ReadDocument:
    """Read one document; a document that cannot be read is a typed failure, not an error."""
    (name, path), sha256 = file, ""
    try:
        if path is None:
            raise DocumentError("unreadable", "is a link out of the folder; name the file itself")
        raw = read_bytes(path, links=False, most_bytes=MAX_BYTES)
        sha256 = hashlib.sha256(raw).hexdigest()
        return replace(read_content(raw, path.suffix.lower()), name=name, sha256=sha256)
    except DocumentError as error:
        fault = error.type, error.detail
    except OSError as error:
        kind = "too_large" if error.errno == errno.EFBIG else "unreadable"
        fault = kind, error.strerror or "unknown"
    return ReadDocument("", faults=(fault,), name=name, sha256=sha256)


def read_content(raw: bytes, suffix: str) -> ReadDocument:
    """Read the content of a document's bytes.

    Args:
        raw: all of them.
        suffix: of its name, in small letters, with the dot; an unknown one is taken for
            plain text, if it is text.

    Raises:
        DocumentError: nothing can be read.
    """
    if not raw.strip():
        raise DocumentError("empty", "the file is empty")
    if suffix == ".pdf" or raw.startswith(b"%PDF-"):
        return read_pdf(raw)
    control = 0 if suffix in _HTML else sum(byte < 9 or 13 < byte < 32 for byte in raw[:4096])
    if b"\0" in raw or control > min(40, len(raw[:4096]) / 50):
        raise DocumentError("binary", "no text file")
    if suffix in _HTML:
        return read_html(raw)
    try:
        text = clean_text(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DocumentError("encoding", "not UTF-8 text; save it as UTF-8") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _READERS.get(suffix, _read_plain)(text)


def _read_plain(text: str) -> ReadDocument:
    lines = text.replace("\f", "\n\n").split("\n")
    return _of_lines("text", lines, "there is no text in it")


def _of_lines(kind: str, lines: Sequence[str], empty: str) -> ReadDocument:
    rest, pairs = text_pairs(lines)
    blocks = blocks_of_lines(rest)
    if not blocks and not pairs:
        raise DocumentError("empty", empty)
    return ReadDocument(kind, tuple(blocks), tuple(pairs), text=tuple(blocks_of_lines(lines)))


_NAMES = {name: text.split() for name, text in Rules(__file__, "documents").table["words"].items()}
_MAX_CELL = 1_000_000


def read_table(text: str, *, tabs: bool) -> ReadDocument:
    """The content of a CSV or TSV file with a head.

    With a column of questions and one of answers its rows are pairs, otherwise lines
    of `head: value`.

    Raises:
        DocumentError: `empty` or `broken`.
    """
    csv.field_size_limit(_MAX_CELL)
    delimiter = delimiter_of(text, tabs=tabs)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise DocumentError("broken", f"no readable table ({error})") from None
    rows = [[clean_text(cell).strip() for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    if len(rows) < 2:
        raise DocumentError("empty", "a head and at least one row are needed")
    head = [" ".join(cell.split()) for cell in rows[0]]
    names = [name.lower() for name in head]
    if not all(set(names) & set(_NAMES[one]) for one in ("question", "answer")):
        lines = [joined([table_line(head, row)]) for row in rows[1:]]
        blocks = tuple(Block(TextKind.TABLE_ROW, line) for line in lines if line)
        return ReadDocument("table", blocks, text=blocks)
    records = (
        (f"row {number}", dict(zip(names, row, strict=False)))
        for number, row in enumerate(rows[1:], start=2)
    )
    return _content(records, "table")


def read_json_records(text: str) -> ReadDocument:
    """Pairs of a JSON list of objects, or of an object with such a list (`questions`, `faq` …).

    Raises:
        DocumentError: `broken`, or `no_questions`.
    """
    value = _loaded(text)
    if value is _BROKEN:
        raise DocumentError("broken", "no readable JSON")
    if isinstance(value, dict):
        lists = [value[name] for name in _NAMES["lists"] if isinstance(value.get(name), list)]
        value = lists[0] if lists else [value]
    if not isinstance(value, list):
        raise DocumentError("no_questions", "no list of questions with answers in it")
    return _content(((f"item {n}", item) for n, item in enumerate(value, start=1)), "records")


def read_jsonl_records(text: str) -> ReadDocument:
    """Pairs of a JSON-lines file, one object a line.

    Raises:
        DocumentError: `no_questions`: no line has both.
    """
    lines = ((n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip())
    return _content(((f"line {n}", _loaded(line)) for n, line in lines), "records")


_BROKEN = object()


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except NO_JSON:
        return _BROKEN


# By the ending of a name; anything else is plain text.
_READERS: dict[str, Callable[[str], ReadDocument]] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), read_markdown),
    ".csv": partial(read_table, tabs=False),
    ".tsv": partial(read_table, tabs=True),
    ".json": read_json_records,
    **dict.fromkeys((".jsonl", ".ndjson"), read_jsonl_records),
}


def _content(records: Iterable[tuple[str, Any]], kind: str) -> ReadDocument:
    pairs: list[Pair] = []
    faults: list[tuple[str, str]] = []
    for place, record in records:
        if not isinstance(record, Mapping):
            faults.append(("bad_record", f"{place}: no JSON object"))
            continue
        names = {str(name).lower(): value for name, value in record.items()}
        question, answer = (_value(names, _NAMES[one]) for one in ("question", "answer"))
        if question is None or answer is None:
            missing = "question" if question is None else "answer"
            faults.append(("bad_record", f"{place}: no {missing}"))
            continue
        pairs.append(Pair(question, answer, _value(names, _NAMES["topic"])))
    if not pairs:
        raise DocumentError("no_questions", "no record has a question and an answer")
    text = tuple(pair.as_block() for pair in pairs)
    return ReadDocument(kind, (), tuple(pairs), tuple(faults), text)


def _value(record: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        found = record.get(name)
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, str) and (text := joined([clean_text(found)])):
            return text
    return None


_DIGITS = re.compile(r"\d+")
_MARGIN_LINES, _PAGE_WORDS = 2, 3
# Beyond these a file is taken for an attack, or for no text to ask about.
_MOST_PAGES, _MOST_OBJECTS, _MOST_CHARACTERS = 5_000, 500_000, 50_000_000


def read_pdf(raw: bytes) -> ReadDocument:
    """The content of a PDF; what repeats at the margins of its pages is left out.

    Raises:
        DocumentError: `encrypted`, `broken`, `too_large` (pages, objects or text), or `empty`
            (also a scan without text).
    """
    logger = logging.getLogger("pypdf")
    before = logger.level
    # The library warns about every oddity of a file, on the console.
    logger.setLevel(logging.CRITICAL)
    try:
        pages = _pages(raw)
    except DocumentError:
        raise
    except DependencyError:
        raise DocumentError("encrypted", "reading it needs `pip install cryptography`") from None
    except Exception as error:  # noqa: BLE001 - a broken file can raise anything inside the parser
        raise DocumentError("broken", f"no readable PDF ({type(error).__name__})") from None
    finally:
        logger.setLevel(before)
    lines = [line for page in _without_margins(pages) for line in [*page, ""]]
    return _of_lines("pdf", lines, "no text in it; a scan needs text recognition first")


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


def _without_margins(pages: list[list[str]]) -> list[list[str]]:
    """Pages without the first and last lines that half of them, at least three, share."""
    margins: list[set[int]] = []
    seen: Counter[str] = Counter()
    for page in pages:
        places = [number for number, line in enumerate(page) if line.strip()]
        margins.append({*places[:_MARGIN_LINES], *places[-_MARGIN_LINES:]})
        seen.update({_shape(page[number]) for number in margins[-1]})
    least = max(3, len(pages) / 2)
    return [
        [
            line
            for number, line in enumerate(page)
            if number not in margin or seen[_shape(line)] < least
        ]
        for page, margin in zip(pages, margins, strict=True)
    ]


def _shape(line: str) -> str:
    """The line, without its digits where it is little else than a number of the page."""
    plain = " ".join(line.split()).lower()
    shape = _DIGITS.sub("#", plain)
    return shape if len(shape.replace("#", " ").split()) <= _PAGE_WORDS else plain
