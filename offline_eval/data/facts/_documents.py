"""Find documents and read them, in any supported format."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....guard.errors import InputError
from ....guard.files import read_bytes
from ....guard.text import clean_text
from ._blocks import Content, DocumentError, blocks_of_lines, text_pairs
from ._html import read_html, read_markdown
from ._pdf import read_pdf
from ._records import read_json_records, read_jsonl_records, read_table

MAX_BYTES = 64 * 1024 * 1024
_MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")
_HTML = (".html", ".htm", ".xhtml")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A document to read.

    Attributes:
        name: what the build calls it.
        path: where it lies, without links.
        outside: whether a link in the folder that was named leads out of that folder.
    """

    name: str
    path: Path
    outside: bool = False


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document as read.

    Attributes:
        name: what the build calls it.
        sha256: of its bytes; empty where they could not be read.
        content: None where `failure` is set.
        failure: (type, detail).
    """

    name: str
    sha256: str
    content: Content | None
    failure: tuple[str, str] | None = None


def find_documents(
    places: Sequence[str | os.PathLike[str]], *, without: str | os.PathLike[str] | None = None
) -> list[FoundFile]:
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
        if not root.is_dir():
            found.setdefault(root.resolve(), (root.name, str(root.parent.resolve().name), False))
            continue
        inside = root.resolve()
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and Path(folder, name).resolve() != gone
            )
            for name in sorted(files):
                path = Path(folder, name)
                if not name.startswith("."):
                    short = path.relative_to(root).as_posix()
                    real = Path(os.path.realpath(path))  # unlike `resolve`, also of a loop
                    outside = not real.is_relative_to(inside)
                    found.setdefault(real, (short, inside.name, outside))
    if not found:
        where = ", ".join(os.fspath(place) for place in places)
        raise InputError("there is no document", where=where, hint="name files or folders")
    return sorted(_named(found), key=lambda file: file.name)


def _named(found: dict[Path, tuple[str, str, bool]]) -> list[FoundFile]:
    names = [clean_text(short) for short, _, _ in found.values()]
    files: list[FoundFile] = []
    taken: set[str] = set()
    for (path, (_, folder, outside)), name in zip(found.items(), names, strict=True):
        unique = name if names.count(name) == 1 else clean_text(f"{folder}/{name}")
        while unique in taken:
            unique += "'"
        taken.add(unique)
        files.append(FoundFile(unique, path, outside))
    return files


def read_document(file: FoundFile) -> ReadDocument:
    """Read one document; a document that cannot be read is a typed failure, not an error."""
    if file.outside:
        detail = "is a link out of the folder; name the file itself"
        return ReadDocument(file.name, "", None, ("unreadable", detail))
    try:
        raw = read_bytes(file.path, links=False, most_bytes=MAX_BYTES)
    except OSError as error:
        kind = "too_large" if error.errno == errno.EFBIG else "unreadable"
        return ReadDocument(file.name, "", None, (kind, error.strerror or "unknown"))
    sha256 = hashlib.sha256(raw).hexdigest()
    try:
        return ReadDocument(file.name, sha256, read_content(raw, file.path.suffix.lower()))
    except DocumentError as error:
        return ReadDocument(file.name, sha256, None, (error.type, error.detail))


def read_content(raw: bytes, suffix: str) -> Content:
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
    if suffix in _HTML:
        if b"\0" in raw and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DocumentError("binary", "no text file")
        return read_html(raw)
    text = clean_text(_decoded(raw)).lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if suffix in _MARKDOWN:
        return read_markdown(text)
    if suffix in (".csv", ".tsv"):
        return read_table(text, tabs=suffix == ".tsv")
    if suffix == ".json":
        return read_json_records(text)
    if suffix in (".jsonl", ".ndjson"):
        return read_jsonl_records(text)
    return _plain(text)


def _plain(text: str) -> Content:
    lines = text.replace("\f", "\n\n").split("\n")
    rest, pairs = text_pairs(lines)
    blocks = blocks_of_lines(rest)
    if not blocks and not pairs:
        raise DocumentError("empty", "there is no text in it")
    return Content("text", tuple(blocks), tuple(pairs), text=tuple(blocks_of_lines(lines)))


def _decoded(raw: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in raw:
        raise DocumentError("binary", "no text file")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        control = sum(byte < 9 or 13 < byte < 32 for byte in raw[:4096])
        if control > len(raw[:4096]) / 50:
            raise DocumentError("binary", "no text file") from None
        raise DocumentError("encoding", "not UTF-8 text; save it as UTF-8") from None
    if sum(ord(letter) < 9 or 13 < ord(letter) < 32 for letter in text[:4096]) > 40:
        raise DocumentError("binary", "no text file")
    return text
